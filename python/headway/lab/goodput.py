"""Schedulers side by side on the same traces, against the clairvoyant bound."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from headway.lab.bound import Effort, bound_per_s
from headway.lab.mixes import MIXES, Mix
from headway.lab.plot import new_axes, save
from headway.sim import Fleet, Policy, PolicyKind, Report, RequestClass, simulate
from headway.sim.workload import NS_PER_S

URGENT_QUANTILE: Final = 0.05


class Row(NamedTuple):
    """One run. `on_time` is by class; the bound is None where it was not asked for."""

    policy: str
    rate: float
    seed: int
    goodput_per_s: float
    on_time: Mapping[int, float]
    top_decile_on_time: float
    rejected_within_10ms: float
    bound_per_s: float | None = None
    bound_share: float | None = None
    """Goodput over the bound, both on the same trace: the part that the bound was computed for."""


class Plan(NamedTuple):
    """What to run."""

    mix: str = "reference"
    rates: tuple[float, ...] = (40, 90, 150, 200, 220, 260, 320, 400, 600)
    """Requests a second."""
    seeds: tuple[int, ...] = (10001, 10002)
    duration_s: float = 120.0
    bound_s: float = 0.0
    """The bound is computed for so much of each trace, seconds; 0 for not at all."""
    effort: Effort = Effort.QUICK
    speeds: tuple[float, ...] = (1.0,)
    policies: tuple[str, ...] = ()
    """Names of `policies`; none for all."""

    def num_runs(self) -> int:
        """Simulations that it takes."""
        return len(self.rates) * len(self.seeds) * len(self.policies or POLICY_NAMES)


POLICY_NAMES: Final = (
    "one_by_one",
    "fixed_batch",
    "earliest_deadline",
    "first_in_time",
    "shortest_first",
    "headway_known",
    "headway",
    "headway_no_shed",
)


def policies(mix: Mix) -> Mapping[str, Policy]:
    """The schedulers compared, by name.

    The shortest-first rival gets the quantum that two batches fit into for the tightest deadline;
    `headway_known` is given the true cost and does not learn it; `headway_no_shed` refuses nothing
    early.
    """
    device = mix.device
    shortest = Policy(kind=PolicyKind.SHORTEST_FIRST, quantum_ms=_tightest_ms(mix) / 2.07)
    known = Policy(
        learns=False,
        prior_intercept_ms=device.intercept_ms,
        prior_slope_ms=device.slope_ms,
    )
    named = (
        Policy(kind=PolicyKind.ONE_BY_ONE),
        Policy(kind=PolicyKind.FIXED_BATCH),
        Policy(kind=PolicyKind.EARLIEST_DEADLINE),
        Policy(kind=PolicyKind.FIRST_IN_TIME),
        shortest,
        known,
        Policy(),
        Policy(shed_early=False),
    )
    return MappingProxyType(dict(zip(POLICY_NAMES, named, strict=True)))


def _tightest_ms(mix: Mix) -> float:
    def early(each: RequestClass) -> float:
        spread_ms = (each.max_deadline_ms or each.min_deadline_ms) - each.min_deadline_ms
        return each.min_deadline_ms + URGENT_QUANTILE * spread_ms

    return min(early(each) for each in mix.workload.classes)


def run(plan: Plan, told: Callable[[str], None] | None = None) -> Iterator[Row]:
    """Runs a plan, row by row; `told` hears what is about to run.

    Raises:
      KeyError: an unknown mix or policy.
    """
    mix = MIXES[plan.mix]
    known = policies(mix)
    chosen = {name: known[name] for name in plan.policies or POLICY_NAMES}
    fleet = Fleet(device=mix.device, speeds=plan.speeds)
    for rate in plan.rates:
        workload = mix.workload.at_rate(rate).model_copy(update={"duration_s": plan.duration_s})
        for seed in plan.seeds:
            trace = workload.draw(seed)
            bound, head = None, trace.head(round(min(plan.bound_s, plan.duration_s) * NS_PER_S))
            if plan.bound_s > 0 and plan.speeds == (1.0,):
                if told:
                    told(f"bound at {rate:g}/s, seed {seed}")
                bound = bound_per_s(head, mix.device, plan.effort)
            for name, policy in chosen.items():
                if told:
                    told(f"{name} at {rate:g}/s, seed {seed}")
                report = simulate(trace, fleet, policy, seed)
                share = None
                if bound:
                    # Whoever knows the future also has the time behind the last arrival to himself.
                    share = simulate(head, fleet, policy, seed).goodput_per_s() / bound
                yield row(name, rate, seed, report, bound, share)


def row(
    name: str, rate: float, seed: int, report: Report, bound: float | None, share: float | None
) -> Row:
    """The row of one run, with its share of the bound."""
    return Row(
        policy=name,
        rate=rate,
        seed=seed,
        goodput_per_s=report.goodput_per_s(),
        on_time=report.on_time_by_class(),
        top_decile_on_time=report.top_decile_on_time(),
        rejected_within_10ms=report.rejected_within_10ms(),
        bound_per_s=bound,
        bound_share=share,
    )


def means(rows: Sequence[Row]) -> list[Row]:
    """Means over the seeds, one row for each policy and rate, in order of appearance."""
    groups: dict[tuple[str, float], list[Row]] = {}
    for each in rows:
        groups.setdefault((each.policy, each.rate), []).append(each)
    return [_mean(group) for group in groups.values()]


def _mean(group: Sequence[Row]) -> Row:
    def of(values: Sequence[float | None]) -> float | None:
        present = [value for value in values if value is not None]
        return float(np.mean(present)) if present else None

    classes = sorted({each for one in group for each in one.on_time})
    first = group[0]
    return first._replace(
        seed=len(group),
        goodput_per_s=float(np.mean([one.goodput_per_s for one in group])),
        on_time={
            each: float(np.mean([one.on_time[each] for one in group if each in one.on_time]))
            for each in classes
        },
        top_decile_on_time=float(np.mean([one.top_decile_on_time for one in group])),
        rejected_within_10ms=float(np.mean([one.rejected_within_10ms for one in group])),
        bound_per_s=of([one.bound_per_s for one in group]),
        bound_share=of([one.bound_share for one in group]),
    )


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows for programs."""
    return [
        one._asdict() | {"on_time": {str(each): share for each, share in one.on_time.items()}}
        for one in rows
    ]


