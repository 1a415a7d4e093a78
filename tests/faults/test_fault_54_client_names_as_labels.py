"""Fault 54: names that clients choose become metric labels, without end."""

import asyncio
import contextlib
import urllib.request

import grpc
from tests.support.fleet import running_gateway, running_worker, text_request

from headway.v1 import inference_pb2, types_pb2


async def test_fault_54_client_names_as_labels() -> None:
    """A thousand invented models, versions and sessions leave the series as they were."""
    async with running_gateway() as running, running_worker(running):
        await running.inference.Infer(text_request(), timeout=5)
        await _invent(running.inference, 0)
        before = await asyncio.to_thread(_series, running.addresses["http"])
        for number in range(1000):
            await _invent(running.inference, number)
        after = await asyncio.to_thread(_series, running.addresses["http"])
    assert after == before
    assert not any("invented" in series for series in after)


async def _invent(inference: object, number: int) -> None:
    text = types_pb2.Input(text="t")
    for request in (
        inference_pb2.InferRequest(model=f"invented-{number}", input=text),
        inference_pb2.InferRequest(model="sim", version=f"invented-{number}", input=text),
        inference_pb2.InferRequest(model="sim", session_key=f"invented-{number}", input=text),
    ):
        with contextlib.suppress(grpc.aio.AioRpcError):
            await inference.Infer(request, timeout=5)  # type: ignore[attr-defined]


def _series(address: str) -> set[str]:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as response:
        lines = response.read().decode().splitlines()
    return {line.rpartition(" ")[0] for line in lines if not line.startswith(("#", "python_gc"))}
