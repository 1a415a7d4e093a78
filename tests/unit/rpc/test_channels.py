"""What a channel does about a peer that is there no more."""

import asyncio

import grpc
import pytest
from tests.support.http2 import frame

from headway.rpc.channels import open_channel


async def test_a_server_that_went_silent_is_given_up_in_seconds() -> None:
    """Ten to the ping, five for its answer; grpc's core waited a minute for that."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame(4, 0, 0, b"") + frame(4, 1, 0, b""))
        while await reader.read(1 << 16):
            pass

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, open_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream("/x.X/Y")()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async with asyncio.timeout(45):
                await call.read()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
