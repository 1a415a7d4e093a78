"""A request for an output between its arrival and its end."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headway.gateway.pending import Answerable, Pending
from headway.v1 import inference_pb2

if TYPE_CHECKING:
    from headway.gateway.catalog import Pool
    from headway.gateway.decisions import BatchTrace, Record
    from headway.gateway.stream_replica import StreamReplica
    from headway.rollout.tap import ArmTap

FIRST_STREAM_ID = 1 << 62
"""Above all batch ids and tickets of the scheduler: both share a session."""

WINDOW_PARTS = 16
"""Parts a worker may send ahead of the reader."""


@dataclass(slots=True, eq=False)
class PendingStream(Answerable):
    """One live output. It ends exactly once; later ends change nothing.

    Attributes:
      stream_id: its batch and member on the wire, and its place in the dispatcher's table.
      units: prompt units as estimated.
      budget: most output units.
      expected: output units that are usual for its budget.
      company: lanes in use where it is written, its own included, when it began.
      lagged: whether its reader was behind, so that its pace says nothing of the replica's.
      reads_along: whether parts are wanted.
      tap: counts its outcome for a rollout, as of its admission; None where there is none.
    """

    stream_id: int
    request: inference_pb2.InferRequest
    request_id: str
    pool: "Pool"
    units: int
    budget: int
    expected: float
    blocks: list[int]
    priority: int
    arrived_ns: int
    deadline_ns: int
    reads_along: bool
    future: "asyncio.Future[inference_pb2.InferResponse]"
    record: "Record"
    trace: "BatchTrace | None" = None
    replica: "StreamReplica | None" = None
    dispatched_ns: int = 0
    predicted_first_ns: int = 0
    first_part_ns: int = 0
    last_part_ns: int = 0
    attempts: int = 0
    num_parts: int = 0
    num_delivered: int = 0
    written: int = 0
    company: int = 1
    lagged: bool = False
    ended: bool = False
    parts: deque[inference_pb2.OutputDelta] = field(default_factory=deque)
    wake: "asyncio.Future[None] | None" = None
    tap: "ArmTap | None" = None

    @property
    def ticket(self) -> int:
        """Its name in the scheduler."""
        return self.stream_id - FIRST_STREAM_ID

    def add_part(self, part: inference_pb2.OutputDelta) -> None:
        """One more part for the reader."""
        self.parts.append(part)
        self.lagged |= len(self.parts) >= WINDOW_PARTS // 2
        self._wake_up()

    async def next_part(self) -> inference_pb2.OutputDelta | None:
        """The next part; None once it has ended and all parts were taken."""
        while not self.parts:
            if self.ended:
                return None
            self.wake = asyncio.get_running_loop().create_future()
            await self.wake
        self.num_delivered += 1
        return self.parts.popleft()

    def _end(self, now_ns: int, outcome: str) -> bool:
        if self.ended:
            return False
        self.ended = True
        if self.trace is not None:
            self.trace.end(now_ns, outcome)
        self.pool.metrics.ended(outcome, now_ns - self.arrived_ns)
        if self.tap is not None:
            # The wait for its first part: how long the whole takes is the request's own doing.
            first_ns = (self.first_part_ns or now_ns) - self.arrived_ns
            self.tap.ended(now_ns, outcome, first_ns, self.attempts)
        self._wake_up()
        return not self.future.done()

    def _wake_up(self) -> None:
        if self.wake is not None and not self.wake.done():
            self.wake.set_result(None)


LiveRequest = Pending | PendingStream
"""A request of either kind between its arrival and its answer."""
