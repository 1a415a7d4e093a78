"""What was measured, in bounded memory."""

from collections.abc import Mapping, Sequence

from headway._core import QuantileHistogram
from headway.rpc.convert import duration_ns
from headway.v1 import inference_pb2

MOST_NAMES = 64
"""Distinct names counted apart; the rest are counted together, as ``other``."""


class NameCount:
    """Counts by name, of which there may be at most `MOST_NAMES`."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, name: str) -> None:
        """Counts one more."""
        if name not in self._counts and len(self._counts) >= MOST_NAMES:
            name = "other"
        self._counts[name] = self._counts.get(name, 0) + 1

    def by_size(self) -> Mapping[str, int]:
        """The largest first; equal ones by name."""
        return dict(sorted(self._counts.items(), key=lambda item: (-item[1], item[0])))

    def total(self) -> int:
        """All of them."""
        return sum(self._counts.values())


class DeadlineClassTally:
    """Requests of one deadline class."""

    def __init__(self, deadline_ns: int) -> None:
        self.deadline_ns = deadline_ns
        self.offered = 0
        self.in_time = 0


class Tally:
    """Counts of the measured requests of one run. All durations in nanoseconds."""

    def __init__(self, deadlines_ns: Sequence[int]) -> None:
        """`deadlines_ns`: the deadline classes."""
        self.classes = [DeadlineClassTally(deadline_ns) for deadline_ns in deadlines_ns]
        self.dropped_by_client = 0
        self.ok = 0
        self.in_time = 0
        self.errors = NameCount()
        self.latency = QuantileHistogram()
        self.queued = QuantileHistogram()
        self.device = QuantileHistogram()
        self.batch_reasons = NameCount()
        self.versions = NameCount()
        self.replicas = NameCount()
        self.units = 0
        self.hedged = 0
        self.repeated = 0
        self._batches = 0.0

    @property
    def offered(self) -> int:
        """Requests that were due."""
        return sum(deadline_class.offered for deadline_class in self.classes)

    @property
    def mean_batch(self) -> float:
        """Mean number of requests in a batch; 0 before the first answer.

        A batch of n is seen n times, and each time counts as 1/n of a batch. It is too low where
        others share the batches.
        """
        return self.ok / self._batches if self._batches else 0.0

    def offer(self, deadline_class: int) -> None:
        """A request is due."""
        self.classes[deadline_class].offered += 1

    def drop(self) -> None:
        """It was not sent: the client could not."""
        self.dropped_by_client += 1

    def fail(self, reason: str) -> None:
        """It ended in an error."""
        self.errors.add(reason)

    def answer(
        self, deadline_class: int, latency_ns: int, response: inference_pb2.InferResponse
    ) -> None:
        """It was answered, `latency_ns` after it was due."""
        self.ok += 1
        self.latency.record(latency_ns)
        counted = self.classes[deadline_class]
        if latency_ns <= counted.deadline_ns:
            self.in_time += 1
            counted.in_time += 1
        self.queued.record(duration_ns(response.timings.queued))
        self.device.record(duration_ns(response.timings.device))
        self.versions.add(response.version)
        self.replicas.add(response.replica)
        self.units += response.usage.prompt_units + response.usage.output_units
        self.hedged += response.hedged
        self.repeated += response.attempts > 1
        batch = response.batch
        self._batches += 1 / max(batch.size, 1)
        self.batch_reasons.add(_reason(batch.reason))


def _reason(reason: inference_pb2.BatchReason) -> str:
    try:
        return inference_pb2.BatchReason.Name(reason).removeprefix("BATCH_REASON_")
    except ValueError:  # of a newer gateway
        return str(reason)
