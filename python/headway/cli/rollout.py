"""``headway rollout``."""

import math
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headway.cli import control, options
from headway.cli.connection import BY_OPTIONS, Connection
from headway.cli.exits import (
    EXIT_CODES_HELP,
    Exit,
    code_of,
    command,
    error_as_json,
    usage,
)
from headway.cli.rollout_simulate import simulate

if TYPE_CHECKING:
    from headway.client import ControlClient
    from headway.v1.control_pb2 import Rollout

EPILOG = f"""
[bold]Examples[/bold]

[dim]# Move the traffic of minilm to v2, on evidence, and look on[/dim]
headway rollout start minilm v2 --watch

[dim]# In seconds instead of minutes, for a trial[/dim]
headway rollout start minilm v2 --preset fast --watch

[dim]# Why it was rolled back[/dim]
headway rollout show minilm-0c3e5b1d2f8a7e64

{EXIT_CODES_HELP}
"""

rollouts = options.group("Move traffic to another version, on evidence.", EPILOG)


rollouts.command()(command(simulate))


async def _rollouts(client: "ControlClient") -> "Sequence[str]":
    return [rollout.rollout_id for rollout in await client.rollouts()]


RolloutId = Annotated[
    str,
    typer.Argument(
        metavar="ROLLOUT",
        help="As `headway rollout list` shows.",
        autocompletion=control.completer(_rollouts),
    ),
]
_RULES = "Rules"


@rollouts.command()
@command
@control.to_control
def start(
    model: control.Model,
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="Version to move to.", show_default=False)
    ],
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Rules, as TOML or JSON (docs/rollout.md lists them). Flags win over it.",
            rich_help_panel=_RULES,
        ),
    ] = None,
    preset: Annotated[
        Literal["default", "fast", "classic"] | None,
        typer.Option(
            help="default: minutes a step. fast: seconds, for trials. classic: windows of raw "
            "p95, for comparison. [dim]Default: the file's, else default.[/dim]",
            rich_help_panel=_RULES,
        ),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENT,...",
            help="Shares of the new version in percent. [dim]Default: 1,5,25,50,95,100.[/dim]",
            rich_help_panel=_RULES,
        ),
    ] = None,
    min_step_seconds: Annotated[
        float | None,
        typer.Option(metavar="S", min=0, help="Least time at each step.", rich_help_panel=_RULES),
    ] = None,
    min_step_requests: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Least requests at each step.", rich_help_panel=_RULES
        ),
    ] = None,
    latency_tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="RATIO", min=0, help="Largest ratio taken for equal.", rich_help_panel=_RULES
        ),
    ] = None,
    error_tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="RATIO", min=0, help="Largest ratio taken for equal.", rich_help_panel=_RULES
        ),
    ] = None,
    false_rollback: Annotated[
        float | None,
        typer.Option(
            metavar="CHANCE",
            min=0,
            max=1,
            help="Chance of rolling an equal version back. [dim]Default: 0.01.[/dim]",
            rich_help_panel=_RULES,
        ),
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            min=0,
            help="Longest time for all of it. [dim]Default: a day.[/dim]",
            rich_help_panel=_RULES,
        ),
    ] = None,
    shadow: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            min=0,
            max=100,
            help="First copy so many percent of requests to it and discard the answers.",
            rich_help_panel=_RULES,
        ),
    ] = None,
    look_on: Annotated[bool, typer.Option("--watch", help="Look on until it ends.")] = False,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Begin to move a model's traffic to a version."""
    settings, chosen = _read_policy(policy)
    flags: dict[str, Any] = {
        "latency_tolerance": latency_tolerance,
        "error_tolerance": error_tolerance,
        "false_rollback_probability": false_rollback,
        "max_seconds": max_seconds,
        "steps": None if steps is None else _percents(steps),
    }
    settings |= {name: value for name, value in flags.items() if value is not None}
    least = {"min_seconds": min_step_seconds, "min_requests": min_step_requests}
    if given := {name: value for name, value in least.items() if value is not None}:
        settings["least"] = given
    if shadow is not None:
        settings["shadow"] = {"share": shadow / 100}

    async def begin(client: "ControlClient") -> "Rollout":
        return await client.start_rollout(
            model, version, preset=preset or chosen, settings=settings
        )

    rollout = _with_client(connection, begin, as_json=as_json)
    if look_on:
        return _watch(rollout.rollout_id, connection, as_json)
    _show_one(rollout, as_json)
    return Exit.OK


