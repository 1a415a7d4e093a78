"""What a connection to an HTTP port may cost, over real sockets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry, Gauge
from tests.support.http2 import raw

from headway.clock import SystemClock
from headway.telemetry.http import HttpServer

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
MS = 1_000_000


@contextlib.asynccontextmanager
async def serving(**bounds: float) -> AsyncIterator[str]:
    registry = CollectorRegistry()
    for number in range(2_000):
        Gauge(f"large_{number}", "x" * 2_000, registry=registry)
    server = HttpServer(
        registry=registry,
        readiness=lambda: (True, {}),
        **bounds,  # type: ignore[arg-type]
    )
    address = await server.start("127.0.0.1", 0)
    try:
        yield address
    finally:
        await server.stop()


async def answer(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(20):
        head = await reader.readuntil(b"\r\n\r\n")
        return head + await reader.readexactly(3)


async def until_closed(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(20):
        with contextlib.suppress(ConnectionError):
            while await reader.read(1 << 16):
                pass


async def test_one_too_many_is_closed_and_the_others_go_on() -> None:
    async with serving(max_connections=2) as address, raw(address) as first:
        async with raw(address) as second:
            for reader, writer in (first, second):
                writer.write(GET)
                assert (await answer(reader)).endswith(b"ok\n")
            async with raw(address) as (reader, _):
                await until_closed(reader)
            first[1].write(GET)
            assert (await answer(first[0])).endswith(b"ok\n")
        # The second has left: there is room for another.
        while True:
            async with raw(address) as (reader, writer):
                writer.write(GET)
                with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                    assert (await answer(reader)).endswith(b"ok\n")
                    break


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTT", GET], ids=["nothing", "half", "idle"])
async def test_a_connection_that_asks_for_nothing_more_is_closed(sent: bytes) -> None:
    async with serving(request_seconds=0.2) as address, raw(address) as (reader, writer):
        writer.write(sent)
        await until_closed(reader)


async def test_a_byte_now_and_then_does_not_hold_it_open() -> None:
    async with serving(request_seconds=0.3) as address, raw(address) as (reader, writer):
        closed = asyncio.ensure_future(until_closed(reader))
        while not closed.done():
            writer.write(b"G")
            await SystemClock().sleep(50 * MS)
        await closed


async def test_requests_in_time_keep_it_open() -> None:
    async with serving(request_seconds=0.5) as address, raw(address) as (reader, writer):
        for _ in range(10):
            for piece in (GET[:10], GET[10:]):
                writer.write(piece)
                await writer.drain()
            assert (await answer(reader)).endswith(b"ok\n")
            await SystemClock().sleep(100 * MS)


async def test_who_does_not_read_an_answer_of_megabytes_is_closed() -> None:
    async with serving(request_seconds=0.3) as address, raw(address) as (reader, writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 8)
        await writer.drain()
        async with raw(address) as (other, asking):
            asking.write(GET)
            assert (await answer(other)).endswith(b"ok\n")
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        await until_closed(reader)
