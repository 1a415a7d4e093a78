"""A request between its arrival and its answer."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.errors import RequestError
from headway.v1 import inference_pb2

if TYPE_CHECKING:
    from headway.gateway.catalog import Pool


@dataclass(slots=True, eq=False)
class Pending:
    """One live request. It ends exactly once; later ends change nothing."""

    ticket: int
    request: inference_pb2.InferRequest
    request_id: str
    pool: "Pool"
    arrived_ns: int
    deadline_ns: int
    future: "asyncio.Future[inference_pb2.InferResponse]"
    queued_ns: int = 0
    slack_ns: int = 0
    attempts: int = 0
    ended: bool = False

    def answer(self, now_ns: int, response: inference_pb2.InferResponse) -> None:
        """Ends it with an answer."""
        if self._end(now_ns, "ok"):
            self.future.set_result(response)

    def fail(self, now_ns: int, error: RequestError) -> None:
        """Ends it with an error."""
        if self._end(now_ns, error.reason):
            self.future.set_exception(error)

    def _end(self, now_ns: int, outcome: str) -> bool:
        """Counts the end; True if somebody still waits for it."""
        if self.ended:
            return False
        self.ended = True
        self.pool.metrics.ended(outcome, now_ns - self.arrived_ns)
        # A caller that leaves takes the future with it.
        return not self.future.done()