@rollouts.command()
@command
@control.to_control
def watch(
    rollout_id: RolloutId,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Look on until a rollout ends. Leaves with 0 if it was promoted, else with 1."""
    return _watch(rollout_id, connection, as_json)


@rollouts.command()
@command
@control.to_control
def show(
    rollout_id: RolloutId,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """A rollout and the trail of its verdicts, with their evidence."""
    import json

    from headway.cli import rollout_view

    async def read(client: "ControlClient") -> Any:
        return await client.rollout(rollout_id), await client.verdicts(rollout_id)

    rollout, verdicts = _with_client(connection, read, as_json=as_json)
    if as_json:
        trail = [control.plain(verdict) for verdict in verdicts]
        print(json.dumps({"rollout": control.plain(rollout), "verdicts": trail}))
        return Exit.OK
    console = _console()
    console.print(rollout_view.rollout_panel(rollout))
    console.print(rollout_view.trail(verdicts))
    return Exit.OK


@rollouts.command(name="list")
@command
@control.to_control
def list_rollouts(
    model: Annotated[str, typer.Option(metavar="NAME", help="Only of this model.")] = "",
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Rollouts, newest first."""
    import json

    from headway.cli import rollout_view

    found = _with_client(connection, lambda c: c.rollouts(model), as_json=as_json)
    if as_json:
        print(json.dumps(control.plain(found)))
    else:
        _console().print(rollout_view.rollout_table(found))
    return Exit.OK


@rollouts.command()
@command
@control.to_control
def pause(
    rollout_id: RolloutId,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Hold a rollout where it is. Its tests go on, and may still roll it back."""
    return _act(connection, as_json, lambda client: client.pause_rollout(rollout_id))


@rollouts.command()
@command
@control.to_control
def resume(
    rollout_id: RolloutId,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Let a paused rollout go on."""
    return _act(connection, as_json, lambda client: client.resume_rollout(rollout_id))


@rollouts.command()
@command
@control.to_control
def promote(
    rollout_id: RolloutId,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """End a rollout with all traffic on the new version, whatever the evidence."""
    return _act(connection, as_json, lambda client: client.promote_rollout(rollout_id))


@rollouts.command()
@command
@control.to_control
def abort(
    rollout_id: RolloutId,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="For the record.")] = "",
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """End a rollout with all traffic on the old version."""
    return _act(connection, as_json, lambda client: client.abort_rollout(rollout_id, reason))


def _act(
    connection: Connection,
    as_json: bool,
    action: "Callable[[ControlClient], Coroutine[Any, Any, Rollout]]",
) -> int:
    rollout = _with_client(connection, action, as_json=as_json)
    _show_one(rollout, as_json)
    return Exit.OK


def _with_client(
    connection: Connection,
    action: "Callable[[ControlClient], Coroutine[Any, Any, Any]]",
    *,
    as_json: bool = False,
) -> Any:
    """What an action gives; an error ends the command, told in the form that was asked for."""
    import asyncio

    from headway.client import ControlClient
    from headway.errors import HeadwayError

    async def run() -> Any:
        async with ControlClient(connection.address, **connection.client_options()) as client:
            return await action(client)

    try:
        return asyncio.run(run())
    except HeadwayError as error:
        if not as_json:
            raise
        print(error_as_json(error))
        raise typer.Exit(int(code_of(error))) from error


def _watch(rollout_id: str, connection: Connection, as_json: bool) -> int:
    import json

    from rich.live import Live

    from headway.cli import rollout_view
    from headway.clock import SystemClock

    clock = SystemClock()

    async def follow(client: "ControlClient") -> "Rollout":
        rollout = await client.rollout(rollout_id)
        with Live(console=_console(), auto_refresh=False) as live:
            while True:
                if as_json:
                    print(json.dumps(control.plain(rollout)), flush=True)
                else:
                    live.update(rollout_view.rollout_panel(rollout), refresh=True)
                if rollout.HasField("ended_at"):
                    return rollout
                await clock.sleep(1_000_000_000)
                rollout = await client.rollout(rollout_id)

    rollout = _with_client(connection, follow, as_json=as_json)
    return Exit.OK if rollout_view.phase_name(rollout) == "promoted" else Exit.FAILED


def _show_one(rollout: "Rollout", as_json: bool) -> None:
    import json

    from headway.cli import rollout_view

    if as_json:
        print(json.dumps(control.plain(rollout)))
    else:
        _console().print(rollout_view.rollout_panel(rollout))


def _read_policy(path: Path | None) -> tuple[dict[str, Any], str]:
    """Settings and preset of a policy file."""
    import json
    import tomllib

    if path is None:
        return {}, ""
    try:
        text = path.read_text(encoding="utf-8")
        plain = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        usage(f"--policy {path}: {error}")
    if not isinstance(plain, dict):
        usage(f"--policy {path} holds no table of settings")
    return plain, str(plain.pop("preset", ""))


def _percents(text: str) -> list[float]:
    try:
        percents = [float(part) / 100 for part in text.split(",")]
    except ValueError:
        percents = [math.nan]
    if all(0 <= each <= 1 for each in percents):
        return percents
    else:
        usage(f"--steps {text!r} is not a list of percents; write 1,5,25,50,95,100")


def _console() -> Any:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160, highlight=False)
