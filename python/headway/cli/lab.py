"""``headway lab``."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli import options
from headway.cli.exits import command, usage

if TYPE_CHECKING:
    from headway.lab.fairness import Point
    from headway.lab.goodput import Plan, Row

GOODPUT_EPILOG = """
[bold]Examples[/bold]

headway lab goodput
headway lab goodput --rates 200,260 --seeds 10001-10032 --json rows.json
[dim]# against the clairvoyant bound on the first 30 s of each trace[/dim]
headway lab goodput --rates 260 --bound 30 --plots figures
[dim]# what fairness to the largest tenth costs[/dim]
headway lab goodput --rates 260 --frontier --plots figures
"""

REPLAY_EPILOG = """
[bold]Examples[/bold]

headway lab replay arrivals.trace --set traffic=2
headway lab replay arrivals.trace --set replicas=3 --set lose_replica_at_s=30
headway lab replay arrivals.trace --device intercept_ms=12 --set max_requests=16
"""

lab = options.group("Experiments on scheduling: side by side, or on recorded traffic.")


@lab.command(epilog=GOODPUT_EPILOG)
@command
def goodput(
    rates: Annotated[
        str, typer.Option(metavar="PER_S,...", help="Requests offered a second.")
    ] = "40,90,150,200,220,260,320,400,600",
    seeds: Annotated[
        str, typer.Option(metavar="N,... or N-N", help="Seeds of the traces.")
    ] = "10001-10002",
    mix: Annotated[
        str, typer.Option(metavar="NAME", help="Workload and device; 'list' names them.")
    ] = "reference",
    seconds: Annotated[float, typer.Option(min=1, help="Length of a trace.")] = 120.0,
    policy: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this one; may be repeated.")
    ] = None,
    speeds: Annotated[str, typer.Option(metavar="X,...", help="Speeds of the replicas.")] = "1",
    bound: Annotated[
        float, typer.Option(min=0, help="Seconds of each trace to compute the bound for.")
    ] = 0.0,
    thorough: Annotated[bool, typer.Option(help="Bring the bound further down.")] = False,
    frontier: Annotated[bool, typer.Option(help="Sweep the fairness settings instead.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all rows.")
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write plots; needs matplotlib.")
    ] = None,
) -> None:
    """Compares schedulers on the same simulated traffic."""
    from headway.lab import goodput as lab_goodput
    from headway.lab.bound import Effort
    from headway.lab.mixes import MIXES

    if mix == "list":
        for name, each in MIXES.items():
            print(f"{name:16} {each.says}")
        return
    if mix not in MIXES:
        usage(f"--mix: {mix} is not one of {', '.join(MIXES)}")
    for name in policy or ():
        if name not in lab_goodput.POLICY_NAMES:
            usage(f"--policy: {name} is not one of {', '.join(lab_goodput.POLICY_NAMES)}")
    plan = lab_goodput.Plan(
        mix=mix,
        rates=_numbers("--rates", rates),
        seeds=_seeds(seeds),
        duration_s=seconds,
        bound_s=bound,
        effort=Effort.THOROUGH if thorough else Effort.QUICK,
        speeds=_numbers("--speeds", speeds),
        policies=tuple(policy or ()),
    )
    if frontier:
        _run_frontier(plan, json_file, plots)
    else:
        _run_goodput(plan, json_file, plots)


@lab.command(epilog=REPLAY_EPILOG)
@command
def replay(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="As the gateway recorded it.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="What is different; may be repeated."),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="What is so in both runs; may be repeated."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model, if the trace has several.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the devices' noise.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")] = False,
) -> None:
    """Answers what-if questions: recorded traffic against a changed configuration."""
    from headway.lab.replay import Scenario, difference, load
    from headway.sim import Fleet, Policy

    arrivals = load(trace, model)
    now = Scenario(Fleet(), Policy()).with_settings(_pairs("--device", device))
    then = now.with_settings(_pairs("--set", settings))
    rows = difference(now.run(arrivals, seed), then.run(arrivals, seed))
    if as_json:
        figures = {name: {"before": before, "after": after} for name, before, after in rows}
        print(json.dumps(figures, indent=1))
        return
    _print_table(
        f"{trace.name}: {len(arrivals)} arrivals",
        ("", "before", "after", "change"),
        [(name, f"{a:.3f}", f"{b:.3f}", f"{b - a:+.3f}") for name, a, b in rows],
    )


def _run_goodput(plan: "Plan", json_file: Path | None, plots: Path | None) -> None:
    from headway.lab import goodput as lab_goodput

    rows: list[Row] = []
    with _progress() as progress:
        task = progress.add_task("", total=plan.num_runs())
        for each in lab_goodput.run(plan, lambda doing: progress.update(task, description=doing)):
            rows.append(each)
            progress.advance(task)
    _print_goodput(plan, rows)
    if json_file:
        lab_goodput.write_json(rows, json_file)
    if plots:
        for path in lab_goodput.write_plots(rows, plots):
            print(path)


def _print_goodput(plan: "Plan", rows: "Sequence[Row]") -> None:
    from headway.lab.goodput import means

    averaged = means(rows)
    classes = sorted({each for one in averaged for each in one.on_time})
    header = ["rate", "policy", "goodput/s", *(f"on time {each}" for each in classes)]
    header += ["top tenth", "told in 10 ms"]
    if plan.bound_s:
        header += ["bound/s", "of bound"]
    body = []
    for one in averaged:
        line = [f"{one.rate:g}", one.policy, f"{one.goodput_per_s:.1f}"]
        line += [f"{one.on_time.get(each, 1.0):.3f}" for each in classes]
        line += [f"{one.top_decile_on_time:.3f}", f"{one.rejected_within_10ms:.3f}"]
        if plan.bound_s:
            line += [f"{one.bound_per_s or 0:.1f}", f"{one.bound_share or 0:.3f}"]
        body.append(line)
    _print_table(f"{plan.mix}, means over {len(plan.seeds)} seeds", header, body)


def _run_frontier(plan: "Plan", json_file: Path | None, plots: Path | None) -> None:
    from headway.lab.fairness import ALPHAS, LARGE_SHARES, frontier, write_plot

    points: list[Point] = []
    with _progress() as progress:
        num = len(ALPHAS) + len(LARGE_SHARES)
        task = progress.add_task("", total=num * len(plan.rates))
        for rate in plan.rates:
            for point in frontier(
                plan.mix,
                rate,
                plan.seeds,
                plan.duration_s,
                lambda doing: progress.update(task, description=doing),
            ):
                points.append(point)
                progress.advance(task)
    body = [
        (
            point.knob,
            f"{point.value:g}",
            f"{point.goodput_per_s:.1f}",
            " ".join(f"{share:.3f}" for share in point.on_time.values()),
            f"{point.top_decile_on_time:.3f}",
        )
        for point in points
    ]
    _print_table("Fairness", ("setting", "value", "goodput/s", "on time", "top tenth"), body)
    if json_file:
        rows = [point._asdict() for point in points]
        json_file.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if plots:
        write_plot(points, plots / "frontier.png")


def _progress() -> Any:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


def _print_table(title: str, header: Sequence[str], body: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for number, name in enumerate(header):
        table.add_column(name, justify="left" if number == 0 else "right")
    for line in body:
        table.add_row(*line)
    Console().print(table)


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(each) for each in text.split(","))
    except ValueError:
        usage(f"{option}: {text!r} is not a list of numbers")
    if any(not 0 < each < 1e7 for each in numbers):
        usage(f"{option}: {text!r} must be above 0 and below 10 million")
    return numbers


def _seeds(text: str) -> tuple[int, ...]:
    try:
        first, dash, last = text.partition("-")
        if dash:
            seeds = tuple(range(int(first), int(last) + 1))
        else:
            seeds = tuple(int(each) for each in text.split(","))
    except ValueError:
        usage(f"--seeds: {text!r} is neither N,N,... nor N-N")
    if not seeds:
        usage(f"--seeds: {text!r} is empty")
    return seeds


def _pairs(option: str, texts: Sequence[str] | None) -> dict[str, str]:
    pairs = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals:
            usage(f"{option}: {text!r} is not KEY=VALUE")
        pairs[key.strip()] = value.strip()
    return pairs
