"""Headers beyond the bound, however they are written: refused, and nobody else is harmed."""

import asyncio
import re

import grpc
import pytest
from tests.support.fleet import running_gateway, running_worker, text_request
from tests.support.headers import END_HEADERS, HEADERS, KINDS, SETTINGS, flood, request_head
from tests.support.http2 import PREFACE, frame, raw

from headway.v1 import inference_pb2

MIB = 1 << 20
# HTTP/2's ENHANCE_YOUR_CALM and COMPRESSION_ERROR.
CALM, COMPRESSION = 11, 9


@pytest.mark.parametrize("acknowledge", [True, False], ids=["acknowledged", "never acknowledged"])
@pytest.mark.parametrize("transport", ["grpcio", "native"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_flood_of_headers_is_refused(kind: str, transport: str, acknowledge: bool) -> None:
    """grpcio let 16 MiB pass from a client that had not acknowledged its settings."""
    # Floods are written in this process too: its pauses shall not count as the worker's death.
    gateway = running_gateway(transport=transport, lease_seconds=60)
    async with gateway as running, running_worker(running):
        address = running.addresses["data"]
        flooding = asyncio.gather(
            *(flood(address, KINDS[kind](MIB), acknowledge=acknowledge) for _ in range(3))
        )
        neighbours = [await running.inference.Infer(text_request(), timeout=20) for _ in range(5)]
        told = await flooding
        assert [each.refused for each in told] == [True] * 3, told
        assert {answer.replica for answer in neighbours} == {"w1"}


@pytest.mark.parametrize("port", ["data", "control", "worker"])
async def test_every_port_of_grpcio_names_the_bound(port: str) -> None:
    async with running_gateway() as running, running_worker(running) as worker:
        address = {**running.addresses, "worker": worker.addresses["worker"]}[port]
        for acknowledge in (True, False):
            told = await flood(address, KINDS["duplicates"](100_000), acknowledge=acknowledge)
            assert told.status == "8", told
            # Before the settings are acknowledged grpc's core may be first, by its soft limit.
            assert re.match(r"received metadata size exceeds (hard|soft) limit", told.message), told


@pytest.mark.parametrize("transport", ["grpcio", "native"])
async def test_what_fits_is_served_from_the_first_call_on(transport: str) -> None:
    async with running_gateway(transport=transport) as running:
        told = await flood(running.addresses["data"], KINDS["small"](4_000), acknowledge=False)
        assert told.status == "0", told


async def test_the_bound_counts_names_values_and_32_bytes_each() -> None:
    """As HTTP/2 counts; 200 headers of 8 + 22 + 32 bytes are 12,400 of 16,384, 300 are 18,600."""
    async with running_gateway() as running:
        listed = inference_pb2.ListModelsRequest()
        fits = [(f"x-{number:06}", "v" * 22) for number in range(200)]
        await running.inference.ListModels(listed, metadata=fits, timeout=5)
        beyond = [(f"x-{number:06}", "v" * 22) for number in range(300)]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.inference.ListModels(listed, metadata=beyond, timeout=5)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_who_never_acknowledges_the_settings_is_closed() -> None:
    limits = {"keepalive_timeout_seconds": 0.3}
    async with running_gateway(limits=limits) as running:
        async with raw(running.addresses["data"]) as (reader, writer):
            writer.write(PREFACE + frame(SETTINGS, 0, 0, b""))
            writer.write(frame(HEADERS, END_HEADERS, 1, request_head()))
            await writer.drain()
            async with asyncio.timeout(20):
                while await reader.read(1 << 16):
                    pass
