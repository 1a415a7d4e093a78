"""When an output's first and last unit will be there."""

import math

from headway._core import CostModel, ReplicaSpeeds
from headway.engine.length import OutputLengths
from headway.gateway.stream_replica import StreamReplica

PRIOR_INTERCEPT_NS = 100_000_000.0
PRIOR_SLOPE_NS = 4_000_000.0
WEIGHT = 0.1
LIFETIME_NS = 30_000_000_000
"""Age at which a refusal needs fresher evidence; one request is let through to bring it."""


class StreamForecast:
    """What one model version's outputs are like: lengths, and time to the first unit by prompt.

    Lengths are learned from outputs that ended and from those that were cut, told apart.
    """

    def __init__(self) -> None:
        self.lengths = OutputLengths()
        self._first = CostModel(
            prior_intercept_ns=PRIOR_INTERCEPT_NS, prior_slope_ns=PRIOR_SLOPE_NS
        )
        # A geometric mean: one huge prompt does not make all of them huge.
        self._log_prompt = math.log(64.0)
        self._learned_at = 0

    def learn_first(self, now_ns: int, units: int, wait_ns: int) -> None:
        """A first unit came `wait_ns` after its dispatch."""
        self._first.observe(max(1, units), max(1, wait_ns))
        self._log_prompt += WEIGHT * (math.log(max(1, units)) - self._log_prompt)
        self._learned_at = now_ns

    def learn_end(self, now_ns: int, output_units: int, *, censored: bool) -> None:
        """An output ended, by itself or cut (`censored`)."""
        self.lengths.observe(output_units, censored=censored)
        self._learned_at = now_ns

    def is_fresh(self, now_ns: int) -> bool:
        """Whether there is evidence that a refusal may rest on."""
        return self._learned_at > 0 and now_ns - self._learned_at < LIFETIME_NS

    def first_ns(self, replica: StreamReplica, units: int) -> int:
        """Dispatch to first unit there: the worker's word, by size of the prompt."""
        usual = max(1, self._first.predict_ns(max(1, round(math.exp(self._log_prompt)))))
        mine = self._first.predict_ns(max(1, units))
        said = replica.first_token_wait_ns or usual
        return round(said * mine / usual)

    def quickest(
        self, speeds: ReplicaSpeeds, units: int, output_units: float
    ) -> tuple[float, float, float] | None:
        """(ns to the first unit, from there to the last, bound) on the quickest replica.

        Of an output of `output_units`, >= 1. None without replicas. No replica takes less than the
        bound (`ReplicaSpeeds.quickest`).
        """
        usual = max(1, self._first.predict_ns(max(1, round(math.exp(self._log_prompt)))))
        mine = self._first.predict_ns(max(1, units))
        return speeds.quickest(mine / usual, mine, output_units - 1)
