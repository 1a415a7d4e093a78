"""The test of a rate of rare events: errors, or stalls."""

import numpy as np

from headway.rollout import stakes
from headway.rollout.rows import Mask, Real, Rows, Whole
from headway.rollout.wealth import Wealth, log_mean


class RateTest(Rows):
    """Refutes "the canary's rate is at most max(floor, tolerance * baseline's)".

    Half of the capital is on min(absolute, ratio), half on the difference. The minimum of two is a
    test of their union: `absolute` keeps one event against a baseline of none from counting for
    infinity, `ratio` keeps an outage of both arms from counting at all. `difference` sees what
    `ratio` cannot, when the canary has most of the traffic.
    """

    def __init__(self, num_rows: int, *, floor: float, tolerance: float) -> None:
        """`floor` in (0, 1), `tolerance` > 1."""
        self._floor = floor
        self._tolerance = tolerance
        self.absolute = Wealth(num_rows, stakes.UP)
        self.ratio = Wealth(num_rows, stakes.UP)
        self.difference = Wealth(num_rows, stakes.DIFFERENCE)
        self.baseline_events: Real = np.zeros(num_rows)
        self.baseline_requests: Real = np.zeros(num_rows)

    def add_mass(self, mass: Real) -> None:
        """Begins anew, for each row, with a start mass."""
        for wealth in (self.absolute, self.ratio, self.difference):
            wealth.add_mass(mass)

    def drop(self, rows: Mask) -> None:
        """Gives all capital of some rows up."""
        for wealth in (self.absolute, self.ratio, self.difference):
            wealth.drop(rows)

    def score(
        self,
        seconds: float,
        baseline: tuple[Real, Real],
        canary: tuple[Real, Real],
        share: Real,
        active: Mask,
    ) -> None:
        """One tick.

        Args:
          baseline, canary: events and requests of each row.
          share: the canary's measured share of requests, in (0, 1).
          active: rows that take part.
        """
        (b_events, b_requests), (c_events, c_requests) = baseline, canary
        memory = np.where(active, np.exp(-seconds / stakes.BASELINE_MEMORY_S), 1.0)
        self.baseline_events = memory * self.baseline_events + np.where(active, b_events, 0)
        self.baseline_requests = memory * self.baseline_requests + np.where(active, b_requests, 0)
        c_rate = c_events / np.maximum(c_requests, 1)
        served = active & (c_requests > 0)
        self.absolute.bet(c_rate / self.limit() - 1, served)
        expected = self._tolerance * share / (self._tolerance * share + 1 - share)
        events = b_events + c_events
        part = c_events / np.maximum(events, 1)
        self.ratio.bet(part / expected - 1, served & (events > 0))
        b_rate = b_events / np.maximum(b_requests, 1)
        excess = c_rate - self._tolerance * b_rate - self._floor
        self.difference.bet(excess / (self._tolerance + self._floor), served & (b_requests > 0))

    def limit(self) -> Real:
        """The largest rate within tolerance, as known now."""
        rate = self.baseline_events / np.maximum(self.baseline_requests, 1)
        return np.clip(self._tolerance * rate, self._floor, 1.0)

    def log_evidence(self) -> Real:
        """Logarithm of the e-value."""
        both = np.minimum(self.absolute.log_total(), self.ratio.log_total())
        return log_mean(both, self.difference.log_total())


class MeasuredShare(Rows):
    """The canary's share of requests since the step began, shrunk to the nominal one."""

    def __init__(self, num_rows: int) -> None:
        self.baseline: Real = np.zeros(num_rows)
        self.canary: Real = np.zeros(num_rows)
        self.block_baseline: Real = np.zeros(num_rows)
        self.block_canary: Real = np.zeros(num_rows)
        self.seconds: Real = np.zeros(num_rows)

    def enter_step(self, rows: Mask) -> None:
        """Forgets what was, since shares change."""
        for name in self._arrays():
            getattr(self, name)[rows] = 0

    def begin_block(self, rows: Mask) -> None:
        """Starts the burst guard's count anew."""
        self.block_baseline[rows] = 0
        self.block_canary[rows] = 0

    def count(self, seconds: float, baseline: Real, canary: Real, nominal: Real) -> Real:
        """Adds a tick; returns the share of each row, in (0, 1)."""
        self.baseline += baseline
        self.canary += canary
        self.block_baseline += baseline
        self.block_canary += canary
        self.seconds += seconds
        total = self.baseline + self.canary
        prior = stakes.SHARE_PRIOR_S * total / self.seconds
        share = (self.canary + prior * nominal) / np.maximum(total + prior, 1e-9)
        share = np.where(total > 0, share, nominal)
        block = self.block_baseline + self.block_canary
        spread = np.sqrt(stakes.BURST_GROUP * share * (1 - share) * block)
        burst = self.block_canary > share * block + 3 * spread
        share = np.where(burst, self.block_canary / np.maximum(block, 1), share)
        return np.clip(share, 1e-6, 1 - 1e-6)


def constant(num_rows: int, value: int) -> Whole:
    """The same whole number for each row."""
    return np.full(num_rows, value, dtype=np.int64)
