"""Messages of the right shape with any contents: each call ends with a status that has a reason.

Hypothesis draws from the descriptors of every method of every service, NaN, infinities, extremes
and unknown enum values included.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz.messages import messages
from tests.fuzz.target import Target, target
from tests.support.fleet import refusal

from headway.v1 import control_pb2, fleet_pb2, inference_pb2, worker_pb2

# They stop the process's own parts, or last as long as the caller wants.
LEFT_OUT = {"SetLogLevel"}
SERVICES = {
    "data": inference_pb2.DESCRIPTOR.services_by_name["InferenceService"],
    "control": control_pb2.DESCRIPTOR.services_by_name["ControlService"],
    "fleet": fleet_pb2.DESCRIPTOR.services_by_name["FleetService"],
    "worker": worker_pb2.DESCRIPTOR.services_by_name["WorkerService"],
}
METHODS = [
    pytest.param(
        port, method, transport, id=f"{method.full_name.removeprefix('headway.v1.')}-{transport}"
    )
    for transport in ("grpcio", "native")
    for port, service in SERVICES.items()
    for method in service.methods
    # The other ports are grpcio's with either.
    if method.name not in LEFT_OUT and (transport == "grpcio" or port == "data")
]
CALL_S = 0.5
# grpc.aio's client, where the server had ended the stream before the next message was written.
WRITTEN_TOO_LATE = "Internal error from Core"


class Loop:
    """A fleet in a thread of its own, since hypothesis calls without an event loop."""

    def __init__(self, transport: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._fleet = target(transport)
        self.target: Target = self.run(self._fleet.__aenter__())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def close(self) -> None:
        try:
            self.run(self._fleet.__aexit__(None, None, None))
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


@pytest.fixture(scope="module")
def loops() -> Iterator[dict[str, Loop]]:
    made = {transport: Loop(transport) for transport in ("grpcio", "native")}
    yield made
    for each in made.values():
        each.close()


@pytest.mark.parametrize(("port", "method", "transport"), METHODS)
def test_every_call_ends_with_a_reason(
    port: str, method: MethodDescriptor, transport: str, loops: dict[str, Loop]
) -> None:
    loop = loops[transport]
    drawn = messages(method.input_type)
    many = st.lists(drawn, min_size=1, max_size=3 if method.client_streaming else 1)

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(many)
    def attack(requests: list[Message]) -> None:
        ended = loop.run(_call(loop.target, port, method, requests))
        if isinstance(ended, grpc.aio.AioRpcError) and ended.details() != WRITTEN_TOO_LATE:
            told = refusal(ended)
            allowed = {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}
            assert told.reason or told.code in allowed, f"{told.code} {ended.details()}"
            assert told.code is not grpc.StatusCode.INTERNAL, ended.details()

    attack()


@pytest.mark.parametrize("transport", ["grpcio", "native"])
def test_afterwards_the_fleet_serves_as_before(transport: str, loops: dict[str, Loop]) -> None:
    loop = loops[transport]
    assert loop.target.worker.addresses["worker"]
    loop.run(_served(loop.target))


# For a longer run: HEADWAY_FUZZ_EXAMPLES=2000 pytest tests/fuzz/test_messages.py
EXAMPLES = int(os.environ.get("HEADWAY_FUZZ_EXAMPLES", "40"))


async def _served(fleet: Target) -> None:
    from tests.support.fleet import text_request

    request = text_request()
    request.version = "v1"
    await fleet.running.inference.Infer(request, timeout=20)


async def _call(
    fleet: Target, port: str, method: MethodDescriptor, requests: list[Message]
) -> grpc.aio.AioRpcError | None:
    service = method.containing_service.full_name
    address = fleet.ports["control" if port == "fleet" else port]
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.stream_stream(f"/{service}/{method.name}")(
            iter([request.SerializeToString() for request in requests]), timeout=CALL_S
        )
        try:
            async for _ in call:
                if not method.client_streaming:
                    break
        except grpc.aio.AioRpcError as error:
            return error
        finally:
            call.cancel()
    return None
