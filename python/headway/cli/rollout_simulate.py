"""``headway rollout simulate``."""

from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli import options
from headway.cli.exits import Exit, usage

if TYPE_CHECKING:
    from headway.rollout.figures import Figures


def simulate(
    runs: Annotated[int, typer.Option(metavar="N", min=10, help="Rollouts of a case.")] = 2000,
    case: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this case; may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Replays a simulation.")] = 1,
    rate: Annotated[
        float | None,
        typer.Option(metavar="PER_S", min=0.1, max=100_000, help="Requests a second, for all."),
    ] = None,
    batch: Annotated[
        float | None,
        typer.Option(metavar="N", min=1, max=1000, help="Mean requests of a batch, for all."),
    ] = None,
    as_json: options.AsJson = False,
) -> int:
    """Run seeded rollouts through the judge that gateways run: how often is it right, how soon?

    At 50 requests a second in batches of 12, unless told otherwise. Leaves with 1 if identical
    versions are rolled back more often than the stated 1 %.
    """
    import dataclasses
    import json

    from headway.rollout.figures import CASES, measure

    unknown = [name for name in case or () if name not in CASES]
    if unknown:
        usage(f"--case {unknown[0]!r} is not one of: {', '.join(CASES)}")
    measured = []
    for name in case or CASES:
        figures = measure(name, num_runs=runs, seed=seed, rate_per_s=rate, mean_batch=batch)
        measured.append(figures)
        if not as_json:
            print(_figures_line(figures), flush=True)
    if as_json:
        print(json.dumps([dataclasses.asdict(figures) for figures in measured]))
    false = [f.rolled_back_ratio for f in measured if f.case == "identical"]
    return Exit.FAILED if any(ratio > 0.01 for ratio in false) else Exit.OK


def _figures_line(figures: "Figures") -> str:
    outcomes = ", ".join(f"{n} {name}" for name, n in sorted(figures.outcomes.items()))
    tests = ", ".join(f"{n} {name}" for name, n in sorted(figures.tests.items()))
    medians = "" if figures.minutes is None else (
        f"; median {figures.minutes:.1f} min (p90 {figures.p90_minutes:.1f}), "
        f"{figures.canary_requests:.0f} canary requests"
    )  # fmt: skip
    return (
        f"{figures.text}: {outcomes} of {figures.num_runs}{f' ({tests})' if tests else ''}"
        f"{medians}; rolled back {figures.rolled_back_ratio:.2%}, at most "
        f"{figures.false_bound:.2%} [prototype: {figures.prototype}]"
    )
