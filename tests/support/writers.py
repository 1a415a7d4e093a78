"""A gateway with workers that write."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
from tests.support.fleet import RunningGateway, running_worker

from headway.v1 import inference_pb2, types_pb2

MODEL = "writer"


@contextlib.asynccontextmanager
async def running_writer(gateway: RunningGateway, **changes: Any) -> AsyncIterator[Any]:
    """A worker with the simulated decoder; its steps take a few milliseconds."""
    runtime = {
        "kind": "simulated-decoder",
        "noise": 0,
        "mean_output_tokens": 1000,
        **changes.pop("runtime", {}),
    }
    settings = {
        "worker_id": "w1",
        "models": [{"model": MODEL, "runtime": runtime}],
        "model": MODEL,
        **changes,
    }
    async with running_worker(gateway, **settings) as worker:
        yield worker


def request(text: str = "the tide turns", tokens: int = 8, **fields: Any) -> Any:
    return inference_pb2.InferRequest(
        model=MODEL, input=types_pb2.Input(text=text), max_output_units=tokens, **fields
    )


async def read_all(call: Any) -> tuple[list[Any], Any]:
    """(deltas, final) of an InferStream call."""
    deltas, final = [], None
    while (event := await call.read()) is not grpc.aio.EOF:
        if event.WhichOneof("event") == "delta":
            deltas.append(event.delta)
        else:
            final = event.final
    return deltas, final


async def until(condition: Any) -> None:
    """Returns once `condition()` holds; the test's own timeout ends it otherwise."""
    loop = asyncio.get_running_loop()
    while not condition():
        waiter = loop.create_future()
        loop.call_later(0.005, waiter.set_result, None)
        await waiter
