"""``headway drill``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headway.cli.exits import Exit, command, usage

if TYPE_CHECKING:
    from headway.drill.catalog import Drill
    from headway.drill.run import DrillResult

EPILOG = """
[bold]Examples[/bold]

[dim]# What there is[/dim]
headway drill --list

[dim]# All of them, some five minutes[/dim]
headway drill

[dim]# One, twenty times in a row, with a report for a program[/dim]
headway drill kill-worker --repeat 20 --json report.json

[bold]Exit codes[/bold]  0 all passed · 1 one failed · 2 wrong usage · 130 interrupted
"""


@command
def drill(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="DRILL...", help="Drills to run. [dim]Default: all.[/dim]"),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="DRILL,...", help="The same, as one list with commas."),
    ] = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="List the drills, and what each shows.")
    ] = False,
    repeat: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="Times that each is run in a row.")
    ] = 1,
    transport: Annotated[
        Literal["grpcio", "native", "both"],
        typer.Option(help="Server of the gateways' data ports. The soak is for both."),
    ] = "grpcio",
    short: Annotated[
        bool,
        typer.Option("--short", help="A tenth of the load of the long ones, as in the tests."),
    ] = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the report, for programs."),
    ] = None,
    logs: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Keep the logs. [dim]Default: only of drills that fail.[/dim]"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the load.")] = 1,
) -> int:
    """Break a fleet on purpose, and see that nothing is lost.

    For each drill it starts gateways and workers on free loopback ports, lays load on, has
    something go wrong, and checks: each call ended in time, with its own answer or a typed error;
    every counter and slot is back at zero; memory is flat. Ctrl-C stops everything.
    """
    from headway.drill.catalog import DRILLS

    if list_only:
        _list(list(DRILLS.values()))
        return Exit.OK
    wanted = [*(names or ()), *(only.split(",") if only else ())] or list(DRILLS)
    unknown = [name for name in wanted if name not in DRILLS]
    if unknown:
        usage(f"{unknown[0]!r} is not a drill; there are: {', '.join(DRILLS)}")
    transports = ("grpcio", "native") if transport == "both" else (transport,)
    results: list[DrillResult] = []
    try:
        for name in wanted:
            for server in transports:
                for number in range(repeat):
                    which = f", {number + 1} of {repeat}" if repeat > 1 else ""
                    print(f"{name} on {server}{which}", flush=True)
                    results.append(_run(DRILLS[name], server, logs, number, seed, short))
                    _tell(results[-1])
    finally:
        if json_file is not None:
            _write(json_file, results)
    _sum_up(results)
    return Exit.OK if all(result.passed for result in results) else Exit.FAILED


def _list(drills: "list[Drill]") -> None:
    for each in drills:
        print(f"{each.name:18} {each.text}")


def _folder(logs: Path | None, name: str, transport: str, number: int) -> Path:
    import tempfile

    if logs is None:
        return Path(tempfile.mkdtemp(prefix=f"headway-drill-{name}-"))
    folder = logs / f"{name}-{transport}-{number + 1}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _run(
    drill: "Drill", transport: str, logs: Path | None, number: int, seed: int, short: bool
) -> "DrillResult":
    import asyncio
    import shutil

    from headway.clock import SystemClock
    from headway.drill.run import run_drill

    folder = _folder(logs, drill.name, transport, number)
    result = asyncio.run(
        run_drill(
            drill,
            transport=transport,
            folder=folder,
            clock=SystemClock(),
            seed=seed + number,
            size=0.1 if short else 1.0,
            say=lambda text: print(f"  {text}", flush=True),
        )
    )
    if result.passed and logs is None:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def _tell(result: "DrillResult") -> None:
    verdict = "passed" if result.passed else f"FAILED: {result.reason}"
    print(f"  {verdict} after {result.seconds:g} s")
    for name, value in result.figures.items():
        print(f"    {name.replace('_', ' ')}: {_shown(value)}")
    print(flush=True)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(each)}" for key, each in value.items())
    if isinstance(value, list):
        return " to ".join(map(str, value))
    return str(value)


def _write(file: Path, results: "list[DrillResult]") -> None:
    import dataclasses
    import json

    file.write_text(json.dumps([dataclasses.asdict(each) for each in results], indent=2) + "\n")


def _sum_up(results: "list[DrillResult]") -> None:
    by_name: dict[str, list[bool]] = {}
    for result in results:
        by_name.setdefault(f"{result.drill} on {result.transport}", []).append(result.passed)
    for name, passed in by_name.items():
        print(f"{name:32} {sum(passed)} of {len(passed)}")
