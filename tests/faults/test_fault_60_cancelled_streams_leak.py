"""Fault 60: native memory that grows with each cancelled stream."""

import gc
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.support.fleet import running_gateway, running_worker, text_request, until_live

from headway.v1 import inference_pb2

MIB = 1 << 20
WARM_UP = 1_500
STREAMS = 3_000
# One page for each stream would be 12 MiB.
ALLOWED = 6 * MIB


@pytest.mark.parametrize("transport", ["grpcio", "native"])
async def test_fault_60_cancelled_streams_leak(transport: str) -> None:
    """Memory after 3,000 cancelled streams is as after a warm-up of 1,500."""
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, runtime={"intercept_ms": 1}),
    ):
        await _cancel(running, WARM_UP)
        before = _resident_bytes()
        await _cancel(running, STREAMS)
        grown = _resident_bytes() - before
    assert grown < ALLOWED, f"{grown / MIB:.1f} MiB for {STREAMS} streams"


async def _cancel(running: Any, count: int) -> None:
    """Opens and cancels streams, half of them with a request in flight."""
    for number in range(count):
        call = running.inference.InferMany()
        item = inference_pb2.InferManyRequest(id=1, request=text_request("x" * 2000))
        await call.write(item)
        if number % 2:
            with_answer = await call.read()
            assert with_answer is not grpc.aio.EOF
        call.cancel()
    await until_live(running, 0)


def _resident_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
