"""Many requests on one stream: ``InferMany``, for clients with a high rate."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from grpc import aio

from headway.client.client import DEFAULT_MESSAGE_BYTES, SERVICE, Credentials
from headway.client.errors import (
    CallError,
    GatewayUnreachable,
    from_call,
    from_status,
    large_message,
)
from headway.client.tls import ClientTls, channel_tls
from headway.errors import Cancelled, ConfigError, DeadlineExpired
from headway.rpc.convert import NS_PER_S, duration_from_ns
from headway.rpc.renewal import Held, RenewedChannel
from headway.v1 import inference_pb2

UNSENT_LIMIT: Final = 1024
"""Messages that wait to be written; beyond it callers wait."""

ANSWER_GRACE_S: Final = 1.0
"""Wait beyond a request's deadline for the gateway to say so, before it is taken for lost."""

# What grpc.aio makes of a write on a stream that the gateway has ended meanwhile.
_WRITTEN_TOO_LATE: Final = "Internal error from Core"

_Pending = asyncio.Future[inference_pb2.InferResponse]


class ManyStream:
    """Multiplexes calls over one stream. Opens it at the first call, and again after a loss.

    Once certificates are renewed, calls go on a stream that shows the new one; those on the old
    stream finish there.
    """

    def __init__(
        self,
        address: str,
        *,
        api_key: str | None = None,
        tls: ClientTls | None = None,
        max_message_bytes: int = DEFAULT_MESSAGE_BYTES,
    ) -> None:
        """Connects when first used; the arguments are those of `Client`."""
        self._max_message_bytes = max_message_bytes
        self.address = address
        self._metadata = Credentials(api_key).metadata
        self._channel: RenewedChannel[Any] = RenewedChannel(
            address, channel_tls(tls), _open_many, max_message_bytes=max_message_bytes
        )
        self._stream: _Stream | None = None
        self._retired: set[_Stream] = set()
        self._next_id = 0

    @property
    def certificate_problem(self) -> ConfigError | None:
        """Why the files of `tls` as they are now are not used; None if they are."""
        return self._channel.problem

    async def infer(
        self, request: inference_pb2.InferRequest, *, timeout_s: float | None = None
    ) -> inference_pb2.InferResponse:
        """One answer. Raises as `Client.infer` does; cancelling it cancels the request."""
        stream = self._open()
        self._next_id += 1
        number = self._next_id
        message = inference_pb2.InferManyRequest(id=number, request=request)
        if timeout_s is not None:
            message.timeout.CopyFrom(duration_from_ns(round(timeout_s * NS_PER_S)))
        # Sent, it would end the stream, and every other request on it.
        if (size := message.ByteSize()) > self._max_message_bytes:
            raise large_message(size, self._max_message_bytes, request=True, here=True)
        try:
            async with asyncio.timeout(timeout_s and timeout_s + ANSWER_GRACE_S):
                return await stream.ask(message)
        except TimeoutError:
            raise DeadlineExpired(
                f"no answer within {ANSWER_GRACE_S:g} s after the deadline"
            ) from None

    async def close(self) -> None:
        """Closes the stream; calls in flight end as cancelled."""
        streams = [*self._retired, *([self._stream] if self._stream else [])]
        for stream in streams:
            await stream.close()
        self._retired.clear()
        self._stream = None
        await self._channel.close()

    def _open(self) -> "_Stream":
        held, stream = self._channel.take(), self._stream
        if stream is not None and stream.is_open and stream.held is held:
            held.release()
            return stream
        if stream is not None:
            self._retired.add(stream)
            stream.retire()
        self._stream = _Stream(
            held,
            self._metadata,
            lost=self._lost,
            ended=self._ended,
            retired=self._retired.discard,
        )
        return self._stream

    def _lost(self, error: aio.AioRpcError) -> CallError:
        if error.details() == _WRITTEN_TOO_LATE:
            return self._ended()
        return from_call(error, self.address, self.certificate_problem)

    def _ended(self) -> GatewayUnreachable:
        return GatewayUnreachable(f"the stream to {self.address} ended")


