"""``headway verify-rollout``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headway.cli import options
from headway.cli.exits import Exit, command, usage

if TYPE_CHECKING:
    from headway.trial.run import TrialResult
    from headway.v1.control_pb2 import Rollout

EPILOG = """
[bold]Canaries[/bold]

good (promoted) · errors (fails on 3 % of requests) · slow (1.4 times the latency) · dead (fails
always) · starved (as fast, too few replicas) · bimodal (the same median, 10 % of batches stall)

[bold]Examples[/bold]

[dim]# All of them, two minutes[/dim]
headway verify-rollout

[dim]# One, for a program[/dim]
headway verify-rollout errors --json
"""


@command
def verify_rollout(
    scenario: Annotated[
        list[str] | None,
        typer.Argument(metavar="CANARY...", help="Canaries to try. [dim]Default: all.[/dim]"),
    ] = None,
    rate: Annotated[
        float, typer.Option(metavar="PER_S", min=20, max=2000, help="Requests a second.")
    ] = 120,
    preset: Annotated[
        Literal["fast", "default", "classic"], typer.Option(help="Rules of the rollouts.")
    ] = "fast",
    max_seconds: Annotated[
        float, typer.Option(metavar="S", min=10, help="Longest time for one rollout.")
    ] = 120,
    logs: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep the logs. [dim]Default: they go.[/dim]"),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the load.")] = 1,
    as_json: options.AsJson = False,
) -> int:
    """Try rollouts out on this machine: real processes, real load, canaries of known kinds.

    For each canary it starts a gateway and an unlike fleet of simulated devices on free loopback
    ports, lays load on, starts a rollout, and reports how it ended. Leaves with 1 if one ended
    otherwise than it should.
    """
    import dataclasses
    import json

    from headway.trial.scenario import TRIALS

    names = scenario or list(TRIALS)
    unknown = [name for name in names if name not in TRIALS]
    if unknown:
        usage(f"{unknown[0]!r} is not a canary; there are: {', '.join(TRIALS)}")
    results = []
    for name in names:
        result = _run(name, rate, preset, max_seconds, logs, seed, quiet=as_json)
        results.append(result)
        if not as_json:
            _tell(result)
    if as_json:
        print(json.dumps([dataclasses.asdict(result) for result in results]))
    return Exit.OK if all(result.as_expected for result in results) else Exit.FAILED


def _run(
    name: str,
    rate: float,
    preset: str,
    max_seconds: float,
    logs: Path | None,
    seed: int,
    *,
    quiet: bool,
) -> "TrialResult":
    import asyncio
    import tempfile

    from headway.clock import SystemClock
    from headway.trial.run import run_trial
    from headway.trial.scenario import TRIALS

    trial = TRIALS[name]
    if not quiet:
        print(f"{name}: {trial.text}; a fleet starts", flush=True)
    with tempfile.TemporaryDirectory(prefix="headway-trial-") as scratch:
        folder = Path(scratch) if logs is None else logs / name
        folder.mkdir(parents=True, exist_ok=True)
        return asyncio.run(
            run_trial(
                trial,
                rate_per_s=rate,
                seed=seed,
                folder=folder,
                clock=SystemClock(),
                preset=preset,
                max_seconds=max_seconds,
                watch=(lambda _: None) if quiet else _Progress(),
            )
        )


class _Progress:
    """Prints a line whenever the step or phase changes."""

    def __init__(self) -> None:
        self._seen: tuple[int, int] | None = None

    def __call__(self, rollout: "Rollout") -> None:
        now = (rollout.step, int(rollout.phase))
        if now != self._seen:
            self._seen = now
            share = f"{rollout.canary_share:.0%}"
            print(f"  {rollout.canary_version} has {share}: {rollout.reason}", flush=True)


def _tell(result: "TrialResult") -> None:
    verdict = "as it should" if result.as_expected else f"NOT as it should ({result.expected})"
    print(
        f"  {result.phase.replace('_', ' ')} by {result.test} after {result.seconds:g} s and "
        f"{result.canary_requests} canary requests, {verdict}; {result.ok} of {result.offered} "
        "requests answered\n",
        flush=True,
    )
    if result.ok < 0.8 * result.offered:
        print("  so few were answered: this machine is too busy for it; try a lower --rate\n")
