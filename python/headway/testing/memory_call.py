"""One call of a stub on a `Network`: what its client and its servicer see of it."""

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from headway.testing.network import Node, Way, resolve

if TYPE_CHECKING:
    from headway.testing.memory import MemoryChannel

WINDOW = 64
"""Messages that a stream's reader may leave unread before its writer waits."""

_NS_PER_S = 1_000_000_000
_CANCELLED = (grpc.StatusCode.CANCELLED, "the caller left", ())


class _Inbox:
    """Messages of a stream that wait for their reader."""

    def __init__(self) -> None:
        self.messages: deque[Any] = deque()
        self.ended = False
        self.error: BaseException | None = None
        self.on_taken: Callable[[], None] = lambda: None
        self._waiter: asyncio.Future[None] | None = None

    def put(self, message: Any) -> None:
        if not self.ended:
            self.messages.append(message)
            self._wake()

    def end(self, error: BaseException | None = None) -> None:
        if not self.ended:
            self.ended, self.error = True, error
            self._wake()

    async def take(self) -> Any:
        """The next message; `aio.EOF` at the end; raises what it ended with."""
        while not self.messages:
            if self.ended:
                if self.error is not None:
                    raise self.error
                return aio.EOF
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        message = self.messages.popleft()
        self.on_taken()
        return message

    def _wake(self) -> None:
        if self._waiter is not None:
            resolve(self._waiter)


class Call:
    """Both ends of a call."""

    def __init__(
        self,
        channel: "MemoryChannel",
        method: str,
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes], Any],
        timeout: float | None,
        metadata: Any,
    ) -> None:
        self.network = channel.network
        self.method = method
        self.client = channel.node
        self.metadata = tuple(metadata or ())
        self.timeout = timeout
        self._encode = encode
        self._decode = decode
        self._task: asyncio.Task[Any] | None = None
        self._handler: Any = None
        self._abandoned = False
        found = self.network.server_at(channel.address)
        self.server = found.node if found is not None else _NOBODY
        self.up = Way(self.network, self.client, self.server)
        self.down = Way(self.network, self.server, self.client)
        self.requests = _Inbox()
        self.network.begin(self)
        if found is None:
            lost = _error(grpc.StatusCode.UNAVAILABLE, "connection refused")
            loop = self.network.loop
            loop.call_soon(self._finish, lost)
        else:
            found.calls[self] = None
            self._found = found

    # -- the client's side; `_finish` is each kind's own

    def cancel(self) -> bool:
        """The caller leaves; the server hears of it."""
        self.up.send(self._abandon)
        self._finish(asyncio.CancelledError())
        return True

    def lose(self) -> None:
        """The connection breaks: both ends learn of it, after a while."""
        was_open = not self.up.closed
        self.up.closed = self.down.closed = True
        if was_open:
            loop, delay = self.network.loop, self.network.delay
            ends = (
                (self.server, self._abandon),
                (self.client, lambda: self._finish(_error(grpc.StatusCode.UNAVAILABLE, "reset"))),
            )
            for node, end in ends:
                at_s = (loop.now_ns + delay(self.client.name, self.server.name)) / _NS_PER_S
                loop.call_at(at_s, node.call, end)

    def _finish(self, outcome: Any) -> None:
        raise NotImplementedError("each kind of call ends in its own way")

    def _settle(self) -> None:
        self.network.end(self)

    # -- the server's side

    def _begin(self, call: Callable[["ServerContext"], Any]) -> None:
        if not self._found.accepts:
            self._answer_error((grpc.StatusCode.UNAVAILABLE, "the server has stopped", ()))
            return
        self._handler = self._found.handler(self.method)
        context = ServerContext(self)
        self._task = self._found.node.run(self._serve(call, context))
        self._task.add_done_callback(lambda _: self._found.calls.pop(self, None))

    async def _serve(
        self, call: Callable[["ServerContext"], Any], context: "ServerContext"
    ) -> None:
        try:
            await call(context)
        except aio.AbortError:
            self._answer_error(context.status)
        except asyncio.CancelledError:
            self._answer_error(_CANCELLED)
            raise
        except Exception as error:
            self._answer_error((grpc.StatusCode.UNKNOWN, f"{type(error).__name__}: {error}", ()))

    def _abandon(self) -> None:
        """The client has left, or seems to have; a second time changes nothing."""
        if self._abandoned:
            return
        self._abandoned = True
        lost = _error(grpc.StatusCode.CANCELLED, "the caller left")
        self.requests.end(lost)
        if self._task is not None:
            self._task.cancel()

    def _answer_error(self, status: tuple[grpc.StatusCode, str, Any]) -> None:
        code, details, trailers = status
        self.down.send(lambda: self._finish(_error(code, details, trailers)))


class UnaryCall(Call):
    """One request, one answer; awaitable."""

    def __init__(self, request: Any, *call: Any) -> None:
        self._future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        super().__init__(*call)
        self._future.add_done_callback(self._on_done)
        data = self._encode(request)
        if self.server is not _NOBODY:
            self.up.send(lambda: self._begin(lambda context: self._answer(data, context)))

    def __await__(self) -> Any:
        return self._future.__await__()

    async def _answer(self, data: bytes, context: "ServerContext") -> None:
        handler = self._handler
        response = await handler.unary_unary(handler.request_deserializer(data), context)
        answer = handler.response_serializer(response)
        self.down.send(lambda: self._finish(self._decode(answer)))

    def _finish(self, outcome: Any) -> None:
        if self._future.done():
            return
        if isinstance(outcome, asyncio.CancelledError):
            self._future.cancel()
        elif isinstance(outcome, BaseException):
            self._future.set_exception(outcome)
        else:
            self._future.set_result(outcome)

    def _on_done(self, future: "asyncio.Future[Any]") -> None:
        if future.cancelled():
            self.up.send(self._abandon)
        else:
            future.exception()  # an answer that nobody awaits is nobody's fault
        self._settle()


