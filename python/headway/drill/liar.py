"""A worker that joins a gateway and answers garbage: python -m ... CONTROL_ADDRESS WORKER_ID.

It speaks WorkerService by itself, so that it may say what no worker of Headway would: answers for
members and batches that it was never given, the same answer twice, no member at all, statuses that
are none, answers without output, and times below zero and beyond counting.
"""

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

from headway.clock import SystemClock
from headway.drill.processes import MODEL
from headway.rng import SeedTree
from headway.rpc.channels import aio
from headway.v1 import fleet_pb2, types_pb2, worker_pb2, worker_pb2_grpc
from headway.worker.fleet import Membership

_CARD = types_pb2.ModelCard(
    model=MODEL,
    version="v1",
    runtime="liar",
    unit_estimate=types_pb2.UnitEstimate(units_per_byte=0.25),
    batch_limits=types_pb2.BatchLimits(max_requests=8),
)
_OTHERS = types_pb2.Output(text="an answer to somebody else")
_OK = worker_pb2.ITEM_STATUS_OK
Batch = worker_pb2.ExecuteBatch
Result = worker_pb2.BatchResult


def _missing(batch: Batch, result: Result) -> None:
    del result.items[:]


def _strangers(batch: Batch, result: Result) -> None:
    for item in result.items:
        item.item_id += 1_000_003
        item.output.CopyFrom(_OTHERS)


def _without_output(batch: Batch, result: Result) -> None:
    for item in result.items:
        item.ClearField("output")


def _no_status(batch: Batch, result: Result) -> None:
    for item in result.items:
        item.status = worker_pb2.ITEM_STATUS_UNSPECIFIED


def _times_below_zero(batch: Batch, result: Result) -> None:
    result.device_ns, result.wall_ns, result.units = -(2**63), -1, -(2**40)
    del result.items[:]


def _times_beyond_counting(batch: Batch, result: Result) -> None:
    result.device_ns, result.units = 2**63 - 1, 2**63 - 1
    del result.items[:]


def _another_batch(batch: Batch, result: Result) -> None:
    result.batch_id = 2**64 - 1


LIES: tuple[Callable[[Batch, Result], None], ...] = (
    _missing, _strangers, _without_output, _no_status, _times_below_zero, _times_beyond_counting,
    _another_batch,
)  # fmt: skip


class Liar(worker_pb2_grpc.WorkerServiceServicer):
    """Greets as a worker does, and lies from then on, in turn."""

    def __init__(self, worker_id: str) -> None:
        self._worker_id = worker_id
        self._lies = itertools.cycle(LIES)

    async def Session(
        self, requests: AsyncIterator[worker_pb2.SessionRequest], context: Any
    ) -> AsyncIterator[worker_pb2.SessionResponse]:
        """One gateway's session."""
        async for request in requests:
            kind = request.WhichOneof("message")
            if kind == "greeting":
                hosted = worker_pb2.HostedModel(handle=0, card=_CARD)
                greeting = worker_pb2.WorkerGreeting(worker_id=self._worker_id, models=[hosted])
                yield worker_pb2.SessionResponse(greeting=greeting)
            elif kind == "execute":
                for response in self._answers(request.execute):
                    yield response

    def _answers(self, batch: Batch) -> list[worker_pb2.SessionResponse]:
        lie = next(self._lies)
        false = _result(batch)
        lie(batch, false)
        answers = [false, false]
        if lie is _another_batch:
            # Nothing came for the batch itself: tell that it was not begun.
            busy = worker_pb2.BatchBusy(batch_id=batch.batch_id, retry_after_ns=-5)
            return [
                worker_pb2.SessionResponse(result=false), worker_pb2.SessionResponse(busy=busy)
            ]  # fmt: skip
        return [worker_pb2.SessionResponse(result=each) for each in answers]


def _result(batch: Batch) -> Result:
    result = Result(batch_id=batch.batch_id, device_ns=1_000_000, wall_ns=1_000_000, units=1)
    for item in batch.items:
        result.items.add(item_id=item.item_id, status=_OK, output=_OTHERS)
    return result


async def main(control: str, worker_id: str) -> None:
    """Lies until killed."""
    server = aio.server()
    worker_pb2_grpc.add_WorkerServiceServicer_to_server(Liar(worker_id), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()

    def registration() -> fleet_pb2.RegisterRequest:
        return fleet_pb2.RegisterRequest(
            worker_id=worker_id,
            instance_id="liar",
            address=f"127.0.0.1:{port}",
            models=[_CARD],
            max_outstanding_batches=1,
        )

    membership = Membership(
        control,
        registration=registration,
        heartbeat=lambda: fleet_pb2.HeartbeatRequest(state=fleet_pb2.WORKER_STATE_READY),
        clock=SystemClock(),
        rng=SeedTree(1).stream("fleet"),
    )
    await membership.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
