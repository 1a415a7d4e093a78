"""One tick of many rollouts, in the form that the tests work on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from headway.rollout.counts import ArmCounts, TickCounts
from headway.rollout.grid import NUM_BINS
from headway.rollout.rows import Real, Whole

_STRIDE = 2 * NUM_BINS
"""Distance between the keys of two rows: bins shifted up or down stay within their row."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One version in one tick, for each row.

    Attributes:
      requests, errors, sheds: float[rows].
      busy_s, replica_s: device time in use, and time of ready replicas; float[rows].
      row, index, weight: parallel lists of counts by latency bin: row, bin, number of requests.
    """

    requests: Real
    errors: Real
    sheds: Real
    busy_s: Real
    replica_s: Real
    row: Whole
    index: Whole
    weight: Real

    def totals(self) -> Real:
        """Requests with a latency, for each row."""
        return self._sum(self.weight)

    def slower_than(self, bins: Whole) -> Real:
        """Requests in a bin above that of their row, for each row."""
        return self._sum(self.weight * (self.index > bins[self.row]))

    def _sum(self, values: Real) -> Real:
        return np.bincount(self.row, values, len(self.requests)).astype(np.float64)

    @classmethod
    def of(cls, rows: Sequence[ArmCounts]) -> Self:
        """From the counts of each row."""
        entries = [
            (row, index, weight)
            for row, counts in enumerate(rows)
            for index, weight in sorted(counts.latency.items())
        ]
        table = np.array(entries, dtype=np.int64).reshape(-1, 3)
        return cls(
            np.array([counts.requests for counts in rows], dtype=float),
            np.array([counts.errors for counts in rows], dtype=float),
            np.array([counts.sheds for counts in rows], dtype=float),
            np.array([counts.busy_ns / 1e9 for counts in rows]),
            np.array([counts.replica_ns / 1e9 for counts in rows]),
            table[:, 0],
            table[:, 1],
            table[:, 2].astype(float),
        )


@dataclass(frozen=True, slots=True)
class Tick:
    """Both versions in one tick of `seconds`."""

    baseline: Arm
    canary: Arm
    seconds: float

    @classmethod
    def of(cls, counts: TickCounts, seconds: float) -> Self:
        """A single rollout's."""
        return cls(Arm.of([counts.baseline]), Arm.of([counts.canary]), seconds)


class Ranking:
    """Compares latencies of the two arms by all pairs of a tick. O(n log n)."""

    def __init__(self, tick: Tick) -> None:
        baseline, self._canary = tick.baseline, tick.canary
        keys = _keys(baseline.row, baseline.index)
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._below = np.concatenate(([0.0], np.cumsum(baseline.weight[order])))
        self.pairs: Real = baseline.totals() * self._canary.totals()

    def payoff(self, shift: Whole) -> Real:
        """2 * P(canary / ratio > baseline) - 1, ties counted half; 0 where there is no pair.

        `shift`: the ratio in bins, for each row.
        """
        canary, below = self._canary, self._below
        keys = _keys(canary.row, canary.index - shift[canary.row])
        first = np.searchsorted(self._keys, keys, "left")
        last = np.searchsorted(self._keys, keys, "right")
        start = np.searchsorted(self._keys, _keys(canary.row, np.full_like(keys, -_STRIDE // 4)))
        won = (below[first] + below[last]) / 2 - below[start]
        wins = np.bincount(canary.row, canary.weight * won, len(canary.requests))
        return np.where(self.pairs > 0, 2 * wins / np.maximum(self.pairs, 1e-9) - 1, 0.0)


def _keys(row: Whole, index: Whole) -> Whole:
    return row * _STRIDE + index
