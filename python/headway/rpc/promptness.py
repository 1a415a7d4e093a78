"""A call's message must come, and come whole, within a time.

grpc.aio calls a method of one request once its message is complete. If that never happens, the call
stays open: until its deadline, or for as long as its connection where it has none. Here such
methods are handed to the server as methods of many requests, and their one message is read with a
bound. On the wire, and in reflection, nothing differs. The native transport reads such messages
itself, with the same bound and the same words.
"""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import grpc

from headway.errors import DeadlineExpired, InvalidRequest, RequestError
from headway.rpc.peers import PeerStreams, peer_of
from headway.rpc.status import abort_arguments


@dataclass(slots=True, eq=False)
class MessageBound:
    """The time that a port's messages have, and how many took longer.

    Attributes:
      seconds: > 0, from a call's beginning to the end of its message.
      num_overdue: calls that were ended for it.
    """

    seconds: float
    num_overdue: int = 0


def overdue(seconds: float) -> DeadlineExpired:
    """What the caller of a message that is not whole in time is told."""
    return DeadlineExpired(
        f"no whole message within {seconds:g} s; send it faster, or raise "
        "limits.max_message_seconds"
    )


def no_message() -> InvalidRequest:
    """What the caller is told who ends a call before its message."""
    return InvalidRequest(
        "the call ended before its message; send one message, and end the call after it",
        field="message",
    )


class Prompt:
    """A server to which services are added with a bound on the time of their messages."""

    def __init__(
        self,
        server: Any,
        bound: MessageBound,
        *,
        standing: PeerStreams | None = None,
        reads_one: bool = False,
    ) -> None:
        """Adds nothing yet.

        Args:
          server: as returned by `make_server`.
          bound: of the messages.
          standing: for services that have no guard. Counts their calls with many answers by
            address, and bounds the time to each of a stream's requests, not only to the first.
          reads_one: whether the server bounds the message of methods of one request by itself.
        """
        self._server = server
        self._bound = bound
        self._standing = standing
        self._reads_one = reads_one

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Does nothing: the generated code adds the same methods by name, next."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Adds the methods of a service."""
        prompt = {name: self._prompt(handler) for name, handler in handlers.items()}
        generic = grpc.method_handlers_generic_handler(service, prompt)
        self._server.add_generic_rpc_handlers((generic,))
        self._server.add_registered_method_handlers(service, prompt)

    def _prompt(self, handler: Any) -> Any:
        if handler.request_streaming:
            if self._standing is None or not handler.response_streaming:
                return handler
            behaviour = _each_in_time(handler.stream_stream, self._bound)
            return handler._replace(stream_stream=_counted(behaviour, self._standing))
        if self._reads_one:
            if self._standing is None or not handler.response_streaming:
                return handler
            return handler._replace(unary_stream=_counted(handler.unary_stream, self._standing))
        if not handler.response_streaming:
            behaviour = _unary(handler.unary_unary, self._bound)
            return handler._replace(
                request_streaming=True, unary_unary=None, stream_unary=behaviour
            )
        behaviour = _streaming(handler.unary_stream, self._bound)
        if self._standing is not None:
            behaviour = _counted(behaviour, self._standing)
        return handler._replace(request_streaming=True, unary_stream=None, stream_stream=behaviour)


# What follows keeps neither request nor context in a frame that an abort leaves through: see
# `interceptors._refuse`.


def _unary(behaviour: Any, bound: MessageBound) -> Any:
    async def call(_requests: Any, context: Any) -> Any:
        del _requests
        answering = behaviour(await _only_message(context, bound), context)
        del context
        return await answering

    return call


def _streaming(behaviour: Any, bound: MessageBound) -> Any:
    async def call(_requests: Any, context: Any) -> AsyncIterator[Any]:
        del _requests
        answers = behaviour(await _only_message(context, bound), context)
        del context
        async with contextlib.aclosing(answers):
            async for answer in answers:
                yield answer

    async def write(_requests: Any, context: Any) -> None:
        await behaviour(await _only_message(context, bound), context)

    return call if inspect.isasyncgenfunction(behaviour) else write


def _each_in_time(behaviour: Any, bound: MessageBound) -> Any:
    async def requests_in_time(context: Any) -> AsyncIterator[Any]:
        while (request := await _message(context, bound)) is not grpc.aio.EOF:
            yield request

    async def call(_requests: Any, context: Any) -> AsyncIterator[Any]:
        async with contextlib.aclosing(behaviour(requests_in_time(context), context)) as responses:
            async for response in responses:
                yield response

    return call


def _counted(behaviour: Any, streams: PeerStreams) -> Any:
    @contextlib.asynccontextmanager
    async def counted(context: Any) -> AsyncIterator[None]:
        try:
            entered = streams.enter(peer_of(context))
        except RequestError as error:
            await _end(context, error)
        try:
            yield
        finally:
            streams.leave(entered)

    async def call(requests: Any, context: Any) -> AsyncIterator[Any]:
        async with counted(context):
            async with contextlib.aclosing(behaviour(requests, context)) as responses:
                async for response in responses:
                    yield response

    async def write(requests: Any, context: Any) -> None:
        async with counted(context):
            await behaviour(requests, context)

    return call if inspect.isasyncgenfunction(behaviour) else write


async def _only_message(context: Any, bound: MessageBound) -> Any:
    message = await _message(context, bound)
    if message is grpc.aio.EOF:
        await _end(context, no_message())
    return message


async def _message(context: Any, bound: MessageBound) -> Any:
    # None, or years: nobody else ends it. A shorter deadline ends the call by itself.
    left = context.time_remaining()
    if left is not None and left <= bound.seconds:
        return await context.read()
    try:
        async with asyncio.timeout(bound.seconds):
            return await context.read()
    except TimeoutError:
        bound.num_overdue += 1
        await _end(context, overdue(bound.seconds))


async def _end(context: Any, error: RequestError) -> None:
    code, message, trailers = abort_arguments(error, pushback=True)
    try:
        await context.abort(code, message, trailers)
    except grpc.aio.AbortError:
        raise
    except Exception as late:
        # The caller had left: nobody is there to tell.
        raise asyncio.CancelledError from late
