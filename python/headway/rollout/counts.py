"""What one version did in a stretch of time, as numbers that add up."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from headway.rollout.grid import NUM_BINS


@dataclass(slots=True)
class ArmCounts:
    """Outcomes of one version. Adding two of them is what a single observer would have counted.

    Attributes:
      requests: ended requests that say something of the version (answers, failures, timeouts).
      errors: of these, failures and timeouts while executing.
      sheds: refusals for want of capacity. Not counted in `requests`, nor against the version.
      groups: sets of requests that ended together (a batch's members).
      busy_ns: device time of its batches.
      replica_ns: time its replicas were ready, added up over replicas.
      latency: requests by latency bin (`grid`); failures have none, timeouts have their wait.
    """

    requests: int = 0
    errors: int = 0
    sheds: int = 0
    groups: int = 0
    busy_ns: int = 0
    replica_ns: int = 0
    latency: dict[int, int] = field(default_factory=dict)

    def add(self, other: Self) -> None:
        """Adds another stretch, or another gateway's share of this one."""
        self.requests += other.requests
        self.errors += other.errors
        self.sheds += other.sheds
        self.groups += other.groups
        self.busy_ns += other.busy_ns
        self.replica_ns += other.replica_ns
        for index, count in other.latency.items():
            self.latency[index] = self.latency.get(index, 0) + count

    def merge(self, other: Self) -> None:
        """Adds another gateway's outcomes; replicas, which both see, count once: as seen here."""
        replica_ns = self.replica_ns
        self.add(other)
        self.replica_ns = replica_ns

    def histogram(self) -> npt.NDArray[np.float64]:
        """The latencies as an array over all bins."""
        dense = np.zeros(NUM_BINS)
        for index, count in self.latency.items():
            dense[index] = count
        return dense

    def to_plain(self) -> dict[str, Any]:
        """As JSON has it."""
        plain = {name: getattr(self, name) for name in _SCALARS}
        return {**plain, "latency": [[i, n] for i, n in sorted(self.latency.items())]}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """From what `to_plain` gave."""
        latency = {int(index): int(count) for index, count in plain["latency"]}
        return cls(**{name: int(plain[name]) for name in _SCALARS}, latency=latency)


_SCALARS = ("requests", "errors", "sheds", "groups", "busy_ns", "replica_ns")


@dataclass(slots=True)
class TickCounts:
    """Both versions in one tick.

    Attributes:
      dead: why the canary is taken for dead; "" if it is not.
    """

    baseline: ArmCounts = field(default_factory=ArmCounts)
    canary: ArmCounts = field(default_factory=ArmCounts)
    dead: str = ""

    def add(self, later: Self) -> None:
        """Adds the tick that follows."""
        self.baseline.add(later.baseline)
        self.canary.add(later.canary)
        self.dead = self.dead or later.dead

    def merge(self, other: Self) -> None:
        """Adds another gateway's share of the same tick."""
        self.baseline.merge(other.baseline)
        self.canary.merge(other.canary)
        self.dead = self.dead or other.dead

    def to_plain(self) -> dict[str, Any]:
        """As JSON has it."""
        arms = {"baseline": self.baseline.to_plain(), "canary": self.canary.to_plain()}
        return arms | {"dead": self.dead}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """From what `to_plain` gave."""
        baseline, canary = (ArmCounts.from_plain(plain[arm]) for arm in ("baseline", "canary"))
        return cls(baseline, canary, str(plain["dead"]))