def write_json(rows: Sequence[Row], path: Path) -> None:
    """Writes rows, one object each."""
    path.write_text(json.dumps(as_json(rows), indent=1) + "\n", encoding="utf-8")


def write_plots(rows: Sequence[Row], directory: Path) -> list[Path]:
    """Draws goodput and on-time shares against load; needs the `lab` extra."""
    averaged = means(rows)
    names = list(dict.fromkeys(one.policy for one in averaged))
    goodput, on_time = directory / "goodput.png", directory / "on_time.png"
    figure, axes = new_axes("Goodput", "offered, requests a second", "in time, a second")
    for name in names:
        points = [one for one in averaged if one.policy == name]
        axes.plot([p.rate for p in points], [p.goodput_per_s for p in points], "o-", label=name)
    bounds = {one.rate: one.bound_per_s for one in averaged if one.bound_per_s}
    if bounds:
        axes.plot(list(bounds), list(bounds.values()), "k--", label="clairvoyant bound")
    axes.legend(fontsize="small")
    save(figure, goodput)
    figure, axes = new_axes("On time", "offered, requests a second", "share on time")
    for one_class in sorted({each for one in averaged for each in one.on_time}):
        for name in names[-3:]:
            points = [one for one in averaged if one.policy == name]
            label = f"{name}, class {one_class}"
            axes.plot(
                [p.rate for p in points], [p.on_time[one_class] for p in points], "o-", label=label
            )
    axes.legend(fontsize="small")
    save(figure, on_time)
    return [goodput, on_time]
