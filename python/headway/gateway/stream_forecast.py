"""When an output's first and last unit will be there."""

import math
from collections.abc import Iterable, Iterator

from headway._core import CostModel
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
        self._usual_hold_ns = 0.0
        self._learned_at = 0

    def learn_first(self, now_ns: int, units: int, wait_ns: int) -> None:
        """A first unit came `wait_ns` after its dispatch."""
        self._first.observe(max(1, units), max(1, wait_ns))
        self._log_prompt += WEIGHT * (math.log(max(1, units)) - self._log_prompt)
        self._learned_at = now_ns

    def learn_end(self, now_ns: int, output_units: int, hold_ns: int, *, censored: bool) -> None:
        """An output ended `hold_ns` after its dispatch, by itself or cut (`censored`)."""
        self.lengths.observe(output_units, censored=censored)
        weight = WEIGHT if self._usual_hold_ns else 1.0
        self._usual_hold_ns += weight * (hold_ns - self._usual_hold_ns)
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

    def times(
        self, replicas: Iterable[StreamReplica], units: int, budget: int
    ) -> Iterator[tuple[int, int]]:
        """Dispatch to first unit, and from there to the last, on each replica."""
        num_gaps = self.lengths.expected(budget=budget) - 1
        for replica in replicas:
            yield self.first_ns(replica, units), round(num_gaps * replica.gap_ns)

    def lane_ns(self, now_ns: int, replicas: Iterable[StreamReplica], place: int) -> int:
        """Wait for a lane behind `place` others: by what is left of the outputs under way."""
        left: list[float] = []
        for replica in replicas:
            if replica.free_lanes > 0 and place == 0:
                return 0
            for stream in replica.inflight.values():
                begun = stream.first_part_ns or stream.dispatched_ns
                elapsed = int((now_ns - begun) / replica.gap_ns)
                written = min(max(stream.written, elapsed), stream.budget - 1)
                expected = self.lengths.expected(generated=written, budget=stream.budget)
                left.append((expected - written) * replica.gap_ns)
        if not left:
            return 0
        left.sort()
        rounds, index = divmod(place, len(left))
        return round(left[index] + rounds * self._usual_hold_ns)
