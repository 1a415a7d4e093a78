"""What a broken or hostile client sends. Each attack is a coroutine over one address."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

import h2.exceptions
import h2.settings
from tests.support.http2 import (
    GET_STATE,
    HEALTH,
    INFER,
    INFER_MANY,
    PREFACE,
    Http2,
    frame,
    frames,
    http2,
    message,
    raw,
)

from headway._core import Rng
from headway.v1 import inference_pb2, types_pb2

REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
SESSION = "/headway.v1.WorkerService/Session"
REGISTER = "/headway.v1.FleetService/Register"
HEARTBEAT = "/headway.v1.FleetService/Heartbeat"
WATCH_STATE = "/headway.v1.ControlService/WatchState"
PATHS: Final = (INFER, INFER_MANY, HEALTH, REFLECTION, SESSION, REGISTER, HEARTBEAT, GET_STATE,
                WATCH_STATE, "/", "/x", "/headway.v1.InferenceService/Nothing")  # fmt: skip
MIB = 1 << 20
PATIENCE_S: Final = 10
# grpc.aio leaves a call that ends before its message open: until its deadline, or its connection's
# end where it has none.
SHORT: Final = ("grpc-timeout", "200m")

Attack = Callable[[str, Rng], Awaitable[None]]


def request_bytes(text: str = "the tide turns") -> bytes:
    """A good request, framed."""
    made = inference_pb2.InferRequest(model="sim", input=types_pb2.Input(text=text))
    return message(made.SerializeToString())


def pick(rng: Rng, *values: object) -> object:
    """One of some values."""
    return values[rng.below(len(values))]


def noise(rng: Rng, length: int) -> bytes:
    """Random bytes."""
    return bytes(rng.below(256) for _ in range(length))


async def _ends(client: Http2, stream: int) -> None:
    """The call ends somehow, in time."""
    async with asyncio.timeout(PATIENCE_S):
        await client.end_of(stream)


async def malformed_protobuf(address: str, rng: Rng) -> None:
    """Bytes that are no message, for every method."""
    async with http2(address) as client:
        for path in PATHS:
            stream = client.begin(path, SHORT)
            client.h2.send_data(stream, message(noise(rng, 1 + rng.below(60))), end_stream=True)
            await client.flush()
            await _ends(client, stream)


async def lying_lengths(address: str, rng: Rng) -> None:
    """Frames that say another length, a huge one, or are compressed by nobody."""
    async with http2(address) as client:
        for length in (0, 3, 1 << 20, 0xFFFFFFFF):
            stream = client.begin(str(pick(rng, *PATHS)), SHORT)
            body = message(b"abcdef", length=length, compressed=rng.below(3))
            client.h2.send_data(stream, body, end_stream=True)
            await client.flush()
            await _ends(client, stream)


async def wrong_content_type(address: str, rng: Rng) -> None:
    """What is no gRPC by its own words."""
    for kind in ("text/html", "application/json", "", "application/grpc+json", "x" * 200):
        async with http2(address) as client:
            stream = client.begin(INFER, content_type=kind)
            client.h2.send_data(stream, request_bytes(), end_stream=True)
            await client.flush()
            await _ends(client, stream)


async def wrong_methods(address: str, rng: Rng) -> None:
    """GET, CONNECT, odd paths and schemes."""
    odd = {":method": str(pick(rng, "GET", "PUT", "CONNECT", "\t")), ":path": "no slash"}
    async with http2(address) as client:
        stream = client.begin(**odd) if rng.below(2) else client.begin("/%00/\x7f")
        client.h2.end_stream(stream)
        await client.flush()
        await _ends(client, stream)


async def odd_deadlines(address: str, rng: Rng) -> None:
    """Zero, negative, years, and no number at all."""
    async with http2(address) as client:
        for value in ("0n", "0S", "-1S", "99999999H", "999999999999H", "1", "S", "1.5S", "nanS"):
            stream = client.begin(INFER, ("grpc-timeout", value))
            client.h2.send_data(stream, request_bytes(), end_stream=True)
            await client.flush()
            await _ends(client, stream)


async def invalid_text(address: str, rng: Rng) -> None:
    """A text field with bytes that are no UTF-8."""
    bad = bytes([0xFF, 0xC0, 0x80, 0xED, 0xA0, 0x80])
    model = b"\x0a" + bytes([len(bad)]) + bad
    async with http2(address) as client:
        for path in PATHS:
            stream = client.begin(path, SHORT)
            client.h2.send_data(stream, message(model), end_stream=True)
            await client.flush()
            await _ends(client, stream)


async def header_flood(address: str, rng: Rng) -> None:
    """Headers without end, in continuation frames."""
    async with raw(address) as (reader, writer):
        writer.write(PREFACE + frame(4, 0, 0, b""))
        block = b"\x40\x0a" + b"x" * 10 + b"\x7f\x81\x07" + b"v" * 256
        with contextlib.suppress(ConnectionError):
            writer.write(frame(1, 0, 1, block * 40))
            for _ in range(200):
                writer.write(frame(9, 0, 1, block * 40))
                await writer.drain()
        await _drained(reader, writer)


async def rapid_resets(address: str, rng: Rng) -> None:
    """Calls that are reset as soon as they are made (CVE-2023-44487)."""
    async with http2(address) as client:
        for number in range(400):
            try:
                stream = client.begin(INFER)
                client.h2.send_data(stream, request_bytes(), end_stream=True)
                client.h2.reset_stream(stream, 8)
            except h2.exceptions.ProtocolError:
                break
            if number % 20 == 0:
                await client.flush()
        await client.flush()


async def settings_and_ping_flood(address: str, rng: Rng) -> None:
    """Control frames that ask for answers nobody reads."""
    async with raw(address) as (reader, writer):
        writer.write(PREFACE + frame(4, 0, 0, b""))
        with contextlib.suppress(ConnectionError):
            for _ in range(300):
                writer.write(frame(4, 0, 0, b"") * 10 + frame(6, 0, 0, noise(rng, 8)) * 10)
                await writer.drain()
        await _drained(reader, writer)


async def random_frames(address: str, rng: Rng) -> None:
    """Frames of any kind, flag, stream and length, after a good beginning."""
    async with raw(address) as (reader, writer):
        parts = (
            (rng.below(12), rng.below(256), rng.below(8), noise(rng, rng.below(40)))
            for _ in range(60)
        )
        with contextlib.suppress(ConnectionError):
            writer.write(PREFACE + frame(4, 0, 0, b"") + frames(parts))
            await writer.drain()
        await _drained(reader, writer)


async def no_http2(address: str, rng: Rng) -> None:
    """Other protocols, and noise."""
    for hello in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", noise(rng, 200), b"\0"):
        async with raw(address) as (reader, writer):
            with contextlib.suppress(ConnectionError):
                writer.write(hello)
                await writer.drain()
            await _drained(reader, writer)


async def half_open(address: str, rng: Rng) -> None:
    """Connections that stop in the middle of something."""
    good = PREFACE + frame(4, 0, 0, b"")
    for cut in (1, 12, len(good) - 2, len(good)):
        async with raw(address) as (_, writer):
            writer.write(good[:cut])
            await writer.drain()
    async with http2(address) as client:
        stream = client.begin(INFER)
        client.h2.send_data(stream, request_bytes()[:7])
        await client.flush()
    async with http2(address) as client:
        client.begin(INFER_MANY)
        await client.flush()
        client.writer.transport.abort()  # a reset, not an end


async def slow_writer(address: str, rng: Rng) -> None:
    """A request in pieces of a byte."""
    async with http2(address) as client:
        stream = client.begin(INFER)
        body = request_bytes()
        for at in range(len(body)):
            client.h2.send_data(stream, body[at : at + 1], end_stream=at == len(body) - 1)
            await client.flush()
        await _ends(client, stream)


async def slow_reader(address: str, rng: Rng) -> None:
    """Many requests, and a window in which no answer fits."""
    async with http2(address, {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0}) as client:
        with contextlib.suppress(h2.exceptions.ProtocolError):
            for _ in range(100):
                stream = client.begin(INFER)
                client.h2.send_data(stream, request_bytes(), end_stream=True)
        await client.flush()


async def stream_flood(address: str, rng: Rng) -> None:
    """More open calls than are allowed on a connection, none of them finished."""
    async with raw(address) as (reader, writer):
        writer.write(PREFACE + frame(4, 0, 0, b""))
        # :method POST, :scheme http, :path /, te and content-type left out.
        head = b"\x83\x86\x84"
        with contextlib.suppress(ConnectionError):
            for number in range(2_000):
                writer.write(frame(1, 4, 2 * number + 1, head))
                if number % 100 == 0:
                    await writer.drain()
        await _drained(reader, writer)


async def large_and_empty(address: str, rng: Rng) -> None:
    """No body, no message, an empty message, and one of megabytes."""
    async with http2(address) as client:
        for path in (INFER, INFER_MANY, SESSION, REGISTER):
            for body in (b"", message(b"")):
                stream = client.begin(path, SHORT)
                client.h2.send_data(stream, body, end_stream=True)
                await client.flush()
                await _ends(client, stream)
    async with raw(address) as (reader, writer):
        writer.write(PREFACE + frame(4, 0, 0, b"") + frame(1, 4, 1, b"\x83\x86\x84"))
        with contextlib.suppress(ConnectionError):
            for _ in range(64):
                writer.write(frame(0, 0, 1, bytes(16_384)))
                await writer.drain()
        await _drained(reader, writer)


async def _drained(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says that no more comes, and reads for a moment what the server still has to say."""
    with contextlib.suppress(ConnectionError, OSError):
        writer.write_eof()
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(0.2):
            while await reader.read(1 << 16):
                pass


ATTACKS: Final[dict[str, Attack]] = {
    attack.__name__: attack
    for attack in (
        malformed_protobuf, lying_lengths, wrong_content_type, wrong_methods, odd_deadlines,
        invalid_text, header_flood, rapid_resets, settings_and_ping_flood, random_frames,
        no_http2, half_open, slow_writer, slow_reader, stream_flood, large_and_empty,
    )
}  # fmt: skip
