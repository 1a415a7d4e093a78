"""What does each part of a call's way through the port cost?

Question:  CPU that the gateway's port adds to a call, beside a bare server of the same transport.
Workload:  servers of several kinds in one process, whose handler answers at once, and one client;
           16 calls at a time to each server in turn, so that a change of the machine's state meets
           all alike. CPU of the whole process a call, client included: only differences tell.
           `registered`: as the port was before ADR 85, with methods registered with grpc's core
           and metadata bounded by an interceptor.
Machine:   any; the lower quartile stays put on a busy one.
Command:   python -m bench.load.calls [--rounds 200]
"""

import argparse
import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc
import uvloop
from grpc import aio

from headway.gateway.authentication import OpenAuthenticator
from headway.limits import ConnectionLimits
from headway.rpc.decoding import Lenient
from headway.rpc.interceptors import Caller, guard
from headway.rpc.metadata import BoundedMetadata
from headway.rpc.peers import PeerStreams
from headway.rpc.server import (
    Health,
    add_standard_services,
    bind,
    faces,
    grpcio_options,
    make_server,
    server_options,
)
from headway.v1 import inference_pb2, inference_pb2_grpc

SERVICE = "headway.v1.InferenceService"
AT_A_TIME = 16
WARM_UP = 10
MAX_MESSAGE_BYTES = 1 << 22
LIMITS = ConnectionLimits()


class Echo(inference_pb2_grpc.InferenceServiceServicer):
    """Answers with the request's name, with and without a coroutine."""

    async def Infer(self, request: inference_pb2.InferRequest, context: Any) -> Any:
        return inference_pb2.InferResponse(request_id=request.request_id)

    @staticmethod
    def begin(request: inference_pb2.InferRequest, caller: Caller, remaining_s: Any) -> Any:
        answer = asyncio.get_running_loop().create_future()
        answer.set_result(inference_pb2.InferResponse(request_id=request.request_id))
        return answer, lambda: None


class Interceptor(aio.ServerInterceptor):  # type: ignore[misc]  # grpcio has no types
    """Sees each call's metadata, and lets it pass."""

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: Any
    ) -> Any:
        BoundedMetadata(LIMITS.max_metadata_bytes).service(details)
        return await continuation(details)


def server(transport: str, kind: str) -> Any:
    made: Any
    if kind == "registered":
        options = server_options(MAX_MESSAGE_BYTES, LIMITS) + grpcio_options(LIMITS)
        made = aio.server(interceptors=(Interceptor(),), options=options)
    else:
        made = make_server(transport, max_message_bytes=MAX_MESSAGE_BYTES, limits=LIMITS)  # type: ignore[arg-type]
    echo = Echo()
    if kind == "bare":
        inference_pb2_grpc.add_InferenceServiceServicer_to_server(echo, made)
        return made
    direct = {"Infer": echo.begin} if kind == "direct" else None
    open_to_all = OpenAuthenticator(Caller("anyone", 0))
    guard(echo, SERVICE, ("Infer",), open_to_all, pushback=False, direct=direct)
    port = faces(made, transport, LIMITS, PeerStreams(None))  # type: ignore[arg-type]
    inference_pb2_grpc.add_InferenceServiceServicer_to_server(echo, Lenient(port.guarded))
    Health().add_to(port.standing)
    add_standard_services(port.standing, (SERVICE,))
    return made


KINDS = {"grpcio": ("bare", "registered", "port"), "native": ("bare", "port", "direct")}


async def measure(rounds: int) -> dict[tuple[str, str], list[float]]:
    """Microseconds a call, by transport and kind, sorted."""
    request = inference_pb2.InferRequest(request_id="x")
    request.input.text = "a" * 64
    stubs: dict[tuple[str, str], Any] = {}
    async with AsyncExitStack() as stack:
        for transport, kinds in KINDS.items():
            for kind in kinds:
                made = server(transport, kind)
                address = bind(made, "127.0.0.1", 0, f"{transport} {kind}")
                await made.start()
                stack.push_async_callback(made.stop, 0)
                channel = await stack.enter_async_context(grpc.aio.insecure_channel(address))
                stubs[transport, kind] = inference_pb2_grpc.InferenceServiceStub(channel)
        times: dict[tuple[str, str], list[float]] = {name: [] for name in stubs}
        order = list(stubs.items())
        for number in range(WARM_UP + rounds):
            # What ran just before leaves its caches; so each has each before it in turn.
            random.shuffle(order)
            for name, stub in order:
                begun_at = time.process_time()
                await asyncio.gather(*(stub.Infer(request, timeout=9) for _ in range(AT_A_TIME)))
                if number >= WARM_UP:
                    times[name].append((time.process_time() - begun_at) / AT_A_TIME * 1e6)
    return {name: sorted(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    times = uvloop.run(measure(options.rounds))
    print(f"{'transport':<10}{'server':<12}{'quartile us':>12}{'median us':>11}{'beyond bare':>13}")
    for (transport, kind), values in times.items():
        quartile, median = values[len(values) // 4], values[len(values) // 2]
        bare = times[transport, "bare"]
        beyond = quartile - bare[len(bare) // 4]
        print(f"{transport:<10}{kind:<12}{quartile:>12.1f}{median:>11.1f}{beyond:>13.1f}")


if __name__ == "__main__":
    main()
