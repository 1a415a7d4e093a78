"""A request between its arrival and its answer."""

import asyncio
from typing import TYPE_CHECKING

from headway.errors import RequestError
from headway.v1 import inference_pb2

if TYPE_CHECKING:
    from headway.gateway.catalog import Pool


class Pending:
    """One live request. Ends exactly once: later ends are ignored and say so by False."""

    __slots__ = ("arrived_ns", "attempts", "deadline_ns", "future", "pool", "queued_ns",
                 "request", "request_id", "slack_ns", "ticket")  # fmt: skip

    def __init__(
        self,
        ticket: int,
        request: inference_pb2.InferRequest,
        request_id: str,
        pool: "Pool",
        arrived_ns: int,
        deadline_ns: int,
        future: "asyncio.Future[inference_pb2.InferResponse]",
    ) -> None:
        self.ticket = ticket
        self.request = request
        self.request_id = request_id
        self.pool = pool
        self.arrived_ns = arrived_ns
        self.deadline_ns = deadline_ns
        self.future = future
        self.queued_ns = 0
        self.slack_ns = 0
        self.attempts = 0

    def answer(self, now_ns: int, response: inference_pb2.InferResponse) -> bool:
        """Ends it with an answer."""
        if self.future.done():
            return False
        self.pool.metrics.ended("ok", now_ns - self.arrived_ns)
        self.future.set_result(response)
        return True

    def fail(self, now_ns: int, error: RequestError) -> bool:
        """Ends it with an error."""
        if self.future.done():
            return False
        self.pool.metrics.ended(error.reason, now_ns - self.arrived_ns)
        self.future.set_exception(error)
        return True
