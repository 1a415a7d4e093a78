"""Evidence that a canary is worse than its baseline: five e-processes over the same ticks.

errors: its error rate is beyond tolerance. rank: its typical latency is. p95: more of its requests
are slower than the baseline's p95. stalls: more are slower than twice its p99. sheds: it refuses
more for want of capacity. Each is a bet within the tick, where both arms see the same load; the
tick counts once however many requests of a batch share their fate in it.

What is exact: for rank, p95, sheds and the differences, the chance of ever crossing 1/alpha is at
most alpha for any dependence inside a tick, if ticks are fair given the past. The rates of errors
and stalls also use an estimated baseline rate and share; they rest on simulation as well.
"""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from headway.rollout import stakes
from headway.rollout.grid import NUM_BINS, tolerant_shift
from headway.rollout.rare import MeasuredShare, RateTest, constant
from headway.rollout.rows import Mask, Real, Rows, Whole
from headway.rollout.tick import Ranking, Tick
from headway.rollout.wealth import Wealth

TESTS: Final = ("errors", "rank", "p95", "stalls", "sheds")
"""In the order in which they are named when several cross at once."""


_CENTRE: Final = NUM_BINS // 2
_UNKNOWN: Final = -NUM_BINS
"""In the place of a quantile; no latency is so far below its level."""


class Quantiles(Rows):
    """The baseline's p95 and p99 as they are now.

    They are its level of the last seconds and how far its latencies scatter about that level, from
    blocks that are over. A wave that moves all latencies moves the level and leaves the scatter
    narrow, so that a stall stands out from it. What a tick is judged by, it is no part of.
    """

    def __init__(self, num_rows: int) -> None:
        self.past: Real = np.zeros((num_rows, NUM_BINS))
        self.block: Real = np.zeros((num_rows, NUM_BINS))
        self.level_sum: Real = np.zeros(num_rows)
        self.level_weight: Real = np.zeros(num_rows)
        self.level: Whole = constant(num_rows, -1)
        self.p95_above: Whole = constant(num_rows, _UNKNOWN)
        self.p99_above: Whole = constant(num_rows, _UNKNOWN)

    def add(self, tick: Tick) -> None:
        """Counts the baseline's latencies of a tick."""
        arm = tick.baseline
        levels = self.level[arm.row]
        above = np.clip(arm.index - levels + _CENTRE, 0, NUM_BINS - 1)
        np.add.at(self.block, (arm.row, above), np.where(levels >= 0, arm.weight, 0))
        self._move(tick)

    def begin_block(self, rows: Mask) -> None:
        """Takes the block that is over into account."""
        past = stakes.HISTOGRAM_DECAY * self.past[rows] + self.block[rows]
        self.past[rows] = past
        self.block[rows] = 0
        cumulative = np.cumsum(past, axis=1)
        total = cumulative[:, -1]
        enough = total >= stakes.LEAST_HISTOGRAM
        for name, quantile in (("p95_above", 0.95), ("p99_above", stakes.STALL_QUANTILE)):
            reached = (cumulative >= quantile * total[:, None]).argmax(axis=1) - _CENTRE
            getattr(self, name)[rows] = np.where(enough, reached, _UNKNOWN)

    @property
    def known(self) -> Mask:
        """Rows that have quantiles."""
        known: Mask = self.p95_above != _UNKNOWN
        return known

    @property
    def p95(self) -> Whole:
        """Bin of the 95 % quantile; only where it is known."""
        return self.level + self.p95_above

    @property
    def p99(self) -> Whole:
        """Bin of the 99 % quantile; only where it is known."""
        return self.level + self.p99_above

    def _move(self, tick: Tick) -> None:
        """Follows the mean bin, which is the logarithm of the geometric mean latency."""
        arm, num_rows = tick.baseline, len(self.level)
        memory = np.exp(-tick.seconds / stakes.LEVEL_MEMORY_S)
        weight = np.bincount(arm.row, arm.weight, num_rows)
        self.level_sum = memory * self.level_sum + np.bincount(
            arm.row, arm.weight * arm.index, num_rows
        )
        self.level_weight = memory * self.level_weight + weight
        mean = self.level_sum / np.maximum(self.level_weight, 1e-9)
        self.level = np.where(weight > 0, np.rint(mean).astype(np.int64), self.level)


