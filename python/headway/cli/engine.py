"""``headway engine``: what the engine of a worker did, step by step."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from headway.cli import options
from headway.cli.exits import command, usage

EPILOG = """
[bold]Examples[/bold]

[dim]# The last steps of the decoder that headway serve started[/dim]
headway engine trace

[dim]# All of a file, and its timeline as a picture[/dim]
headway engine trace steps.jsonl --last 0 --plot steps.png

A worker keeps its steps with --trace-file, or with trace_file in its runtime's settings.
"""

engine = options.group("Look into the engine of a worker that writes.")


@engine.callback()
def _group() -> None:
    """Look into the engine of a worker that writes."""


@engine.command(epilog=EPILOG)
@command
def trace(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Steps, a line of JSON each. [dim]Default: those of headway serve.[/dim]",
            show_default=False,
        ),
    ] = None,
    last: Annotated[
        int, typer.Option(metavar="N", min=0, help="Show the last N steps; 0 for all.")
    ] = 20,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="PNG", help="Draw the timeline of the steps shown. [dim]Default: no.[/dim]"
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the lines as they are, for programs.")
    ] = False,
) -> int:
    """Show steps: graph, lanes, predicted and actual time, handoff, reason and prices."""
    import json

    path = file or _default_file()
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line]
        # A worker may be writing the last line just now.
        steps = [json.loads(line) for line in lines if line.endswith("}")]
    except OSError as error:
        usage(f"{path}: {error.strerror}; start a worker with --trace-file, or name its file")
    except ValueError as error:
        usage(f"{path} is not a file of steps: {error}")
    steps = steps[-last:] if last else steps
    if not steps:
        usage(f"{path} has no steps yet; send the worker a request")
    if as_json:
        for step in steps:
            print(json.dumps(step))
    else:
        from rich.console import Console

        from headway.cli.engine_view import as_table, summary

        console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
        console.print(as_table(steps))
        console.print(summary(steps))
    if plot is not None:
        from headway.cli.engine_view import draw

        draw(steps, plot)
    return 0


def _default_file() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "headway" / "serve" / "decoder-a.trace"
