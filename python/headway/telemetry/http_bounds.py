"""Bounds of an HTTP port's connections, around any server's protocol."""

import asyncio
from collections.abc import Callable
from typing import Any

_END_OF_HEAD = b"\r\n\r\n"


class BoundedConnections:
    """Makes the protocols of an HTTP/1 port: at most so many at once, each in use.

    A connection that does not complete a request's head in time is closed: one that is idle, one
    that sends a byte now and then, and one that does not read its answer.
    """

    def __init__(
        self, make: Callable[[], Any], *, max_connections: int, request_seconds: float
    ) -> None:
        """`make`: makes the protocol behind one connection."""
        self._make = make
        self._max = max_connections
        self.request_seconds = request_seconds
        self._num_open = 0

    def __call__(self) -> asyncio.Protocol:
        """A protocol for a new connection."""
        return _Bounded(self, self._make())

    def enter(self) -> bool:
        """Counts a connection in; False if there are as many as may be."""
        if self._num_open >= self._max:
            return False
        self._num_open += 1
        return True

    def leave(self) -> None:
        """Counts one out."""
        self._num_open -= 1


class _Bounded(asyncio.Protocol):
    """One connection; passes everything on."""

    def __init__(self, bounds: BoundedConnections, inner: Any) -> None:
        self._bounds = bounds
        self._inner = inner
        self._entered = False
        self._transport: Any = None
        self._timer: asyncio.TimerHandle | None = None
        self._tail = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._entered = self._bounds.enter()
        if not self._entered:
            transport.abort()
            return
        self._inner.connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        if not self._entered:
            return
        if _END_OF_HEAD in self._tail + data:
            self._wait()
        self._tail = (self._tail + data[-3:])[-3:]
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._entered else None

    def pause_writing(self) -> None:
        if self._entered:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._entered:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._entered:
            self._entered = False
            self._bounds.leave()
            self._inner.connection_lost(exc)

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._bounds.request_seconds, self._transport.abort)