def _open_many(channel: aio.Channel) -> Any:
    return channel.stream_stream(
        SERVICE + "InferMany",
        request_serializer=inference_pb2.InferManyRequest.SerializeToString,
        response_deserializer=inference_pb2.InferManyResponse.FromString,
    )


class _Stream:
    """One life of the stream, from its opening to its loss or replacement.

    Attributes:
      held: the channel it is on.
    """

    def __init__(
        self,
        held: Held[Any],
        metadata: Sequence[tuple[str, str]],
        *,
        lost: Callable[[aio.AioRpcError], CallError],
        ended: Callable[[], CallError],
        retired: Callable[["_Stream"], None],
    ) -> None:
        """Opens it.

        Args:
          held: released when the stream has ended.
          metadata: who calls.
          lost: the error of those in flight when gRPC reports one.
          ended: their error when the gateway just ends the stream.
          retired: told when a stream that was retired has ended.
        """
        self.held = held
        self._lost = lost
        self._ended = ended
        self._on_retired = retired
        self._is_retired = False
        self._pending: dict[int, _Pending] = {}
        self._unsent: asyncio.Queue[inference_pb2.InferManyRequest] = asyncio.Queue(UNSENT_LIMIT)
        call = held.calls(metadata=metadata)
        self._call = call
        self._reader = asyncio.ensure_future(self._read(call))
        # Not in the task itself, which may be cancelled before its first step.
        self._reader.add_done_callback(self._let_go)
        self._writer = asyncio.ensure_future(self._write(call))

    @property
    def is_open(self) -> bool:
        """False once it is lost."""
        return not (self._reader.done() or self._writer.done())

    async def ask(self, message: inference_pb2.InferManyRequest) -> inference_pb2.InferResponse:
        """One answer; a caller that leaves takes its request back."""
        answer: _Pending = asyncio.get_running_loop().create_future()
        self._pending[message.id] = answer
        try:
            await self._unsent.put(message)
            return await answer
        except asyncio.CancelledError:
            self._take_back(message.id)
            raise
        finally:
            self._pending.pop(message.id, None)
            self._end_if_unused()

    def retire(self) -> None:
        """Ends it after the last of its calls."""
        self._is_retired = True
        self._end_if_unused()

    async def close(self) -> None:
        """Ends it; calls in flight end as cancelled."""
        for task in (self._reader, self._writer):
            task.cancel()
        await asyncio.gather(self._reader, self._writer, return_exceptions=True)
        self._fail_all(Cancelled("the stream was closed"))

    def _end_if_unused(self) -> None:
        if self._is_retired and not self._pending:
            self._reader.cancel()
            self._writer.cancel()
            self._on_retired(self)

    async def _write(self, call: Any) -> None:
        with contextlib.suppress(aio.AioRpcError, asyncio.InvalidStateError):
            while True:
                await call.write(await self._unsent.get())

    async def _read(self, call: Any) -> None:
        error = self._ended()
        try:
            async for response in call:
                self._settle(response)
        except aio.AioRpcError as failed:
            error = self._lost(failed)
        self._writer.cancel()
        self._fail_all(error)

    def _let_go(self, _reader: object) -> None:
        self._call.cancel()
        self.held.release()

    def _settle(self, response: inference_pb2.InferManyResponse) -> None:
        answer = self._pending.get(response.id)
        if answer is None or answer.done():
            return
        if response.HasField("error"):
            answer.set_exception(from_status(response.error))
        else:
            answer.set_result(response.response)

    def _fail_all(self, error: CallError) -> None:
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(error)

    def _take_back(self, number: int) -> None:
        # A full queue means a stalled stream: the gateway ends the request at its deadline.
        with contextlib.suppress(asyncio.QueueFull):
            self._unsent.put_nowait(inference_pb2.InferManyRequest(id=number, cancel=True))
