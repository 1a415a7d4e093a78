"""What each step was, and why: a bounded ring in memory, and lines for a file."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

RING_STEPS = 4096


@dataclass(frozen=True, slots=True)
class LaneShare:
    """A lane's part in a step.

    Attributes:
      request_id: whose it is.
      prompt_tokens: prompt tokens done for it.
      output_tokens: tokens it got.
      drafted: drafts verified for it.
      accepted: drafts that were right.
    """

    request_id: str
    prompt_tokens: int
    output_tokens: int
    drafted: int
    accepted: int


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step. Instants and durations in nanoseconds of the worker's clock.

    Attributes:
      reason: why this graph, by name.
      predicted_ns: cost of the graph when it was chosen; 0 where it was not measured yet.
      device_ns: time the device took; 0 where it cannot tell.
      wall_ns: from when the device could begin it to its end.
      handoff_ns: the part of the predicted cost that is charged for draining the queue.
      drained: True if the device had nothing to do when it was submitted.
      num_lanes: lanes that could have been in it.
      score: its value per second, in output tokens; and the parts of it by name.
    """

    step: int
    graph: str
    reason: str
    submitted_at_ns: int
    completed_at_ns: int
    predicted_ns: int
    device_ns: int
    wall_ns: int
    handoff_ns: int
    drained: bool
    num_lanes: int
    lanes: Sequence[LaneShare]
    score: float
    parts: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        """A plain value, for a line of a file."""
        return asdict(self)


class Trace:
    """The last steps."""

    def __init__(self, sink: Callable[[StepRecord], None] | None = None) -> None:
        """`sink` hears of every step as well; it must not block."""
        self._steps: deque[StepRecord] = deque(maxlen=RING_STEPS)
        self._sink = sink

    def add(self, record: StepRecord) -> None:
        """Appends a step; the oldest one goes when the ring is full."""
        self._steps.append(record)
        if self._sink is not None:
            self._sink(record)

    def steps(self) -> Sequence[StepRecord]:
        """From the oldest on."""
        return list(self._steps)
