"""Counts outcomes on the request path: O(1), some hundred nanoseconds a request.

An outcome counts for the version that the split chose, when the request ends. Answers, failures
and timeouts count; refusals, the client's own errors and cancellations do not, since they say
nothing of the version (refusals for want of capacity are counted apart). A request whose deadline
came counts as slow with its wait, so that a version that hangs is not silent. The latency of a
stream is the wait for its first part.
"""

import math
from collections.abc import Callable
from typing import Final

from headway.rollout.counts import ArmCounts, TickCounts
from headway.rollout.grid import bin_of

DEAD_CHANCE: Final = 1e-8
"""Chance of a run of wholly failed groups, for a version within tolerance, that is taken for
proof; a rollout of 100,000 groups then has one of 0.1 % at most."""

SHEDS: Final = frozenset({"OVERLOADED", "QUEUE_FULL", "DEADLINE_UNREACHABLE", "NO_CAPACITY"})
"""Reasons of refusals that say something of a version's capacity."""

BROKEN: Final = frozenset({"UPSTREAM_FAILURE", "STREAM_BROKEN"})
"""Ends that are the version's failure, and whose latency means nothing."""

_MEMORY: Final = 300.0
_PRIOR_GROUPS: Final = 4.0
_PRIOR_SHARE: Final = 4.0


class ArmTap:
    """Outcomes of one version since the last `take`.

    Attributes:
      succeeded, failed: groups (requests that ended together) with a success, and without, ever.
    """

    def __init__(self, on_failed_run: Callable[[], None] | None = None) -> None:
        """`on_failed_run`: called when one more group has failed with no success since."""
        self._on_failed_run = on_failed_run
        self._counts = ArmCounts()
        self._group_at_ns = -1
        self._group_failures = 0
        self._group_successes = 0
        self.succeeded = 0
        self.failed = 0
        self.run = 0
        self.run_requests = 0

    def ended(self, now_ns: int, outcome: str, latency_ns: int, attempts: int) -> None:
        """A request ended: "ok" or an error reason, after `attempts` executions."""
        if outcome == "ok":
            failed = False
        elif outcome in BROKEN:
            failed = True
        elif outcome == "DEADLINE_EXPIRED":
            failed = attempts > 0
        else:
            self._counts.sheds += outcome in SHEDS
            return
        counts = self._counts
        counts.requests += 1
        if outcome not in BROKEN:
            index = bin_of(latency_ns)
            counts.latency[index] = counts.latency.get(index, 0) + 1
        if now_ns != self._group_at_ns:
            self._close_group()
            self._group_at_ns = now_ns
        if failed:
            counts.errors += 1
            self._group_failures += 1
        elif outcome == "ok":
            self._group_successes += 1

    def refused(self, reason: str) -> None:
        """A request was refused; it counts if that was for want of capacity."""
        self._counts.sheds += reason in SHEDS

    def executed(self, device_ns: int) -> None:
        """A batch took so much device time."""
        self._counts.busy_ns += device_ns

    def take(self, replica_ns: int) -> ArmCounts:
        """What was counted since the last time. `replica_ns`: time of its ready replicas."""
        self._close_group()
        taken, self._counts = self._counts, ArmCounts()
        taken.replica_ns = replica_ns
        return taken

    def _close_group(self) -> None:
        failures, successes = self._group_failures, self._group_successes
        if not failures and not successes:
            return
        self._group_failures = self._group_successes = 0
        self._counts.groups += 1
        if successes:
            self.succeeded += 1
            self.run = self.run_requests = 0
            return
        self.failed += 1
        self.run += 1
        self.run_requests += failures
        if self._on_failed_run is not None:
            self._on_failed_run()


class OutcomeTap:
    """Both versions of a rollout, and the fuse that finds a dead canary at once.

    Attributes:
      dead: why the canary is taken for dead; "" if it is not.
      on_dead: called once, when it is found.
    """

    def __init__(self, *, error_floor: float, error_tolerance: float) -> None:
        self.baseline = ArmTap()
        self.canary = ArmTap(self._on_failed_run)
        self.on_dead: Callable[[], None] = lambda: None
        self.dead = ""
        self._floor = error_floor
        self._tolerance = error_tolerance
        self._groups = 0.0
        self._failed_groups = 0.0
        self._seen = (0, 0)
        self._run_began = (0, 0)

    def take(self, seconds: float, baseline_replicas: int, canary_replicas: int) -> TickCounts:
        """The tick of `seconds` that ends now."""
        ns = round(seconds * 1e9)
        counts = TickCounts(
            self.baseline.take(baseline_replicas * ns), self.canary.take(canary_replicas * ns)
        )
        counts.dead = self.dead
        memory = math.exp(-seconds / _MEMORY)
        good, bad = self.baseline.succeeded, self.baseline.failed
        self._groups = memory * self._groups + good + bad - sum(self._seen)
        self._failed_groups = memory * self._failed_groups + bad - self._seen[1]
        self._seen = (good, bad)
        return counts

    def _on_failed_run(self) -> None:
        canary = self.canary
        if canary.run == 1:
            self._run_began = (self.baseline.succeeded, self.baseline.failed)
        if self.dead or canary.run < 2:
            return
        rate = self._tolerated_rate()
        if canary.run * math.log(rate) > math.log(DEAD_CHANCE):
            return
        self.dead = (
            f"{canary.run} groups in a row failed, all {canary.run_requests} requests of them; at "
            f"the {rate:.2%} that the baseline's failures allow, the chance is "
            f"{rate**canary.run:.1g}"
        )
        self.on_dead()

    def _tolerated_rate(self) -> float:
        """Share of groups that may fail: the baseline's of late, and above all during the run."""
        good = self.baseline.succeeded - self._run_began[0]
        bad = self.baseline.failed - self._run_began[1]
        usual = self._failed_groups / (self._groups + _PRIOR_GROUPS)
        rate = (bad + _PRIOR_SHARE * usual) / (good + bad + _PRIOR_SHARE)
        return min(0.999, max(self._floor, rate) * self._tolerance)
