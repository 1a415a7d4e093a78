"""Calls of the native transport that are answered without a coroutine.

A coroutine a call takes a task, its place in the set of all tasks, and a frame for each layer that
waits in it. A method that knows at once what will bring its answer needs none of them: the server
begins it where the call comes in, and answers where the future ends.
"""

import logging
from asyncio import Future
from collections.abc import Callable
from typing import Any, cast

import pygrpc_native.aio

from headway.rpc.interceptors import DIRECT, DirectMethod

_log = logging.getLogger(__name__)

_CANCEL = 1
_CANCELLED_CODE = 1


class DirectCall:
    """A call between its beginning and its answer, in the server's table of calls.

    Attributes:
      task: what its end waits for; the server waits for it, or cancels it, when it stops.
      cancelled: whether the client has left.
    """

    __slots__ = ("_direct", "_encode", "_leave", "_server", "call_id", "cancelled", "task")

    def __init__(
        self,
        server: "DirectServer",
        call_id: int,
        direct: DirectMethod,
        encode: Callable[[Any], bytes],
        answer: "Future[Any]",
        leave: Callable[[], None],
    ) -> None:
        self._server = server
        self._direct = direct
        self._encode = encode
        self._leave = leave
        self.call_id = call_id
        self.cancelled = False
        self.task = answer

    def cancel(self) -> None:
        """The client has left."""
        self.cancelled = True
        self.task.cancel()

    def end(self, answer: "Future[Any]") -> None:
        """Sends the answer, or the error in its place."""
        self._server.forget(self.call_id)
        if answer.cancelled():
            self._leave()
            self._server.end_cancelled(self)
            return
        error = answer.exception()
        if error is None:
            try:
                data = self._encode(answer.result())
            except Exception as failure:
                error = failure
            else:
                self._server.answer(self, data)
                return
        self._server.refuse(self.call_id, self._direct, cast(Exception, error))


class DirectServer(pygrpc_native.aio.Server):
    """pygrpc-native's server of asyncio, which begins direct methods by itself.

    All others, and whatever cannot be begun, take the package's own way.
    """

    _directs: "list[tuple[DirectMethod, Callable[[bytes], Any], Callable[[Any], bytes]] | None]"

    async def start(self) -> None:
        """Accepts calls from here on."""
        self._directs = []
        await super().start()
        # No call is handed over before: that takes a turn of the event loop.
        for _, handler in self._table:
            direct = getattr(handler.unary_unary, DIRECT, None)
            self._directs.append(
                (direct, handler.request_deserializer, handler.response_serializer)
                if isinstance(direct, DirectMethod)
                else None
            )

    def forget(self, call_id: int) -> None:
        """A call has ended."""
        self._calls.pop(call_id, None)

    def answer(self, call: DirectCall, data: bytes) -> None:
        """Sends an answer, unless it is larger than may be sent."""
        within = self._within_send_limit(call, data)
        if within is not None:
            self._native.respond(call.call_id, within)

    def refuse(self, call_id: int, direct: DirectMethod, error: Exception) -> None:
        """Ends a call with an error."""
        code, message, trailers = direct.ending(error)
        try:
            self._native.fail(call_id, code.value[0], message, trailing_metadata=list(trailers))
        except ValueError:
            # Names or values that HTTP/2 does not carry. No call may cost the others their turn.
            _log.exception("the end of a call cannot be told")
            self._native.fail(call_id, code.value[0], message)

    def end_cancelled(self, call: DirectCall) -> None:
        """Ends a call whose answer nobody waits for; tells its client, if it is still there."""
        if not call.cancelled and not self._stopping:
            self._native.fail(call.call_id, _CANCELLED_CODE, "Cancelled")

    @property
    def _native(self) -> Any:
        return self._front

    def _on_events(self, events: "list[tuple[Any, ...]]") -> None:
        others = []
        for event in events:
            kind, call_id, method, payload, _, details = event
            direct = None if kind == _CANCEL else self._directs[method]
            if (
                direct is None
                or self._stopping
                or not self._begin(call_id, direct, payload, details)
            ):
                others.append(event)
        if others:
            super()._on_events(others)

    def _begin(
        self,
        call_id: int,
        way: "tuple[DirectMethod, Callable[[bytes], Any], Callable[[Any], bytes]]",
        payload: bytes,
        details: "tuple[Any, str, float | None]",
    ) -> bool:
        """Begins a call; False to leave it to the package."""
        direct, decode, encode = way
        if self._receive_limit is not None and len(payload) > self._receive_limit:
            return False
        metadata, _, remaining_s = details
        try:
            begun = direct.begin(decode(payload), metadata, remaining_s)
        except Exception as error:
            self.refuse(call_id, direct, error)
            return True
        if begun is None:
            return False
        call = DirectCall(self, call_id, direct, encode, *begun)
        self._calls[call_id] = cast(Any, call)
        begun[0].add_done_callback(call.end)
        return True
