"""What fairness to the largest requests costs in goodput."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from headway.lab.mixes import MIXES
from headway.lab.plot import new_axes, save
from headway.sim import Fleet, Policy, simulate

ALPHAS: Final = (0.0, 0.25, 0.5, 0.6, 0.7, 0.8, 1.0)
LARGE_SHARES: Final = (0.0, 0.05, 0.1, 0.12, 0.15, 0.2, 0.25)


class Point(NamedTuple):
    """One setting and what it gives, means over the seeds."""

    knob: str
    value: float
    goodput_per_s: float
    on_time: dict[int, float]
    top_decile_on_time: float


def frontier(
    mix_name: str,
    rate: float,
    seeds: tuple[int, ...],
    duration_s: float = 60.0,
    told: Callable[[str], None] | None = None,
) -> Iterator[Point]:
    """Sweeps alpha, then the share of device time kept for the largest tenth."""
    mix = MIXES[mix_name]
    workload = mix.workload.at_rate(rate).model_copy(update={"duration_s": duration_s})
    traces = [workload.draw(seed) for seed in seeds]
    fleet = Fleet(device=mix.device)
    settings = [("alpha", value) for value in ALPHAS]
    settings += [("large_share", value) for value in LARGE_SHARES]
    for knob, value in settings:
        if told:
            told(f"{knob} {value:g}")
        policy = Policy.model_validate({knob: value})
        reports = [simulate(trace, fleet, policy, seed) for seed, trace in enumerate(traces)]
        num = len(reports)
        shares = [report.on_time_by_class() for report in reports]
        yield Point(
            knob,
            value,
            sum(report.goodput_per_s() for report in reports) / num,
            {each: sum(share[each] for share in shares) / num for each in shares[0]},
            sum(report.top_decile_on_time() for report in reports) / num,
        )


def write_plot(points: list[Point], path: Path) -> None:
    """Draws goodput against the on-time share of the largest tenth."""
    figure, axes = new_axes(
        "Goodput against fairness", "on-time share of the largest tenth", "goodput, a second"
    )
    for knob in dict.fromkeys(point.knob for point in points):
        line = [point for point in points if point.knob == knob]
        across = [point.top_decile_on_time for point in line]
        axes.plot(across, [point.goodput_per_s for point in line], "o-", label=knob)
        for point in line:
            axes.annotate(f"{point.value:g}", (point.top_decile_on_time, point.goodput_per_s))
    axes.legend()
    save(figure, path)
