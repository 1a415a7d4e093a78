"""What was decided on the last requests: kept as numbers and references, put into words on demand.

A request costs one object and a few assignments here, about 0.8 us (bench/micro/test_decisions.py).
No input, output or exception is held, so that a record stays small.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headway.errors import RequestError
from headway.rpc.interceptors import Caller

if TYPE_CHECKING:
    from headway._core import Reading
    from headway.gateway.catalog import Model, Pool

MAX_COMPANIONS = 16

LANE = -1
"""In the place of a BatchReason: the request took a lane by itself, in no batch."""


@dataclass(slots=True, eq=False)
class BatchTrace:
    """One execution; its members share it.

    Attributes:
      reason: a BatchReason, as a number; or `LANE`.
      request_ids: of its first members.
      score_ns, other_score_ns: expected wait and service on the chosen and the other drawn
        replica; 0 where only one was free.
      outcome: of the whole; "" while it runs.
      hedge_of: the late batch that this was a copy of; 0 for none.
      pipelined: whether it left while the replica still executed its last batch.
      left_to_twin: whether another copy was still executing when this one failed.
      shut_out: whether its failure opened the replica's breaker, or found it open.
      recent_failures, recent_outcomes: by which the breaker judged then.
    """

    batch_id: int
    replica: str
    size: int
    rows: int
    units: int
    reason: int
    predicted_ns: int
    sent_ns: int
    request_ids: tuple[str, ...]
    score_ns: int = 0
    other_replica: str = ""
    other_score_ns: int = 0
    device_ns: int = 0
    ended_ns: int = 0
    outcome: str = ""
    message: str = ""
    hedge_of: int = 0
    pipelined: bool = False
    left_to_twin: bool = False
    shut_out: bool = False
    recent_failures: int = 0
    recent_outcomes: int = 0

    def end(self, now_ns: int, outcome: str, message: str = "", device_ns: int = 0) -> None:
        """Takes note of how it ended."""
        self.ended_ns, self.outcome = now_ns, outcome
        self.message, self.device_ns = message, device_ns


@dataclass(slots=True, eq=False)
class Record:
    """The decisions on one request, as far as they have been made.

    Attributes:
      attempts: its executions, each with time in queue and slack at dispatch.
      reading: what admission saw; None where it was refused before.
    """

    request_id: str
    caller: Caller
    arrived_ns: int
    model: "Model | None" = None
    pool: "Pool | None" = None
    pinned: bool = False
    key_hash: int = 0
    shares: tuple[tuple[str, float], ...] = ()
    deadline_ns: int = 0
    units: int = 0
    rows: int = 0
    priority: int = 0
    lane: int = 0
    weight: float = 1.0
    inflight: int = 0
    reading: "Reading | None" = None
    admitted: bool = False
    attempts: list[tuple[BatchTrace, int, int]] = field(default_factory=list)
    ended_ns: int = 0
    outcome: str = ""
    message: str = ""
    retry_after_ns: int | None = None

    def fail(self, now_ns: int, error: RequestError) -> None:
        """It ended with an error. The error itself is not kept: its traceback holds the input."""
        self.ended_ns, self.outcome, self.message = now_ns, error.reason, error.message
        self.retry_after_ns = error.retry_after_ns


class DecisionLog:
    """The newest records, at most `size`; older ones are gone."""

    def __init__(self, size: int) -> None:
        self._records: deque[Record] = deque(maxlen=size)
        self.add = self._records.append

    def find(self, request_id: str) -> Record | None:
        """The newest record of that name. O(size): some milliseconds, when somebody asks."""
        return next((r for r in reversed(self._records) if r.request_id == request_id), None)

    def __len__(self) -> int:
        return len(self._records)
