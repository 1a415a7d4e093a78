"""A request between its arrival and its answer."""

import asyncio
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.errors import RequestError
from headway.v1 import inference_pb2

if TYPE_CHECKING:
    from headway.gateway.catalog import Pool
    from headway.gateway.decisions import Record
    from headway.rollout.tap import ArmTap


class Answerable:
    """What awaits an answer, or an error in its place."""

    __slots__ = ()

    request_id: str
    future: "asyncio.Future[inference_pb2.InferResponse]"
    record: "Record"
    ended: bool

    def answer(self, now_ns: int, response: inference_pb2.InferResponse) -> None:
        """Ends it with an answer."""
        if not self.ended:
            self.record.ended_ns, self.record.outcome = now_ns, "ok"
        if self._end(now_ns, "ok"):
            self.future.set_result(response)

    def fail(self, now_ns: int, error: RequestError) -> None:
        """Ends it with an error."""
        if not self.ended:
            error.metadata.setdefault("request_id", self.request_id)
            self.record.fail(now_ns, error)
        if self._end(now_ns, error.reason):
            self.future.set_exception(error)

    @abstractmethod
    def _end(self, now_ns: int, outcome: str) -> bool:
        """Counts the end; True if it is the first one and somebody still waits for it."""


@dataclass(slots=True, eq=False)
class Pending(Answerable):
    """One live request. It ends exactly once; later ends change nothing."""

    ticket: int
    request: inference_pb2.InferRequest
    request_id: str
    pool: "Pool"
    arrived_ns: int
    deadline_ns: int
    future: "asyncio.Future[inference_pb2.InferResponse]"
    record: "Record"
    queued_ns: int = 0
    slack_ns: int = 0
    attempts: int = 0
    # True if a second copy of its batch was sent.
    hedged: bool = False
    ended: bool = False
    # Counts its outcome for a rollout, as of its admission; None where there is none.
    tap: "ArmTap | None" = None

    def _end(self, now_ns: int, outcome: str) -> bool:
        if self.ended:
            return False
        self.ended = True
        self.pool.metrics.ended(outcome, now_ns - self.arrived_ns)
        if self.tap is not None:
            self.tap.ended(now_ns, outcome, now_ns - self.arrived_ns, self.attempts)
        # A caller that leaves takes the future with it.
        return not self.future.done()