class StreamCall(Call):
    """Messages both ways, or one request and messages back."""

    def __init__(self, request: Any, *call: Any) -> None:
        self._responses = _Inbox()
        self._unread = {"up": 0, "down": 0}
        self._room: dict[str, asyncio.Future[None] | None] = {"up": None, "down": None}
        super().__init__(*call)
        self._observed = self.network.observe is not None and self.method.endswith("/Session")
        self.requests.on_taken = lambda: self._taken("up")
        self._responses.on_taken = lambda: self._taken("down")
        if self.server is _NOBODY:
            return
        data = None if request is None else self._encode(request)
        self.up.send(lambda: self._begin(lambda context: self._answer(data, context)))

    # -- the client's side

    async def write(self, message: Any) -> None:
        """Sends a message; waits while the far end leaves many unread."""
        if self._responses.ended:
            if isinstance(self._responses.error, aio.AioRpcError):
                raise self._responses.error
            raise asyncio.InvalidStateError("the call has ended")
        data = self._encode(message)
        await self._take_room("up")
        self.up.send(lambda: self._receive(data))

    async def done_writing(self) -> None:
        """No more messages from this end."""
        self.up.send(self.requests.end)

    async def read(self) -> Any:
        """The next message, or `aio.EOF`; raises AioRpcError if it ended with one."""
        return await self._responses.take()

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (message := await self.read()) is not aio.EOF:
            yield message

    def _finish(self, outcome: Any) -> None:
        if not self._responses.ended:
            self._responses.end(outcome)
            for way in ("up", "down"):
                self._give_room(way)
            self._settle()

    # -- the server's side

    async def _answer(self, data: bytes | None, context: "ServerContext") -> None:
        handler = self._handler
        given: Any
        if data is None:
            behaviour, given = handler.stream_stream, self._iterate()
        else:
            behaviour, given = handler.unary_stream, handler.request_deserializer(data)
        if inspect.isasyncgenfunction(behaviour):
            async for response in behaviour(given, context):
                await context.write(response)
        else:
            await behaviour(given, context)
        self.down.send(lambda: self._finish(None))

    async def _iterate(self) -> AsyncIterator[Any]:
        while (message := await self.requests.take()) is not aio.EOF:
            yield message

    async def write_back(self, response: Any) -> None:
        """What a servicer writes."""
        tamper = self.network.tamper
        sent = (
            (response,)
            if tamper is None
            else tamper(self.method, self.server.name, self.client.name, response)
        )
        for message in sent:
            data = self._handler.response_serializer(message)
            await self._take_room("down")
            self.down.send(partial(self._take_back, data))

    def _receive(self, data: bytes) -> None:
        if self._handler is None:
            return  # refused: the server had stopped
        message = self._handler.request_deserializer(data)
        if self._observed and self.network.observe is not None:
            self.network.observe(self.method, self.client.name, self.server.name, message)
        self.requests.put(message)

    def _take_back(self, data: bytes) -> None:
        message = self._decode(data)
        if self._observed and self.network.observe is not None:
            self.network.observe(self.method, self.server.name, self.client.name, message)
        self._responses.put(message)

    # -- flow control

    async def _take_room(self, way: str) -> None:
        while self._unread[way] >= WINDOW and not self._responses.ended:
            self._room[way] = asyncio.get_running_loop().create_future()
            await self._room[way]  # type: ignore[misc]  # it was made just now
        self._unread[way] += 1

    def _taken(self, way: str) -> None:
        self._unread[way] -= 1
        self._give_room(way)

    def _give_room(self, way: str) -> None:
        waiter = self._room[way]
        if waiter is not None:
            resolve(waiter)


class ServerContext:
    """What a servicer is given beside the request."""

    def __init__(self, call: Call) -> None:
        self._call = call
        timeout = call.timeout
        loop = call.network.loop
        self._deadline_ns = None if timeout is None else loop.now_ns + int(timeout * _NS_PER_S)
        self.status: tuple[grpc.StatusCode, str, Any] = _CANCELLED

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """What the caller sent along."""
        return self._call.metadata

    def time_remaining(self) -> float | None:
        """Seconds to the deadline; None without one. As gRPC counts it: from the arrival."""
        if self._deadline_ns is None:
            return None
        return (self._deadline_ns - self._call.network.loop.now_ns) / _NS_PER_S

    def peer(self) -> str:
        """Who calls."""
        return f"memory:{self._call.client.name}"

    async def write(self, message: Any) -> None:
        """Sends a message back."""
        assert isinstance(self._call, StreamCall)
        await self._call.write_back(message)

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()
    ) -> None:
        """Ends the call with an error."""
        self.status = (code, details, trailing_metadata)
        raise aio.AbortError

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Calls back when the servicer has ended."""
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda _: callback(self))


class _Nobody(Node):
    """Who answers where nobody listens."""

    def __init__(self) -> None:
        self.name, self.alive, self.frozen = "nobody", False, False
        self._tasks = {}

    def call(self, function: Callable[[], Any]) -> Any:
        """Nobody does anything."""


_NOBODY = _Nobody()


def _error(code: grpc.StatusCode, details: str, trailers: Any = ()) -> aio.AioRpcError:
    return aio.AioRpcError(code, aio.Metadata(), aio.Metadata(*(trailers or ())), details)
