"""Outputs under load: time to the first part, gaps between parts, and tokens a second."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from headway._core import QuantileHistogram
from headway.clock import Clock
from headway.loadtest.report import PERCENTILES
from headway.v1 import inference_pb2

NS_PER_S = 1_000_000_000
_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class StreamObjective:
    """What an output must keep to count as good.

    Attributes:
      first_ns: longest wait to the first part.
      gap_ns: largest 95th percentile of the gaps between its parts.
    """

    first_ns: int
    gap_ns: int


class StreamTally:
    """What readers saw of the outputs that ended."""

    def __init__(self, objective: StreamObjective) -> None:
        self.objective = objective
        self.first = QuantileHistogram()
        self.gap = QuantileHistogram()
        self.num_ended = 0
        self.num_good = 0
        self.tokens = 0

    def add(self, parts_at_ns: list[int], called_at_ns: int, tokens: int) -> None:
        """An output ended."""
        self.num_ended += 1
        self.tokens += tokens
        if not parts_at_ns:
            return
        first_ns = parts_at_ns[0] - called_at_ns
        gaps = sorted(later - earlier for earlier, later in pairwise(parts_at_ns))
        self.first.record(first_ns)
        for gap in gaps:
            self.gap.record(gap)
        late = gaps[min(len(gaps) - 1, int(0.95 * len(gaps)))] if gaps else 0
        self.num_good += first_ns <= self.objective.first_ns and late <= self.objective.gap_ns

    def report(self, offered: int, seconds: float) -> Mapping[str, Any]:
        """Numbers for JSON; `offered` requests in `seconds`."""
        return {
            "first_part_ms": _figures(self.first),
            "gap_ms": _figures(self.gap),
            "tokens_per_s": self.tokens / seconds if seconds else 0.0,
            "objective_ms": {
                "first_part": self.objective.first_ns / _NS_PER_MS,
                "gap_p95": self.objective.gap_ns / _NS_PER_MS,
            },
            "good": self.num_good,
            "good_ratio": self.num_good / offered if offered else 0.0,
        }


class Streams(Protocol):
    """Who opens streams: a `Client`."""

    def infer_stream(
        self, request: inference_pb2.InferRequest, *, timeout_s: float | None = None
    ) -> AsyncGenerator[inference_pb2.InferStreamResponse]:
        """As `Client.infer_stream`."""
        ...


class StreamCaller:
    """A `Caller` that reads each output along and tallies what it saw."""

    def __init__(
        self, client: Streams, clock: Clock, tally: StreamTally, *, count_from_ns: int
    ) -> None:
        """`count_from_ns`: calls before it belong to the warm-up."""
        self._client = client
        self._clock = clock
        self._tally = tally
        self._count_from_ns = count_from_ns

    async def infer(
        self, request: inference_pb2.InferRequest, *, timeout_s: float | None = None
    ) -> inference_pb2.InferResponse:
        """The answer, once it has been read to its end. Raises as `Client.infer` does."""
        called_at_ns = self._clock.now_ns()
        parts_at_ns: list[int] = []
        final = inference_pb2.InferResponse()
        async for event in self._client.infer_stream(request, timeout_s=timeout_s):
            if event.WhichOneof("event") == "delta":
                parts_at_ns.append(self._clock.now_ns())
            else:
                final = event.final
        if called_at_ns >= self._count_from_ns:
            self._tally.add(parts_at_ns, called_at_ns, final.usage.output_units)
        return final


def _figures(histogram: QuantileHistogram) -> Mapping[str, float]:
    figures = {name: histogram.quantile(q) / _NS_PER_MS for name, q in PERCENTILES.items()}
    return {**figures, "mean": histogram.mean / _NS_PER_MS, "max": histogram.max / _NS_PER_MS}
