"""What a broken or hostile client sends. Each attack is a coroutine over one address."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

import h2.exceptions
import h2.settings
from grpc_channelz.v1 import channelz_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from tests.support.headers import KINDS, flood
from tests.support.http2 import (
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
from headway.v1 import control_pb2, fleet_pb2, inference_pb2, types_pb2, worker_pb2

SESSION = "/headway.v1.WorkerService/Session"
REGISTER = "/headway.v1.FleetService/Register"
SERVICES: Final = (
    *inference_pb2.DESCRIPTOR.services_by_name.values(),
    *control_pb2.DESCRIPTOR.services_by_name.values(),
    *fleet_pb2.DESCRIPTOR.services_by_name.values(),
    *worker_pb2.DESCRIPTOR.services_by_name.values(),
    *health_pb2.DESCRIPTOR.services_by_name.values(),
    *reflection_pb2.DESCRIPTOR.services_by_name.values(),
    *channelz_pb2.DESCRIPTOR.services_by_name.values(),
)
METHODS: Final = tuple(
    f"/{service.full_name}/{method.name}" for service in SERVICES for method in service.methods
)
# These last as long as the caller wants.
STANDING: Final = ("/headway.v1.ControlService/WatchState", "/grpc.health.v1.Health/Watch")
# Every method of every service, asked for on every port: where it is not, it is not implemented.
PATHS: Final = (*METHODS, "/", "/x", "/headway.v1.InferenceService/Nothing")
DEADLINES: Final = (
    "0n", "0S", "-1S", "-99999999H", "99999999H", "999999999999H", "1", "S", "1.5S", "nanS", "",
)  # fmt: skip
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


def pick(rng: Rng, *values: Any) -> Any:
    """One of some values."""
    return values[rng.below(len(values))]


def call_of(rng: Rng) -> tuple[str, bytes]:
    """A path and a body that may suit it: mostly Infer, else any method with an empty message."""
    path = pick(rng, INFER, *METHODS)
    return path, request_bytes() if path == INFER else message(b"")


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
        path, body = call_of(rng)
        async with http2(address) as client:
            stream = client.begin(path, SHORT, content_type=kind)
            client.h2.send_data(stream, body, end_stream=True)
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
        for value in DEADLINES:
            path, body = call_of(rng)
            stream = client.begin(path, ("grpc-timeout", value))
            client.h2.send_data(stream, body, end_stream=True)
            await client.flush()
            if path in STANDING:
                client.h2.reset_stream(stream, 8)
                await client.flush()
            else:
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
    """Headers beyond the bound: small, huge, repeated, with and without an end."""
    kind, size = pick(rng, *KINDS.values()), pick(rng, 20_000, 200_000, MIB)
    acknowledge, ends = rng.below(2) == 0, rng.below(3) > 0
    patience_s = PATIENCE_S if ends else 0.2
    told = await flood(
        address, kind(size), acknowledge=acknowledge, ends=ends, patience_s=patience_s
    )
    assert told.refused or not ends, f"{kind.__name__} of {size}: {told}"


async def endless_headers(address: str, rng: Rng) -> None:
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
        path, body = call_of(rng)
        for number in range(400):
            try:
                stream = client.begin(path)
                client.h2.send_data(stream, body, end_stream=True)
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


async def http_nonsense(address: str, rng: Rng) -> None:
    """What no scraper sends to an HTTP/1 port."""
    get = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"
    nonsense = (
        get + b"x: y\r\n" * 20_000,
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
        get + b"x: " + b"v" * 200_000 + b"\r\n\r\n",
        get + b"x: \xff\xfe\xc0\x80\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\nabc",
        b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        get + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\nabc",
        get + b"Accept: " + b"text/plain;q=nan," * 300 + b"\r\n\r\n",
        (get + b"\r\n") * 200,
        noise(rng, 500),
    )
    for each in nonsense:
        async with raw(address) as (reader, writer):
            with contextlib.suppress(ConnectionError):
                writer.write(each)
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
        stream = client.begin(pick(rng, INFER, *METHODS))
        client.h2.send_data(stream, request_bytes()[:7])
        await client.flush()
    async with http2(address) as client:
        client.begin(pick(rng, INFER_MANY, *METHODS))
        await client.flush()
        client.writer.transport.abort()  # a reset, not an end


async def slow_writer(address: str, rng: Rng) -> None:
    """A request in pieces of a byte."""
    async with http2(address) as client:
        path, body = call_of(rng)
        stream = client.begin(path, ("grpc-timeout", "2S"))
        for at in range(len(body)):
            client.h2.send_data(stream, body[at : at + 1], end_stream=at == len(body) - 1)
            await client.flush()
        await _ends(client, stream)


async def slow_reader(address: str, rng: Rng) -> None:
    """Many requests, and a window in which no answer fits."""
    path, body = call_of(rng)
    async with http2(address, {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0}) as client:
        with contextlib.suppress(h2.exceptions.ProtocolError):
            for _ in range(100):
                stream = client.begin(path)
                client.h2.send_data(stream, body, end_stream=True)
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
        invalid_text, header_flood, endless_headers, rapid_resets, settings_and_ping_flood,
        random_frames, no_http2, half_open, slow_writer, slow_reader, stream_flood, large_and_empty,
    )
}  # fmt: skip

HTTP_ATTACKS: Final[dict[str, Attack]] = {
    attack.__name__: attack for attack in (http_nonsense, no_http2, random_frames)
}