class Evidence(Rows):
    """The five tests of `num_rows` rollouts."""

    def __init__(
        self,
        num_rows: int,
        *,
        num_steps: int,
        latency_tolerance: float,
        error_tolerance: float,
        error_floor: float,
    ) -> None:
        """Tolerances are ratios above 1; `error_floor` is a rate in (0, 1)."""
        self._num_steps = num_steps
        self._shift = tolerant_shift(latency_tolerance)
        self._stall_shift = tolerant_shift(stakes.STALL_RATIO)
        rate = {"floor": error_floor, "tolerance": error_tolerance}
        self.errors = RateTest(num_rows, **rate)
        self.stalls = RateTest(num_rows, **rate | {"floor": stakes.STALL_FLOOR})
        self.rank = Wealth(num_rows, stakes.RANK)
        self.p95 = Wealth(num_rows, stakes.P95)
        self.sheds = Wealth(num_rows, stakes.DIFFERENCE)
        self.share = MeasuredShare(num_rows)
        self.quantiles = Quantiles(num_rows)
        self.blocks: Whole = constant(num_rows, 0)
        self.deepest: Whole = constant(num_rows, -1)
        self._error_tolerance = error_tolerance

    def enter_step(self, rows: Mask, step: int) -> None:
        """A new split is in force; steps seen before give no new start mass."""
        first = rows & (self.deepest < step)
        self.deepest[first] = step
        self.share.enter_step(rows)
        self._add_mass(np.where(first, stakes.step_mass(step, self._num_steps), 0.0))

    def forget_latency(self, rows: Mask) -> None:
        """Drops what speaks against latency and sheds: it was for want of replicas.

        Dropping capital keeps the promise of a false rollback; only new start masses bet again.
        """
        for wealth in (self.rank, self.p95, self.sheds):
            wealth.drop(rows)
        self.stalls.drop(rows)

    def begin_block(self, rows: Mask) -> None:
        """A block (an analysis interval) is over and another begins."""
        self.blocks[rows] += 1
        masses = np.array([stakes.block_mass(int(block)) for block in self.blocks])
        self._add_mass(np.where(rows, masses, 0.0))
        self.quantiles.begin_block(rows)
        self.share.begin_block(rows)

    def score(self, tick: Tick, nominal: Real, active: Mask, scored: Mask) -> Ranking:
        """One tick.

        Args:
          nominal: the canary's share of each row.
          active: rows whose rollout goes on.
          scored: of these, rows whose latencies count (no warm-up).
        """
        base, canary = tick.baseline, tick.canary
        share = self.share.count(tick.seconds, base.requests, canary.requests, nominal)
        self.errors.score(
            tick.seconds, (base.errors, base.requests), (canary.errors, canary.requests),
            share, active,
        )  # fmt: skip
        self._score_sheds(tick, active)
        ranking = Ranking(tick)
        shift = constant(len(share), self._shift)
        self.rank.bet(ranking.payoff(shift), scored & (ranking.pairs > 0))
        known = scored & self.quantiles.known
        self.p95.bet(self.p95_payoff(tick), known & (ranking.pairs > 0))
        slow = self.quantiles.p99 + self._stall_shift
        self.stalls.score(
            tick.seconds,
            (base.slower_than(slow), base.totals()),
            (canary.slower_than(slow), canary.totals()),
            share,
            known,
        )
        self.quantiles.add(tick)
        return ranking

    def p95_payoff(self, tick: Tick) -> Real:
        """Share of the canary's latencies beyond tolerance * p95 less the baseline's beyond p95."""
        base, canary, p95 = tick.baseline, tick.canary, self.quantiles.p95
        slow_canary = canary.slower_than(p95 + self._shift) / np.maximum(canary.totals(), 1)
        return slow_canary - base.slower_than(p95) / np.maximum(base.totals(), 1)

    def logs(self) -> Mapping[str, Real]:
        """Logarithm of each test's e-value."""
        return {
            "errors": self.errors.log_evidence(),
            "rank": self.rank.log_total(),
            "p95": self.p95.log_total(),
            "stalls": self.stalls.log_evidence(),
            "sheds": self.sheds.log_total(),
        }

    def _score_sheds(self, tick: Tick, active: Mask) -> None:
        base, canary = tick.baseline, tick.canary
        b_offers, c_offers = base.requests + base.sheds, canary.requests + canary.sheds
        tolerance, floor = self._error_tolerance, stakes.SHED_FLOOR
        excess = (
            canary.sheds / np.maximum(c_offers, 1)
            - tolerance * base.sheds / np.maximum(b_offers, 1)
            - floor
        )
        self.sheds.bet(excess / (tolerance + floor), active & (b_offers > 0) & (c_offers > 0))

    def _add_mass(self, mass: Real) -> None:
        for part in (self.errors, self.stalls, self.rank, self.p95, self.sheds):
            part.add_mass(mass)


def log_bounds(false_rollback_probability: float) -> Mapping[str, float]:
    """Logarithm of the e-value at which each test rolls back."""
    return {
        test: -math.log(share * false_rollback_probability)
        for test, share in stakes.ALPHA_SHARES.items()
    }
