"""What a simulation found, in numbers, rows and a picture."""

import csv
import json
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from headway._core import PoolStats, Trace
from headway.sim.workload import NS_PER_MS, NS_PER_S

EARLY_NS: Final = 10 * NS_PER_MS
"""A request told of its fate within this time of its arrival was told early."""
LARGE_QUANTILE: Final = 0.9

Column = npt.NDArray[np.int64]


class Fate(IntEnum):
    """What became of a request. Values are the core's."""

    UNFINISHED = 0
    ON_TIME = 1
    LATE = 2
    REFUSED = 3
    DROPPED = 4
    CANCELLED = 5


class Outcome(Protocol):
    """What became of each request; lists run in the order of the trace."""

    @property
    def fates(self) -> bytes | bytearray:
        """A `Fate` each."""
        ...

    @property
    def ended_at_ns(self) -> list[int]:
        """When."""
        ...

    @property
    def batch_sizes(self) -> list[int]:
        """Members of its batch; 0 for none."""
        ...

    @property
    def num_batches(self) -> int:
        """Batches that ran."""
        ...

    @property
    def busy_ns(self) -> float:
        """Device time spent, over all replicas."""
        ...

    @property
    def stats(self) -> PoolStats | None:
        """The scheduler's pool at the end, if it has one."""
        ...


class Report:
    """Result of a simulation; `summary` has the figures, the columns the rest."""

    def __init__(self, trace: Trace, result: Outcome, num_replicas: int) -> None:
        """Reads the columns out of the core; `num_replicas` is only for the utilisation."""
        self.duration_s = trace.duration_ns / NS_PER_S
        self.at_ns: Column = np.asarray(trace.at_ns, dtype=np.int64)
        self.units: Column = np.asarray(trace.units, dtype=np.int64)
        self.deadline_ns: Column = np.asarray(trace.deadline_ns, dtype=np.int64)
        self.classes: Column = np.asarray(trace.classes, dtype=np.int64)
        self.fates: npt.NDArray[np.uint8] = np.frombuffer(result.fates, dtype=np.uint8)
        self.ended_at_ns: Column = np.asarray(result.ended_at_ns, dtype=np.int64)
        self.batch_sizes: Column = np.asarray(result.batch_sizes, dtype=np.int64)
        self.num_batches = result.num_batches
        self.busy_ns = result.busy_ns
        self.stats: PoolStats | None = result.stats
        self._num_replicas = num_replicas

    @property
    def on_time(self) -> npt.NDArray[np.bool_]:
        """True for requests answered by their deadline."""
        return np.asarray(self.fates == Fate.ON_TIME)

    @property
    def told_early(self) -> npt.NDArray[np.bool_]:
        """True for requests not served that were told so within 10 ms of arrival."""
        return np.asarray(~self.on_time & (self.ended_at_ns - self.at_ns <= EARLY_NS))

    def goodput_per_s(self, from_s: float = 0.0, until_s: float | None = None) -> float:
        """Requests answered in time a second, by their arrival, over a part of the trace."""
        until_s = self.duration_s if until_s is None else until_s
        inside = (self.at_ns >= from_s * NS_PER_S) & (self.at_ns < until_s * NS_PER_S)
        return float(np.count_nonzero(self.on_time & inside) / (until_s - from_s))

    def on_time_by_class(self) -> dict[int, float]:
        """Share answered in time, by class; classes without requests are left out."""
        return {
            int(each): _share(self.on_time[self.classes == each])
            for each in np.unique(self.classes)
        }

    def top_decile_on_time(self) -> float:
        """Share answered in time among the largest tenth; 1 for an empty trace."""
        if not len(self.units):
            return 1.0
        return _share(self.on_time[self.units >= np.quantile(self.units, LARGE_QUANTILE)])

    def rejected_within_10ms(self) -> float:
        """Share told within 10 ms, of all that were not served in time; 1 if all were."""
        return _share(self.told_early[~self.on_time])

    def summary(self) -> dict[str, Any]:
        """The figures."""
        ended = self.on_time
        latency_ms = (self.ended_at_ns - self.at_ns)[ended] / NS_PER_MS
        latencies = np.quantile(latency_ms, [0.5, 0.95, 0.99]) if latency_ms.size else [0, 0, 0]
        return {
            "offered_per_s": len(self.at_ns) / self.duration_s,
            "goodput_per_s": self.goodput_per_s(),
            "on_time": self.on_time_by_class(),
            "top_decile_on_time": self.top_decile_on_time(),
            "rejected_within_10ms": self.rejected_within_10ms(),
            "late_per_s": int(np.count_nonzero(self.fates == Fate.LATE)) / self.duration_s,
            "latency_ms": dict(
                zip(("p50", "p95", "p99"), (float(each) for each in latencies), strict=True)
            ),
            "mean_batch": float(np.count_nonzero(self.batch_sizes)) / max(self.num_batches, 1),
            "utilisation": self.busy_ns / (self.duration_s * NS_PER_S * self._num_replicas),
        }

    def write_json(self, path: Path) -> None:
        """Writes the summary."""
        path.write_text(json.dumps(self.summary(), indent=2) + "\n", encoding="utf-8")

    def write_csv(self, path: Path) -> None:
        """Writes one row a request; times in ns from the start of the trace."""
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["at_ns", "units", "deadline_ns", "class", "fate", "ended_at_ns"])
            names = [fate.name.lower() for fate in Fate]
            for row in zip(
                self.at_ns.tolist(),
                self.units.tolist(),
                self.deadline_ns.tolist(),
                self.classes.tolist(),
                (names[fate] for fate in self.fates.tolist()),
                self.ended_at_ns.tolist(),
                strict=True,
            ):
                writer.writerow(row)

    def write_plot(self, path: Path, step_s: float = 1.0) -> None:
        """Draws offered load and goodput over time; needs the `lab` extra."""
        from headway.lab.plot import new_axes, save

        edges = np.arange(0, self.duration_s + step_s, step_s)
        at_s = self.at_ns / NS_PER_S
        figure, axes = new_axes("Goodput over time", "time, s", "requests a second")
        for label, chosen in (("offered", slice(None)), ("in time", self.on_time)):
            counts, _ = np.histogram(at_s[chosen], bins=edges)
            axes.plot(edges[:-1], counts / step_s, label=label)
        axes.legend()
        save(figure, path)


def _share(flags: npt.NDArray[np.bool_]) -> float:
    return float(flags.mean()) if flags.size else 1.0
