"""``headway status``, ``replicas``, ``split``, ``explain``, ``log-level`` and ``audit``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headway.cli import control, options
from headway.cli.connection import BY_OPTIONS, Connection
from headway.cli.exits import EXIT_CODES_HELP, command, usage
from headway.cli.operate_views import audit_view, escaped, replicas_view, split_view, state_view

if TYPE_CHECKING:
    pass

EPILOG = f"""
[bold]Examples[/bold]

headway status
headway replicas drain worker-1
headway split set minilm v1=0.9 v2=0.1
headway explain 5f1c9a02-3

{control.ROLE_HELP}

{EXIT_CODES_HELP}
"""

EXPLAIN_EPILOG = f"""
[bold]Examples[/bold]

headway explain 5f1c9a02-3
headway explain 5f1c9a02-3 --json

{control.ROLE_HELP}

{EXIT_CODES_HELP}
"""
LOG_LEVEL_EPILOG = f"""
[bold]Examples[/bold]

headway log-level debug
headway log-level info --logger headway.gateway.fleet

{control.ROLE_HELP}

{EXIT_CODES_HELP}
"""
STATUS_EPILOG = f"""
[bold]Examples[/bold]

headway status
headway status --address 10.0.0.1:50052 --json

{control.ROLE_HELP}

{EXIT_CODES_HELP}
"""
AUDIT_EPILOG = f"""
[bold]Examples[/bold]

headway audit --limit 50
headway audit --target acme

{control.ROLE_HELP}

{EXIT_CODES_HELP}
"""

replicas = options.group("List, drain and undrain replicas.")
split = options.group("Show and change how traffic divides over versions.")


@command
@control.to_control
def status(
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Show the state of a gateway: queues, replicas, splits, its store."""
    return control.ask(lambda c: c.state(), state_view, connection, as_json=as_json)


@replicas.command("list", epilog=EPILOG)
@command
@control.to_control
def list_replicas(
    model: Annotated[str, typer.Option(metavar="NAME", help="Only of this model.")] = "",
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """List replicas, by name."""
    return control.ask(lambda c: c.replicas(model), replicas_view, connection, as_json=as_json)


@replicas.command(epilog=EPILOG)
@command
@control.to_control
def drain(
    worker: control.Worker,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Send a worker no more work; what it has, it finishes. On every gateway of the store."""
    return control.ask(lambda c: c.drain(worker), replicas_view, connection, as_json=as_json)


@replicas.command(epilog=EPILOG)
@command
@control.to_control
def undrain(
    worker: control.Worker,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Take a drain back."""
    return control.ask(lambda c: c.undrain(worker), replicas_view, connection, as_json=as_json)


@split.command("show", epilog=EPILOG)
@command
@control.to_control
def show_split(
    model: control.Model,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Show how a model's traffic divides over its versions."""
    return control.ask(lambda c: c.split(model), split_view, connection, as_json=as_json)


@split.command("set", epilog=EPILOG)
@command
@control.to_control
def set_split(
    model: control.Model,
    shares: Annotated[
        list[str],
        typer.Argument(metavar="VERSION=SHARE...", help="They add up to 1: v1=0.9 v2=0.1."),
    ],
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Divide a model's traffic anew, on every gateway of the store."""
    wanted = _parsed(shares)
    return control.ask(
        lambda c: c.set_split(model, wanted),
        split_view,
        connection,
        as_json=as_json,
    )


@command
@control.to_control
def explain(
    request_id: Annotated[
        str,
        typer.Argument(
            metavar="REQUEST_ID", help="As in the answer, or in the metadata of the error."
        ),
    ],
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Tell what happened to a request, and why. Ask the gateway that took it."""
    return control.ask(
        lambda c: c.explain(request_id),
        lambda answer: "\n".join(escaped(sentence) for sentence in answer.sentences),
        connection,
        as_json=as_json,
    )


@command
@control.to_control
def log_level(
    level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Argument(help="What to log.")
    ],
    logger: Annotated[
        str, typer.Option(metavar="NAME", help="Only this one: headway.gateway.fleet.")
    ] = "",
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Change how much a gateway logs, until it restarts."""
    return control.ask(
        lambda c: c.set_log_level(level, logger),
        lambda previous: f"{logger or 'headway'}: {previous} -> {level}",
        connection,
        as_json=as_json,
    )


@command
@control.to_control
def audit(
    target: Annotated[
        str,
        typer.Option(metavar="NAME", help="Only of this tenant, key, model, worker or gateway."),
    ] = "",
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=100_000, help="At most so many.")
    ] = 20,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Show who changed what, newest first."""
    return control.ask(
        lambda c: c.audit(target=target, limit=limit),
        audit_view,
        connection,
        as_json=as_json,
    )


def _parsed(shares: Sequence[str]) -> dict[str, float]:
    wanted: dict[str, float] = {}
    for text in shares:
        version, equals, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1
        if not version or not equals or not 0 <= value <= 1 or version in wanted:
            usage(f"{text!r} is not a share; write each version once, as v1=0.9")
        wanted[version] = value
    return wanted
