"""What the faults are counted with: what reached a worker, and what is left when all is over.

Each fault of the list that Headway guards against has tests named `test_fault_NN_...`, on a live
fleet: gateway and workers over real sockets, with real gRPC clients.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import grpc
from google.protobuf.duration_pb2 import Duration
from prometheus_client.parser import text_string_to_metric_families
from tests.support.fleet import (
    RunningGateway,
    refusal,
    running_gateway,
    text_request,
    until_executing,
    until_live,
    until_replica,
)

from headway.clock import SystemClock
from headway.v1 import (
    control_pb2,
    fleet_pb2,
    fleet_pb2_grpc,
    inference_pb2,
    types_pb2,
    worker_pb2,
    worker_pb2_grpc,
)
from headway.worker.wiring import Worker

HANG = {"failures": {"hang": 1}}
CRITICAL, SHEDDABLE = types_pb2.PRIORITY_CRITICAL, types_pb2.PRIORITY_SHEDDABLE
BULK = types_pb2.LANE_BULK


def ms(milliseconds: int) -> Duration:
    duration = Duration()
    duration.FromMilliseconds(milliseconds)
    return duration


def one_by_one(intercept_ms: float, **more: Any) -> dict[str, Any]:
    """A device that takes so long for any request, and one at a time."""
    return {"intercept_ms": intercept_ms, "jitter_ratio": 0, "max_requests": 1, **more}


def texts_request(*texts: str, **fields: Any) -> inference_pb2.InferRequest:
    """A request of several rows."""
    value = types_pb2.Input(texts=types_pb2.TextList(values=texts))
    return inference_pb2.InferRequest(model="sim", input=value, **fields)


async def worker_counts(worker: Worker, name: str, label: str) -> dict[str, int]:
    """A counter of a worker by one of its labels, from its /metrics."""
    url = f"http://{worker.addresses['http']}/metrics"
    async with aiohttp.ClientSession() as client, client.get(url) as response:
        text = await response.text()
    counts: dict[str, int] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and sample.value:
                key = sample.labels[label]
                counts[key] = counts.get(key, 0) + int(sample.value)
    return counts


async def items(worker: Worker) -> dict[str, int]:
    """Members of batches that reached a worker, by how they ended there."""
    return await worker_counts(worker, "headway_worker_items_total", "status")


async def outcomes(running: RunningGateway) -> dict[str, int]:
    """Requests that ended on a gateway, by outcome."""
    state = await running.control.GetState(control_pb2.GetStateRequest(), timeout=5)
    return dict(state.state.gateway.requests)


async def begin(running: RunningGateway, text: str = "blocker", **fields: Any) -> Any:
    """A call whose request executes when this returns; nothing else may be executing."""
    call = running.inference.Infer(text_request(text, **fields), timeout=60)
    await until_executing(running)
    return call


async def refused(call: Any) -> Any:
    """What a call that fails was told."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return refusal(error)
    raise AssertionError("it was answered")


async def endings(calls: list[Any]) -> list[str]:
    """How each call ended: "ok", or the reason of its refusal."""
    ended = await asyncio.gather(*calls, return_exceptions=True)
    return [_ending(each) for each in ended]


def _ending(ended: Any) -> str:
    if isinstance(ended, grpc.aio.AioRpcError):
        return str(refusal(ended).reason)
    if isinstance(ended, asyncio.CancelledError):
        return "CANCELLED"
    assert not isinstance(ended, BaseException), ended
    return "ok"


async def all_counters_are_zero(running: RunningGateway) -> None:
    """Returns when nothing is counted as queued or executing anywhere, and checks all of it."""
    await until_live(running, 0)
    await until_executing(running, 0)
    state = (await running.control.GetState(control_pb2.GetStateRequest(), timeout=5)).state
    assert [pool.queued_requests for pool in state.pools] == [0] * len(state.pools)
    assert [pool.queued_units for pool in state.pools] == [0] * len(state.pools)
    assert [each.outstanding_batches for each in state.replicas] == [0] * len(state.replicas)
    assert running.gateway.dispatcher.num_flights() == 0
    assert running.gateway.scheduler.num_live() == 0


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
    *, transport: str = "grpcio", **device: Any
) -> AsyncIterator[tuple[RunningGateway, ScriptedWorker]]:
    """A gateway and a scripted worker, both in held time."""
    clock = HeldClock()
    worker = ScriptedWorker(clock, **device)
    try:
        # The scripted worker sends no heartbeats.
        async with running_gateway(clock=clock, transport=transport, lease_seconds=300) as running:
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


async def turn() -> None:
    """A turn of the event loop, with time for sockets."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.call_later(0.001, over.set_result, None)
    await over


async def until(condition: Callable[[], bool]) -> None:
    """Returns once `condition()` holds."""
    while not condition():
        await turn()
