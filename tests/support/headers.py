"""Header blocks beyond every bound, written by hand, and what a server says to them."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Final

import hpack
from tests.support.http2 import PREFACE, frame, raw

LIST: Final = b"/headway.v1.InferenceService/ListModels"
DATA, HEADERS, RESET, SETTINGS, GOAWAY, CONTINUATION = 0, 1, 3, 4, 7, 9
ACK = END_STREAM = 1
END_HEADERS = 4
_CHUNK = 16_384


def _integer(value: int, bits: int, first: int = 0) -> bytes:
    """An integer of HPACK with a prefix of so many bits."""
    top = (1 << bits) - 1
    if value < top:
        return bytes([first | value])
    out, value = bytearray([first | top]), value - top
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def literal(name: bytes, value: bytes, *, indexed: bool = False) -> bytes:
    """A header, spelled out; `indexed` puts it into the table of the other side."""
    first = b"\x40" if indexed else b"\x00"
    return first + _integer(len(name), 7) + name + _integer(len(value), 7) + value


def request_head(path: bytes = LIST) -> bytes:
    """The headers of a good call."""
    return b"\x83\x86" + b"".join(
        literal(name, value)
        for name, value in (
            (b":path", path),
            (b":authority", b"x"),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
        )
    )


def small(size: int) -> bytes:
    """Many small headers."""
    return b"".join(literal(b"x-%06d" % number, b"v" * 21) for number in range(size // 32))


def huge_value(size: int) -> bytes:
    """One header of that size."""
    return literal(b"x-huge", b"v" * size)


def huge_name(size: int) -> bytes:
    """One header whose name has that size."""
    return literal(b"x" * size, b"v")


def duplicates(size: int) -> bytes:
    """The same header again and again, spelled out."""
    return literal(b"x-same", b"v" * 990) * (size // 1000)


def repeated(size: int) -> bytes:
    """One entry of 3,900 bytes in the table, named again by a byte each: 2,000 times its wire."""
    return literal(b"x-bomb", b"v" * 3900, indexed=True) + b"\xbe" * (size // 3900)


KINDS: Final = {
    each.__name__: each for each in (small, huge_value, huge_name, duplicates, repeated)
}


@dataclass
class Told:
    """What a server said.

    Attributes:
      status: gRPC status of the call, "" if none came.
      reset: HTTP/2 error of the stream.
      goodbye: HTTP/2 error of the connection.
      closed: whether it closed the connection.
    """

    status: str = ""
    message: str = ""
    reset: int | None = None
    goodbye: int | None = None
    closed: bool = False
    _decoder: hpack.Decoder = field(default_factory=hpack.Decoder)
    _unread: bytes = b""

    @property
    def refused(self) -> bool:
        """True if the call was refused for its headers, or was reset, or its connection ended."""
        return self.status == "8" or (self.over and not self.status) or self.goodbye is not None

    @property
    def over(self) -> bool:
        """True once nothing more is to be expected for the call."""
        return bool(self.status) or self.closed or self.reset is not None

    def take(self, data: bytes) -> None:
        """Reads whole frames off what came."""
        self._unread += data
        while len(self._unread) >= 9:
            end = 9 + int.from_bytes(self._unread[:3], "big")
            if len(self._unread) < end:
                return
            self._frame(self._unread[3], self._unread[9:end])
            self._unread = self._unread[end:]

    def _frame(self, kind: int, payload: bytes) -> None:
        if kind == HEADERS:
            found = dict(self._decoder.decode(payload))
            self.status = found.get("grpc-status", self.status)
            self.message = found.get("grpc-message", self.message)
        elif kind == RESET:
            self.reset = int.from_bytes(payload[:4], "big")
        elif kind == GOAWAY:
            self.goodbye = int.from_bytes(payload[4:8], "big")


async def flood(
    address: str, block: bytes, *, acknowledge: bool, ends: bool = True, patience_s: float = 10
) -> Told:
    """Calls ListModels with a block of headers more; says how that ended.

    Args:
      address: host:port.
      block: beside the headers of a good call.
      acknowledge: whether the server's settings are acknowledged before, as clients do.
      ends: False leaves the block without an end.
      patience_s: longest wait for an answer.
    """
    told = Told()
    async with raw(address) as (reader, writer):
        writer.write(PREFACE + frame(SETTINGS, 0, 0, b""))
        if acknowledge:
            head = await reader.readexactly(9)
            await reader.readexactly(int.from_bytes(head[:3], "big"))
            writer.write(frame(SETTINGS, ACK, 0, b""))
        whole = request_head() + block
        parts = [whole[at : at + _CHUNK] for at in range(0, len(whole), _CHUNK)]
        reading = asyncio.ensure_future(_read(reader, told, patience_s))
        with contextlib.suppress(ConnectionError):
            for number, part in enumerate(parts):
                last = ends and number == len(parts) - 1
                kind = HEADERS if number == 0 else CONTINUATION
                writer.write(frame(kind, END_HEADERS if last else 0, 1, part))
                await writer.drain()
            if ends:
                writer.write(frame(DATA, END_STREAM, 1, bytes(5)))
                await writer.drain()
        await reading
    return told


async def _read(reader: asyncio.StreamReader, told: Told, patience_s: float) -> None:
    with contextlib.suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(patience_s):
            while not told.over:
                data = await reader.read(1 << 16)
                if not data:
                    told.closed = True
                    return
                told.take(data)
            return
    # Neither an answer nor an end, or a reset of the connection.
    told.closed = told.closed or reader.at_eof() or reader.exception() is not None
