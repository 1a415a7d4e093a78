"""A worker whose device is the test's, with its gateway in held time: nothing depends on pauses."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from tests.support.fleet import RunningGateway, ms, running_gateway, turn, until, until_replica

from headway.clock import SystemClock
from headway.gateway.reload import Load
from headway.v1 import fleet_pb2, fleet_pb2_grpc, types_pb2, worker_pb2, worker_pb2_grpc


class HeldClock(SystemClock):
    """Its present moves only when it is told to; who sleeps does so in real time."""

    __slots__ = ("present_ns",)

    def __init__(self) -> None:
        self.present_ns = SystemClock().now_ns()

    def now_ns(self) -> int:
        return self.present_ns


class ScriptedWorker(worker_pb2_grpc.WorkerServiceServicer):
    """A worker over real gRPC whose device is the test's, in the time of a `HeldClock`.

    Paused, it keeps the batches it gets in `batches`; resumed, it works on each at once: the
    clock moves by what the device takes, and the answer goes out. `executed` has the texts of all
    batches that were begun, in order.
    """

    def __init__(
        self,
        clock: HeldClock,
        *,
        intercept_ms: int = 100,
        max_requests: int = 1,
        max_units: int = 0,
        worker_id: str = "scripted",
    ) -> None:
        self.batches: asyncio.Queue[worker_pb2.ExecuteBatch] = asyncio.Queue()
        self.executed: list[list[str]] = []
        self.device_ns = intercept_ms * 1_000_000
        self.clock = clock
        self._paused = True
        self._worker_id = worker_id
        self._card = types_pb2.ModelCard(
            model="sim",
            version="v1",
            input_kinds=[types_pb2.INPUT_KIND_TEXT],
            unit_estimate=types_pb2.UnitEstimate(units_per_byte=0.25),
            batch_limits=types_pb2.BatchLimits(max_requests=max_requests, max_units=max_units),
            cost_prior=types_pb2.CostPrior(intercept=ms(intercept_ms)),
        )
        self._answers: asyncio.Queue[worker_pb2.SessionResponse] = asyncio.Queue()
        self._server = grpc.aio.server()
        worker_pb2_grpc.add_WorkerServiceServicer_to_server(self, self._server)
        self._port = self._server.add_insecure_port("127.0.0.1:0")

    async def join(self, running: RunningGateway) -> None:
        """Listens, registers, and returns once the gateway would send it work."""
        await self._server.start()
        stub = fleet_pb2_grpc.FleetServiceStub(running.control_channel)
        request = fleet_pb2.RegisterRequest(
            worker_id=self._worker_id,
            instance_id="1",
            address=f"127.0.0.1:{self._port}",
            models=[self._card],
        )
        await stub.Register(request, timeout=5)
        await until_replica(running, f"{self._worker_id}/sim/v1")

    async def close(self) -> None:
        await self._server.stop(None)

    def say(self, **message: Any) -> None:
        """Sends a message to the gateway."""
        self._answers.put_nowait(worker_pb2.SessionResponse(**message))

    def resume(self) -> None:
        """Works on what it has, and on what comes."""
        self._paused = False
        while not self.batches.empty():
            self.work(self.batches.get_nowait())

    async def Session(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        reader = asyncio.ensure_future(self._read(requests))
        try:
            while True:
                yield await self._answers.get()
        finally:
            reader.cancel()

    async def _read(self, requests: Any) -> None:
        async for request in requests:
            kind = request.WhichOneof("message")
            if kind == "greeting":
                hosted = worker_pb2.HostedModel(handle=0, card=self._card)
                greeting = worker_pb2.WorkerGreeting(
                    worker_id=self._worker_id, instance_id="1", models=[hosted]
                )
                self.say(greeting=greeting)
            elif kind == "execute":
                self._take(request.execute)

    def _take(self, batch: worker_pb2.ExecuteBatch) -> None:
        self.executed.append([item.input.text for item in batch.items])
        if self._paused:
            self.batches.put_nowait(batch)
        else:
            self.work(batch)

    def work(self, batch: worker_pb2.ExecuteBatch) -> None:
        """Does a batch: the clock moves on, and the answer goes out."""
        self.clock.present_ns += self.device_ns
        units = sum(-(-len(item.input.text) // 4) for item in batch.items)
        items = [
            worker_pb2.ItemResult(
                item_id=item.item_id,
                status=worker_pb2.ITEM_STATUS_OK,
                output=types_pb2.Output(text=item.input.text),
                usage=types_pb2.Usage(prompt_units=-(-len(item.input.text) // 4), rows=1),
            )
            for item in batch.items
        ]
        result = worker_pb2.BatchResult(
            batch_id=batch.batch_id, items=items, device_ns=self.device_ns, units=units
        )
        self.say(result=result)


@contextlib.asynccontextmanager
async def scripted(
    *, load: Load | None = None, transport: str = "grpcio", **device: Any
) -> AsyncIterator[tuple[RunningGateway, ScriptedWorker]]:
    """A gateway and a scripted worker, both in held time."""
    clock = HeldClock()
    worker = ScriptedWorker(clock, **device)
    try:
        # The scripted worker sends no heartbeats.
        async with running_gateway(
            load, clock=clock, transport=transport, lease_seconds=300
        ) as running:
            await worker.join(running)
            yield running, worker
    finally:
        await worker.close()


async def steady_stream(
    running: RunningGateway,
    worker: ScriptedWorker,
    ask: Callable[[], Any],
    others: list[Any],
    *,
    at_once: int,
    batches: int,
) -> None:
    """Lets a paused worker do so many batches, with so many calls of `ask` open before each.

    `others` are the calls besides. Those of `ask` that are left are cancelled.
    """
    open_calls: list[Any] = []

    def all_are_counted() -> bool:
        left = sum(not call.done() for call in (*open_calls, *others))
        return running.gateway.scheduler.num_live() == left

    async def fill_up() -> None:
        nonlocal open_calls
        await until(all_are_counted)
        open_calls = [call for call in open_calls if not call.done()]
        open_calls += [ask() for _ in range(at_once - len(open_calls))]
        await until(all_are_counted)

    for _ in range(batches):
        # At the edge of capacity some are refused; the device may then have nothing in hand.
        while worker.batches.empty():
            await fill_up()
            await turn()
        await fill_up()
        worker.work(worker.batches.get_nowait())
    for call in open_calls:
        call.cancel()
