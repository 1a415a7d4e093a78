"""Many requests on one stream: ``InferMany``, for clients with a high rate."""

import asyncio
import contextlib
from collections.abc import Sequence
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
from headway.errors import Cancelled, DeadlineExpired
from headway.rpc.channels import open_channel
from headway.rpc.convert import NS_PER_S, duration_from_ns
from headway.v1 import inference_pb2

UNSENT_LIMIT: Final = 1024
"""Messages that wait to be written; beyond it callers wait."""

ANSWER_GRACE_S: Final = 1.0
"""Wait beyond a request's deadline for the gateway to say so, before it is taken for lost."""

_Pending = asyncio.Future[inference_pb2.InferResponse]


class ManyStream:
    """Multiplexes calls over one stream. Opens it at the first call, and again after a loss."""

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
        self._channel = open_channel(address, channel_tls(tls), max_message_bytes=max_message_bytes)
        self._open_stream = self._channel.stream_stream(
            SERVICE + "InferMany",
            request_serializer=inference_pb2.InferManyRequest.SerializeToString,
            response_deserializer=inference_pb2.InferManyResponse.FromString,
        )
        self._pending: dict[int, _Pending] = {}
        self._unsent: asyncio.Queue[inference_pb2.InferManyRequest] = asyncio.Queue(UNSENT_LIMIT)
        self._tasks: Sequence[asyncio.Task[None]] = ()
        self._next_id = 0

    async def infer(
        self, request: inference_pb2.InferRequest, *, timeout_s: float | None = None
    ) -> inference_pb2.InferResponse:
        """One answer. Raises as `Client.infer` does; cancelling it cancels the request."""
        self._ensure_open()
        self._next_id += 1
        number = self._next_id
        message = inference_pb2.InferManyRequest(id=number, request=request)
        if timeout_s is not None:
            message.timeout.CopyFrom(duration_from_ns(round(timeout_s * NS_PER_S)))
        # Sent, it would end the stream, and every other request on it.
        if (size := message.ByteSize()) > self._max_message_bytes:
            raise large_message(size, self._max_message_bytes, request=True, here=True)
        answer: _Pending = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        try:
            async with asyncio.timeout(timeout_s and timeout_s + ANSWER_GRACE_S):
                await self._unsent.put(message)
                return await answer
        except TimeoutError:
            self._take_back(number)
            raise DeadlineExpired(
                f"no answer within {ANSWER_GRACE_S:g} s after the deadline"
            ) from None
        except asyncio.CancelledError:
            self._take_back(number)
            raise
        finally:
            self._pending.pop(number, None)

    async def close(self) -> None:
        """Closes the stream; calls in flight end as cancelled."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._fail_all(Cancelled("the stream was closed"))
        await self._channel.close(None)

    def _ensure_open(self) -> None:
        if self._tasks and not any(task.done() for task in self._tasks):
            return
        for task in self._tasks:
            task.cancel()
        # What the lost stream had not sent belongs to calls that have failed.
        self._unsent = asyncio.Queue(UNSENT_LIMIT)
        call = self._open_stream(metadata=self._metadata)
        self._tasks = (
            asyncio.ensure_future(self._read(call)),
            asyncio.ensure_future(self._write(call, self._unsent)),
        )

    async def _write(
        self,
        call: Any,
        unsent: asyncio.Queue[inference_pb2.InferManyRequest],
    ) -> None:
        with contextlib.suppress(aio.AioRpcError, asyncio.InvalidStateError):
            while True:
                await call.write(await unsent.get())

    async def _read(self, call: Any) -> None:
        error: CallError = GatewayUnreachable(f"the stream to {self.address} ended")
        try:
            async for response in call:
                self._settle(response)
        except aio.AioRpcError as failed:
            error = from_call(failed, self.address)
        finally:
            call.cancel()
        self._fail_all(error)

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
