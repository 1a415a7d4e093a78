"""HTTP/2 by hand: what a client of gRPC would never send, on a real socket."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
INFER = "/headway.v1.InferenceService/Infer"
INFER_MANY = "/headway.v1.InferenceService/InferMany"
GET_STATE = "/headway.v1.ControlService/GetState"
HEALTH = "/grpc.health.v1.Health/Check"


def message(body: bytes, *, compressed: int = 0, length: int | None = None) -> bytes:
    """A gRPC frame: flag, length, body; `length` may lie."""
    size = len(body) if length is None else length
    return bytes([compressed]) + size.to_bytes(4, "big") + body


class Http2:
    """One connection. Reads only when asked, so it can be as slow as a test likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        config = h2.config.H2Configuration(
            client_side=True, validate_outbound_headers=False, header_encoding="utf-8"
        )
        self.h2 = h2.connection.H2Connection(config)
        self.seen: list[Any] = []
        self.is_closed = False
        self._unread = b""

    async def flush(self) -> None:
        """Sends what is queued; what a closed connection did not take is lost."""
        with contextlib.suppress(ConnectionError):
            self.writer.write(self.h2.data_to_send())
            await self.writer.drain()

    def begin(self, path: str = INFER, *more: tuple[str, str], **changed: str) -> int:
        """Queues a call's headers; returns its stream."""
        stream = self.h2.get_next_available_stream_id()
        fixed = {
            ":method": "POST",
            ":scheme": "http",
            ":path": path,
            ":authority": "x",
            "te": "trailers",
            "content-type": "application/grpc",
        }
        fixed |= {name.replace("_", "-"): value for name, value in changed.items()}
        self.h2.send_headers(stream, [*fixed.items(), *more])
        return stream

    async def call(self, path: str, body: bytes, *more: tuple[str, str]) -> dict[str, str]:
        """One unary call to its end; the trailers, or {"reset": code} or {"closed": ""}."""
        stream = self.begin(path, *more)
        self.h2.send_data(stream, body, end_stream=True)
        await self.flush()
        return await self.end_of(stream)

    async def end_of(self, stream: int) -> dict[str, str]:
        """How a stream ended."""
        while True:
            ended = self._ended(stream)
            if ended is not None:
                return ended
            if self.is_closed or not await self.read():
                return self._ended(stream) or {"closed": ""}

    async def read(self) -> bool:
        """Takes in what comes next; False once the server has closed."""
        try:
            data = await self.reader.read(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            self.is_closed = True
            return False
        for event in self._events(data):
            if isinstance(event, h2.events.DataReceived):
                with contextlib.suppress(Exception):
                    self.h2.acknowledge_received_data(
                        event.flow_controlled_length or 0, event.stream_id
                    )
            self.seen.append(event)
        await self.flush()
        return True

    def _events(self, data: bytes) -> list[Any]:
        """Events of whole frames, one at a time: what follows a goodbye is not understood."""
        self._unread += data
        found: list[Any] = []
        while len(self._unread) >= 9:
            end = 9 + int.from_bytes(self._unread[:3], "big")
            if len(self._unread) < end:
                break
            one, self._unread = self._unread[:end], self._unread[end:]
            with contextlib.suppress(h2.exceptions.ProtocolError):
                found += self.h2.receive_data(one)
        return found

    async def until(self, *kinds: type[Any]) -> Any:
        """The first event of one of `kinds`; None if the server closes before it."""
        while True:
            for event in self.seen:
                if isinstance(event, kinds):
                    return event
            if not await self.read():
                found = [event for event in self.seen if isinstance(event, kinds)]
                return found[0] if found else None

    def _ended(self, stream: int) -> dict[str, str] | None:
        headers: dict[str, str] = {}
        for event in self.seen:
            if getattr(event, "stream_id", None) != stream:
                continue
            if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                headers |= dict(event.headers)
            if isinstance(event, h2.events.StreamReset):
                return {"reset": str(int(event.error_code)), **headers}
            if isinstance(event, h2.events.StreamEnded):
                return headers
        return None


@contextlib.asynccontextmanager
async def http2(address: str, settings: dict[int, int] | None = None) -> AsyncIterator[Http2]:
    """A connection past its handshake. `settings`: what the client announces."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    connection = Http2(reader, writer)
    connection.h2.initiate_connection()
    if settings:
        connection.h2.update_settings(settings)
    await connection.flush()
    try:
        yield connection
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError, TimeoutError):
            await asyncio.wait_for(writer.wait_closed(), 1)


@contextlib.asynccontextmanager
async def raw(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A plain socket."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError, TimeoutError):
            await asyncio.wait_for(writer.wait_closed(), 1)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame as bytes, whatever sense it makes."""
    head = len(payload).to_bytes(3, "big") + bytes([kind & 255, flags & 255])
    return head + (stream & 0x7FFFFFFF).to_bytes(4, "big") + payload


def frames(parts: Iterable[tuple[int, int, int, bytes]]) -> bytes:
    """Several of them."""
    return b"".join(frame(*part) for part in parts)
