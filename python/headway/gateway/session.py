"""The gateway's end of a session with a worker."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from headway import _core
from headway.clock import Clock
from headway.rpc import channels
from headway.v1 import worker_pb2, worker_pb2_grpc

_log = logging.getLogger(__name__)

_FIRST_BACKOFF_NS = 50_000_000
_LONGEST_BACKOFF_NS = 2_000_000_000
_CONNECT_SECONDS = 5.0
# grpc.aio raises InvalidStateError for a write to a stream that the peer has ended.
_STREAM_ENDED = (channels.aio.AioRpcError, asyncio.InvalidStateError)


class SessionListener(Protocol):
    """Who hears of a session's life."""

    def on_up(self, session: "WorkerSession", greeting: worker_pb2.WorkerGreeting) -> None:
        """The worker greeted; batches may be sent."""
        ...

    def on_message(self, session: "WorkerSession", message: worker_pb2.SessionResponse) -> None:
        """The worker said something."""
        ...

    def on_down(self, session: "WorkerSession") -> None:
        """The stream is gone, and what was on it with it."""
        ...


class WorkerSession:
    """One bidirectional stream to a worker, opened anew with backoff until closed.

    Outgoing messages wait in order; their number is bounded by the scheduler, which has at most
    `max_outstanding` batches on a replica and one cancellation for each of their members.
    """

    def __init__(
        self,
        address: str,
        greeting: worker_pb2.GatewayGreeting,
        listener: SessionListener,
        *,
        clock: Clock,
        rng: _core.Rng,
        open_channel: Callable[[str], channels.aio.Channel],
    ) -> None:
        self.address = address
        self.up = False
        self._greeting = greeting
        self._listener = listener
        self._clock = clock
        self._rng = rng
        self._open_channel = open_channel
        self._outgoing: deque[worker_pb2.SessionRequest] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to connect, in the background."""
        self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Ends the session for good. The listener hears `on_down` if it was up."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def send(self, message: worker_pb2.SessionRequest) -> None:
        """Sends a message, after those before it.

        Dropped when the session is down: what it was about is lost with the stream.
        """
        if not self.up:
            return
        self._outgoing.append(message)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def restart(self) -> None:
        """Gives the stream up and opens another; what was on it is lost."""
        if self._reader is not None:
            self._reader.cancel()

    async def _run(self) -> None:
        backoff_ns = _FIRST_BACKOFF_NS
        while True:
            greeted = False
            try:
                greeted = await self._converse()
            except _STREAM_ENDED as error:
                _log.info("session lost", extra={"address": self.address, "why": _why(error)})
                greeted = self.up
            except Exception:
                # A fault of ours in handling one message must not cost the worker for good.
                _log.exception("session dropped", extra={"address": self.address})
            finally:
                self._down()
            backoff_ns = _FIRST_BACKOFF_NS if greeted else backoff_ns * 2
            backoff_ns = min(backoff_ns, _LONGEST_BACKOFF_NS)
            # Jitter, so that gateways that lost a worker together do not return together.
            await self._clock.sleep(backoff_ns // 2 + self._rng.below(backoff_ns))

    async def _converse(self) -> bool:
        """One life of the stream; True if the worker greeted."""
        # Opened anew each time, so that it shows the certificate that is then in force.
        async with self._open_channel(self.address) as channel:
            call = worker_pb2_grpc.WorkerServiceStub(channel).Session()
            try:
                await call.write(worker_pb2.SessionRequest(greeting=self._greeting))
                first = await asyncio.wait_for(call.read(), _CONNECT_SECONDS)
            except TimeoutError:
                call.cancel()
                return False
            if first is channels.aio.EOF or first.WhichOneof("message") != "greeting":
                return False
            self.up = True
            self._listener.on_up(self, first.greeting)
            writer = asyncio.ensure_future(self._write(call.write))
            reader = self._reader = asyncio.ensure_future(self._read(call.read))
            try:
                # Not `await reader`: a restart cancels the reader, and not this task.
                await asyncio.wait((reader,))
            finally:
                self._reader = None
                for task in (reader, writer):
                    task.cancel()
                ends = await asyncio.gather(reader, writer, return_exceptions=True)
                call.cancel()
            if isinstance(ends[0], Exception):
                raise ends[0]
            return True

    async def _read(self, read: Callable[[], "asyncio.Future[worker_pb2.SessionResponse]"]) -> None:
        while True:
            message = await read()
            if message is channels.aio.EOF:
                return
            self._listener.on_message(self, message)

    async def _write(self, write: Callable[[object], "asyncio.Future[None]"]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while self._outgoing:
                await write(self._outgoing.popleft())
            self._wake = loop.create_future()
            await self._wake

    def _down(self) -> None:
        self._outgoing.clear()
        if self.up:
            self.up = False
            self._listener.on_down(self)


def _why(error: Exception) -> str:
    details = error.details() if isinstance(error, channels.aio.AioRpcError) else None
    return details or str(error)
