"""`headway lab dispatch`, `plot` and `oracle`: step scheduling under study."""

import math
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.exits import command
from headway.errors import ConfigError

EPILOG = """
[bold]Examples[/bold]

headway lab dispatch --decode-values 1,16,64,256 --output first
headway lab dispatch --mixed --workload mixed_phases --output mixed
headway lab plot first
"""


def register(lab: typer.Typer) -> None:
    """Adds the commands to `headway lab`."""
    lab.command(epilog=EPILOG)(dispatch)
    lab.command()(plot)
    lab.command()(oracle)


@command
def dispatch(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="New directory for the results."),
    ],
    decode_values: Annotated[
        str,
        typer.Option(
            "--decode-values",
            metavar="N,N",
            help="Values of an output token in prompt tokens, for the fixed policy.",
        ),
    ] = "1,16,64,256",
    workloads: Annotated[
        list[str] | None,
        typer.Option("--workload", metavar="NAME", help="Only this one; repeat. [dim]All.[/dim]"),
    ] = None,
    policies: Annotated[
        str,
        typer.Option("--policies", metavar="NAME,NAME", help="fixed, ongoing, production."),
    ] = "fixed,ongoing,production",
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Add graphs that prefill and decode at once.")
    ] = False,
    catalog: Annotated[
        Path | None,
        typer.Option("--catalog", metavar="FILE", help="Graphs as JSON. [dim]Synthetic.[/dim]"),
    ] = None,
    horizon_ms: Annotated[
        float, typer.Option("--horizon-ms", min=1, help="No step starts after this.")
    ] = 4000.0,
    seeds: Annotated[
        str, typer.Option("--seeds", metavar="N,N", help="Seeds of the acceptance draws.")
    ] = "0",
) -> None:
    """Run policies over workloads on one execution resource."""
    from rich.console import Console
    from rich.progress import Progress

    from headway.lab.dispatch.catalog import load_catalog, synthetic_catalog
    from headway.lab.dispatch.experiment import cases, run_cases
    from headway.lab.dispatch.workload import workloads as all_workloads

    if catalog is not None and mixed:
        raise ConfigError("--mixed extends the synthetic catalog; leave it out with --catalog")
    graphs = load_catalog(catalog) if catalog is not None else synthetic_catalog(mixed)
    names = workloads or list(all_workloads())
    values = [float(value) for value in _numbers("--decode-values", decode_values)]
    to_run = cases(
        graphs,
        names,
        values,
        policies.split(","),
        [int(seed) for seed in _numbers("--seeds", seeds)],
    )
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("cases", total=len(to_run))
        run_cases(
            output, graphs, to_run, round(horizon_ms * 1e6), lambda case: progress.advance(task)
        )
    typer.echo(f"{len(to_run)} cases in {output}; draw them with: headway lab plot {output}")


@command
def plot(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="What `headway lab dispatch` wrote.")
    ],
) -> None:
    """Draw timelines, output gaps and the trade-off of an experiment."""
    from rich.console import Console
    from rich.progress import Progress

    try:
        from headway.lab.dispatch.plot import plot_experiment
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"plots need {error.name}; install it with: pip install 'headway[lab]'"
        ) from error
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("plots", total=None)
        paths = plot_experiment(directory, lambda path: progress.advance(task))
    typer.echo(f"{len(paths)} plots in {directory}")


@command
def oracle(
    as_csv: Annotated[bool, typer.Option("--csv", help="Comma-separated, for programs.")] = False,
) -> None:
    """Compare policies with exact schedules of small episodes."""
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from headway.lab.oracle.comparison import compare, small_instances

    instances = small_instances()
    gaps = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for instance in progress.track(instances):
            gaps += compare([instance])
    names = list(dict.fromkeys(gap.policy for gap in gaps))
    rows = [
        [
            instance.name,
            *(_percent(gap.ratio) for gap in gaps if gap.instance == instance.name),
        ]
        for instance in instances
    ]
    ratios = [[gap.ratio for gap in gaps if gap.policy == name] for name in names]
    rows.append(["mean", *(_percent(sum(ratio) / len(ratio)) for ratio in ratios)])
    if as_csv:
        for row in [["instance", *names], *rows]:
            typer.echo(",".join(row))
        return
    table = Table("instance", *names, title="cost above the optimum, %")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _percent(ratio: float) -> str:
    return f"{abs(round(100 * ratio, 1)):.1f}"


def _numbers(option: str, text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        try:
            whole = int(part) if option == "--seeds" else float(part)
        except ValueError as error:
            raise ConfigError(
                f"{option} must be numbers separated by commas, got {part!r}"
            ) from error
        if not 0 <= whole < math.inf:
            raise ConfigError(f"{option} must be at least 0 and finite, got {part}")
    return parts
