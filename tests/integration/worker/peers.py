"""What a worker talks to: a gateway's end of a session, and a gateway's list of workers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headway.clock import Clock, SystemClock
from headway.rng import SeedTree
from headway.v1 import fleet_pb2, fleet_pb2_grpc, types_pb2, worker_pb2, worker_pb2_grpc
from headway.worker.settings import WorkerSettings
from headway.worker.wiring import Worker

S = 1_000_000_000
MIB = 1 << 20
Request = worker_pb2.SessionRequest
INSTANT = {"kind": "simulated", "intercept_ms": 0, "slope_ms_per_unit": 0}
HANGING = {**INSTANT, "failures": {"hang": 1}}


def simulated(**runtime: Any) -> list[dict[str, Any]]:
    """One simulated model, instant unless said otherwise."""
    return [{"model": "sim", "runtime": {**INSTANT, **runtime}}]


@contextlib.asynccontextmanager
async def running_worker(clock: Clock | None = None, **values: Any) -> AsyncIterator[Worker]:
    settings = WorkerSettings.model_validate(
        {"worker_id": "w1", "gateways": [], "models": simulated(), "drain_seconds": 5, **values}
    )
    worker = Worker(settings, clock=clock or SystemClock(), seeds=SeedTree(1))
    try:
        await worker.start()
        yield worker
    finally:
        await worker.close()


class Gateway:
    """A gateway's end of one session."""

    def __init__(self, address: str) -> None:
        limits = [
            ("grpc.max_receive_message_length", 64 * MIB),
            ("grpc.max_send_message_length", 64 * MIB),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self.channel = grpc.aio.insecure_channel(address, limits)
        self.call = worker_pb2_grpc.WorkerServiceStub(self.channel).Session()

    async def greet(self, token: str = "") -> worker_pb2.WorkerGreeting:
        greeting = worker_pb2.GatewayGreeting(gateway_id="g1", fleet_token=token)
        await self.call.write(Request(greeting=greeting))
        return (await self.read()).greeting

    async def execute(
        self, batch_id: int, items: Sequence[worker_pb2.BatchItem], handle: int = 0
    ) -> None:
        message = worker_pb2.ExecuteBatch(batch_id=batch_id, model_handle=handle, items=items)
        await self.call.write(Request(execute=message))

    async def cancel(self, batch_id: int, *item_ids: int) -> None:
        message = worker_pb2.CancelItems(batch_id=batch_id, item_ids=item_ids)
        await self.call.write(Request(cancel=message))

    async def read(self) -> worker_pb2.SessionResponse:
        """The next message; AioRpcError if the session ended otherwise."""
        message = await self.call.read()
        assert message is not grpc.aio.EOF, await self.call.code()
        return message

    async def result(self) -> worker_pb2.BatchResult:
        message = await self.read()
        assert message.WhichOneof("message") == "result", message
        return message.result

    async def serving(self, service: str) -> bool:
        request = health_pb2.HealthCheckRequest(service=service)
        answer = await health_pb2_grpc.HealthStub(self.channel).Check(request)
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


@contextlib.asynccontextmanager
async def session(address: str, *, greet: bool = True) -> AsyncIterator[Gateway]:
    gateway = Gateway(address)
    try:
        if greet:
            await gateway.greet()
        yield gateway
    finally:
        gateway.call.cancel()
        await gateway.channel.close()


def text_item(item_id: int, text: str, remaining_ns: int = 60 * S) -> worker_pb2.BatchItem:
    return worker_pb2.BatchItem(
        item_id=item_id, remaining_ns=remaining_ns, input=types_pb2.Input(text=text)
    )


def texts_item(item_id: int, *texts: str) -> worker_pb2.BatchItem:
    value = types_pb2.Input(texts=types_pb2.TextList(values=texts))
    return worker_pb2.BatchItem(item_id=item_id, remaining_ns=60 * S, input=value)


class FleetDouble(fleet_pb2_grpc.FleetServiceServicer):
    """A gateway's list of workers, over real gRPC, that records and can be told to misbehave."""

    def __init__(
        self, *, port: int = 0, interval_ms: int = 20, silent: bool = False, forgetful: int = 0
    ) -> None:
        """`forgetful`: number of leases that it forgets at once; `silent`: answers no heartbeat."""
        self.registered: asyncio.Queue[fleet_pb2.RegisterRequest] = asyncio.Queue()
        self.heartbeats: asyncio.Queue[fleet_pb2.HeartbeatRequest] = asyncio.Queue()
        self.deregistered: asyncio.Queue[str] = asyncio.Queue()
        self.known: set[str] = set()
        self.drain = False
        self.silent = silent
        self._forgetful = forgetful
        self._interval = Duration(seconds=interval_ms // 1000, nanos=interval_ms % 1000 * 1_000_000)
        self._leases: Iterator[int] = iter(range(1, 1_000_000))
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        fleet_pb2_grpc.add_FleetServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)

    async def Register(
        self, request: fleet_pb2.RegisterRequest, context: Any
    ) -> fleet_pb2.RegisterResponse:
        self.registered.put_nowait(request)
        lease_id = f"lease-{next(self._leases)}"
        if self._forgetful:
            self._forgetful -= 1
        else:
            self.known.add(lease_id)
        return fleet_pb2.RegisterResponse(
            lease_id=lease_id,
            lease_duration=Duration(seconds=5),
            heartbeat_interval=self._interval,
            gateway_id="g1",
        )

    async def Heartbeat(
        self, requests: AsyncIterator[fleet_pb2.HeartbeatRequest], context: Any
    ) -> AsyncIterator[fleet_pb2.HeartbeatResponse]:
        async for request in requests:
            self.heartbeats.put_nowait(request)
            if self.silent:
                continue
            yield fleet_pb2.HeartbeatResponse(
                lease_known=request.lease_id in self.known, drain=self.drain
            )

    async def Deregister(
        self, request: fleet_pb2.DeregisterRequest, context: Any
    ) -> fleet_pb2.DeregisterResponse:
        self.deregistered.put_nowait(request.lease_id)
        return fleet_pb2.DeregisterResponse()

    async def heartbeat_such_that(
        self, holds: Callable[[fleet_pb2.HeartbeatRequest], bool]
    ) -> fleet_pb2.HeartbeatRequest:
        while not holds(heartbeat := await self.heartbeats.get()):
            pass
        return heartbeat


@contextlib.asynccontextmanager
async def running_fleet(**options: Any) -> AsyncIterator[FleetDouble]:
    fleet = FleetDouble(**options)
    await fleet.start()
    try:
        yield fleet
    finally:
        await fleet.stop()
