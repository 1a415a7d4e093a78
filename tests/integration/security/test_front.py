"""The native transport's port by itself, under methods that take and give bytes."""

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator
from typing import Any

import grpc
import h2.settings
import pytest
from tests.support.http2 import http2, message

from headway.limits import ConnectionLimits
from headway.rpc.native import NativeServer
from headway.rpc.peers import peer_of
from headway.rpc.server import server_options

MIB = 1 << 20
SERVICE = "test.Bytes"
ECHO, SLOW, PEER = f"/{SERVICE}/Echo", f"/{SERVICE}/Slow", f"/{SERVICE}/Peer"


async def echo(request: bytes, context: Any) -> bytes:
    """The request, with its metadata beginning with x- in the trailers."""
    found = [pair for pair in context.invocation_metadata() if pair[0].startswith("x-")]
    context.set_trailing_metadata(tuple(map(tuple, found)))
    return request


async def slow(request: bytes, context: Any) -> AsyncIterator[bytes]:
    """Its request once, then nothing."""
    yield request
    await asyncio.Event().wait()


async def peer(requests: AsyncIterator[bytes], context: Any) -> bytes:
    """Who calls, from the server behind."""
    async for _ in requests:
        pass
    return peer_of(context).encode()


@contextlib.asynccontextmanager
async def listening(**limits: Any) -> AsyncIterator[str]:
    """The address of a port that takes messages of a MiB."""
    bounds = ConnectionLimits(**limits)
    options = server_options(MIB, bounds)
    server = NativeServer(options=options, max_message_bytes=MIB, limits=bounds)
    handlers = {
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
        "Slow": grpc.unary_stream_rpc_method_handler(slow),
        "Peer": grpc.stream_unary_rpc_method_handler(peer),
    }
    server.add_registered_method_handlers(SERVICE, handlers)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(1)


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_packed_requests_are_read(compression: grpc.Compression) -> None:
    async with listening() as address, grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_unary(ECHO)(bytes(100_000), compression=compression, timeout=10)
        assert await call == bytes(100_000)


async def test_an_unknown_packing_is_told() -> None:
    async with listening() as address, http2(address) as client:
        told = await client.call(ECHO, message(b"abc"), ("grpc-encoding", "zstd"))
    assert told["grpc-status"] == "12"
    assert "identity, deflate, gzip" in told["grpc-message"]


async def test_a_size_beyond_the_bound_is_refused_before_it_has_come() -> None:
    async with listening() as address, http2(address) as client:
        stream = client.begin(ECHO)
        client.h2.send_data(stream, message(b"abc", length=MIB + 1))
        await client.flush()
        async with asyncio.timeout(10):
            told = await client.end_of(stream)
    assert told["grpc-status"] == "8"
    assert told["grpc-message"] == "SERVER: Received message larger than max (1048577 vs. 1048576)"


async def test_what_unpacks_beyond_the_bound_is_refused() -> None:
    packed = gzip.compress(bytes(64 * MIB))
    async with listening() as address, http2(address) as client:
        body = message(packed[:16_000], compressed=1, length=len(packed))
        stream = client.begin(ECHO, ("grpc-encoding", "gzip"))
        client.h2.send_data(stream, body)
        for at in range(16_000, len(packed), 16_000):
            await client.flush()
            client.h2.send_data(stream, packed[at : at + 16_000])
        client.h2.end_stream(stream)
        await client.flush()
        assert (await client.end_of(stream))["grpc-status"] == "8"


async def test_a_deadline_in_the_middle_of_a_stream_is_told() -> None:
    async with listening() as address, http2(address) as client:
        told = await client.call(SLOW, message(b"abc"), ("grpc-timeout", "200m"))
    assert told["grpc-status"] == "4"
    assert "reset" not in told


async def test_a_deadline_behind_a_reader_that_stands_still_ends_the_call() -> None:
    window = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0}
    async with listening() as address, http2(address, window) as client:
        async with asyncio.timeout(10):
            told = await client.call(SLOW, message(b"abc"), ("grpc-timeout", "200m"))
    assert told["reset"] == "8"


async def test_metadata_goes_both_ways_as_bytes_and_as_text() -> None:
    sent = (("x-text", "a b"), ("x-raw-bin", b"\x00\xff"))
    async with listening() as address, grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_unary(ECHO)(b"", metadata=sent, timeout=10)
        await call
        assert set(map(tuple, await call.trailing_metadata())) >= set(sent)


async def test_nobody_can_pretend_to_be_another_peer() -> None:
    claimed = (("headway-peer", "ipv4:10.9.8.7:1"),)
    async with listening() as address, grpc.aio.insecure_channel(address) as channel:
        call = channel.stream_unary(PEER)(iter([b"a"]), metadata=claimed, timeout=10)
        assert (await call).decode().startswith("ipv4:127.0.0.1:")


async def test_a_port_that_is_taken_is_told() -> None:
    async with listening() as address:
        bounds = ConnectionLimits()
        other = NativeServer(
            options=server_options(MIB, bounds), max_message_bytes=MIB, limits=bounds
        )
        with pytest.raises(RuntimeError, match="cannot bind"):
            other.add_insecure_port(address)
