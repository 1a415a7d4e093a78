"""Starts gateways and workers on 127.0.0.1:0 and waits for what they say, never for time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from headway.clock import Clock, SystemClock
from headway.gateway.main import GatewayProcess
from headway.gateway.reload import Load
from headway.gateway.services import Gateway
from headway.gateway.settings import GatewaySettings
from headway.gateway.wiring import wire
from headway.rng import SeedTree
from headway.v1 import control_pb2, control_pb2_grpc, inference_pb2, inference_pb2_grpc, types_pb2
from headway.worker.settings import WorkerSettings
from headway.worker.wiring import Worker

MODEL = "sim"


@dataclass
class RunningGateway:
    """A gateway with open ports, and a client of it."""

    gateway: Gateway
    process: GatewayProcess
    addresses: dict[str, str]
    channel: grpc.aio.Channel
    control_channel: grpc.aio.Channel

    @property
    def inference(self) -> Any:
        return inference_pb2_grpc.InferenceServiceStub(self.channel)

    @property
    def control(self) -> Any:
        return control_pb2_grpc.ControlServiceStub(self.control_channel)

    @property
    def health(self) -> Any:
        return health_pb2_grpc.HealthStub(self.channel)

    async def until_serving(self, service: str = MODEL, serving: bool = True) -> None:
        """Returns when the health service says so."""
        status = health_pb2.HealthCheckResponse
        wanted = status.SERVING if serving else status.NOT_SERVING
        call = self.health.Watch(health_pb2.HealthCheckRequest(service=service))
        async for response in call:
            if response.status == wanted:
                call.cancel()
                return


@contextlib.asynccontextmanager
async def running_gateway(
    load: Load | None = None,
    clock: Clock | None = None,
    credentials: grpc.ChannelCredentials | None = None,
    **changes: Any,
) -> AsyncIterator[RunningGateway]:
    """`credentials`: of the client, for a gateway with TLS."""
    settings = GatewaySettings(
        **{
            "port": 0,
            "control_port": 0,
            "http_port": 0,
            "insecure_no_auth": True,
            "store": {"url": "sqlite://"},
            "seed": 1,
            "drain_seconds": 5,
            **changes,
        }
    )
    loop = asyncio.get_running_loop()
    gateway = wire(settings, clock or SystemClock(), SeedTree(1), loop, load=load)
    process = GatewayProcess(gateway)
    addresses = await process.start()
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    try:
        async with (
            _channel(addresses["data"], credentials, options) as channel,
            _channel(addresses["control"], credentials) as control,
        ):
            running = RunningGateway(gateway, process, addresses, channel, control)
            try:
                yield running
            finally:
                await process.stop()
    finally:
        # Where the test, or the stop itself, was cut short; repeating it changes nothing.
        await process.stop()


def _channel(
    address: str, credentials: grpc.ChannelCredentials | None, options: Any = ()
) -> grpc.aio.Channel:
    if credentials is None:
        return grpc.aio.insecure_channel(address, options)
    return grpc.aio.secure_channel(address, credentials, options)


@contextlib.asynccontextmanager
async def running_worker(
    *gateways: RunningGateway,
    worker_id: str = "w1",
    version: str = "v1",
    model: str = MODEL,
    runtime: dict[str, Any] | None = None,
    speed: float = 1.0,
    wait: bool = True,
    **changes: Any,
) -> AsyncIterator[Worker]:
    """A worker that hosts one simulated model; instant unless `runtime` says otherwise."""
    device = {"kind": "simulated", "intercept_ms": 0, "slope_ms_per_unit": 0, **(runtime or {})}
    settings = WorkerSettings.model_validate(
        {
            "worker_id": worker_id,
            "gateways": [running.addresses["control"] for running in gateways],
            "models": [{"model": model, "version": version, "runtime": device, "speed": speed}],
            "seed": 1,
            "drain_seconds": 2,
            **changes,
        }
    )
    worker = Worker(settings, clock=SystemClock(), seeds=SeedTree(1))
    try:
        await worker.start()
        if wait:
            for running in gateways:
                await until_replica(running, f"{worker_id}/{model}/{version}")
        yield worker
    finally:
        await worker.close()


async def until_replica(running: RunningGateway, name: str) -> None:
    """Returns when a replica takes work."""
    request = control_pb2.WatchStateRequest()
    request.interval.FromMilliseconds(100)
    call = running.control.WatchState(request)
    async for change in call:
        for replica in change.state.replicas:
            if replica.replica == name and replica.condition == control_pb2.REPLICA_CONDITION_READY:
                call.cancel()
                return


async def until_live(running: RunningGateway, count: int) -> None:
    """Returns when so many requests are live, as the control port tells."""
    while True:
        state = await running.control.GetState(control_pb2.GetStateRequest(), timeout=5)
        if state.state.gateway.inflight_requests == count:
            return


async def until_executing(running: RunningGateway, count: int = 1) -> None:
    while True:
        state = await running.control.GetState(control_pb2.GetStateRequest(), timeout=5)
        if sum(pool.executing_batches for pool in state.state.pools) == count:
            return


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


def ms(milliseconds: int) -> Duration:
    duration = Duration()
    duration.FromMilliseconds(milliseconds)
    return duration


def text_request(text: str = "the tide turns", **fields: Any) -> inference_pb2.InferRequest:
    return inference_pb2.InferRequest(model=MODEL, input=types_pb2.Input(text=text), **fields)


@dataclass(frozen=True)
class Refusal:
    """What a failed call told its caller."""

    code: grpc.StatusCode
    reason: str
    message: str
    field: str
    metadata: dict[str, str]
    retry_ns: int | None
    pushback_ms: str | None


def refusal(error: grpc.aio.AioRpcError) -> Refusal:
    status = rpc_status.from_call(error)
    pushback = dict(error.trailing_metadata() or ()).get("grpc-retry-pushback-ms")
    return read_status(status, error.code(), pushback)


def read_status(
    status: status_pb2.Status | None,
    code: grpc.StatusCode,
    pushback: str | None = None,
) -> Refusal:
    info, bad, retry = (
        error_details_pb2.ErrorInfo(),
        error_details_pb2.BadRequest(),
        error_details_pb2.RetryInfo(),
    )
    retry_ns = None
    for detail in status.details if status is not None else ():
        detail.Unpack(info)
        detail.Unpack(bad)
        if detail.Unpack(retry):
            retry_ns = retry.retry_delay.seconds * 10**9 + retry.retry_delay.nanos
    fields = [violation.field for violation in bad.field_violations]
    message = status.message if status is not None else ""
    return Refusal(
        code, info.reason, message, fields[0] if fields else "", dict(info.metadata), retry_ns,
        pushback,
    )  # fmt: skip


async def refused(running: RunningGateway, request: Any, **options: Any) -> Any:
    """How a gateway refuses an Infer, as `refusal` reads it."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await running.inference.Infer(request, **{"timeout": 10, **options})
    return refusal(caught.value)
