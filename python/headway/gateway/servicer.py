"""InferenceService: wire to path and back. No decisions."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from headway.errors import InvalidRequest, RequestError
from headway.gateway.catalog import Catalog
from headway.gateway.path import RequestPath
from headway.gateway.stream_request import LiveRequest
from headway.rpc.channels import aio
from headway.rpc.convert import duration_ns
from headway.rpc.interceptors import Caller, current_caller
from headway.rpc.status import to_status
from headway.v1 import inference_pb2, inference_pb2_grpc

_log = logging.getLogger(__name__)

SERVICE = "headway.v1.InferenceService"
METHODS = ("Infer", "InferStream", "InferMany", "ListModels")


class InferenceServicer(inference_pb2_grpc.InferenceServiceServicer):
    """What applications call."""

    def __init__(self, path: RequestPath, catalog: Catalog, max_inflight_per_stream: int) -> None:
        self._path = path
        self._catalog = catalog
        self._max_inflight = max_inflight_per_stream

    async def Infer(
        self, request: inference_pb2.InferRequest, context: Any
    ) -> inference_pb2.InferResponse:
        """One request, one answer."""
        return await self._path.infer(request, current_caller(), context.time_remaining())

    def begin_infer(
        self, request: inference_pb2.InferRequest, caller: Caller, remaining_s: float | None
    ) -> "tuple[asyncio.Future[inference_pb2.InferResponse], Callable[[], None]] | None":
        """`Infer` for servers without a coroutine for a call (`rpc.interceptors.Begin`)."""
        return self._path.begin(request, caller, remaining_s)

    async def InferStream(
        self, request: inference_pb2.InferStreamRequest, context: Any
    ) -> AsyncIterator[inference_pb2.InferStreamResponse]:
        """One request, the answer in parts; one final part for models that answer at once."""
        async with contextlib.aclosing(
            self._path.stream(request.request, current_caller(), context.time_remaining())
        ) as events:
            async for event in events:
                yield event

    async def InferMany(
        self, requests: AsyncIterator[inference_pb2.InferManyRequest], context: Any
    ) -> AsyncIterator[inference_pb2.InferManyResponse]:
        """Many requests on one stream."""
        stream = _Multiplex(self._path, current_caller(), context, self._max_inflight)
        try:
            async for response in stream.serve(requests):
                yield response
        finally:
            stream.abandon()

    async def ListModels(
        self, request: inference_pb2.ListModelsRequest, context: Any
    ) -> inference_pb2.ListModelsResponse:
        """The models that are served."""
        default = self._catalog.default_name()
        response = inference_pb2.ListModelsResponse()
        for name in sorted(self._catalog.models):
            model = self._catalog.models[name]
            shares = {pool.version: share for pool, share in model.live_split()}
            served = response.models.add(model=name, is_default=name == default)
            for version in sorted(model.versions):
                pool = model.versions[version]
                served.versions.add(
                    version=version,
                    ready=pool.num_ready > 0,
                    traffic_share=shares.get(version, 0.0),
                    ready_replicas=pool.num_ready,
                    card=pool.card,
                )
        return response


class _Multiplex:
    """One client's InferMany stream.

    At most `max_inflight` requests are in flight and as many answers unsent; the stream is not
    read beyond, so that HTTP/2's flow control holds the client back.
    """

    def __init__(self, path: RequestPath, caller: Caller, context: Any, max_inflight: int) -> None:
        self._path = path
        self._caller = caller
        self._context = context
        self._inflight: dict[int, LiveRequest] = {}
        self._ended: asyncio.Queue[inference_pb2.InferManyResponse | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(max_inflight)
        self._reading = True

    async def serve(
        self, requests: AsyncIterator[inference_pb2.InferManyRequest]
    ) -> AsyncIterator[inference_pb2.InferManyResponse]:
        reader = asyncio.ensure_future(self._read(requests))
        try:
            while self._reading or self._inflight or not self._ended.empty():
                response = await self._ended.get()
                if response is not None:
                    yield response
                    self._room.release()
            # What ended the reading, where it was not the client: a message that cannot be read.
            if reader.done() and not reader.cancelled() and (error := reader.exception()):
                raise error
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    def abandon(self) -> None:
        """Cancels what is still in flight; the client has left."""
        pending, self._inflight = list(self._inflight.values()), {}
        for each in pending:
            self._path.cancel(each)

    async def _read(self, requests: AsyncIterator[inference_pb2.InferManyRequest]) -> None:
        try:
            async for message in requests:
                if message.WhichOneof("action") == "cancel":
                    self._cancel(message.id)
                    continue
                await self._room.acquire()
                self._start(message)
        except aio.AbortError:
            raise
        finally:
            self._reading = False
            self._ended.put_nowait(None)

    def _start(self, message: inference_pb2.InferManyRequest) -> None:
        try:
            pending = self._path.submit(message.request, self._caller, self._remaining_s(message))
        except RequestError as error:
            self._put_error(message.id, error)
            return
        except Exception as error:
            # A fault of ours costs this request, and not the others of the stream.
            _log.exception("unexpected error in a request of InferMany")
            self._put_error(message.id, error)
            return
        self._inflight[message.id] = pending
        pending.future.add_done_callback(lambda _: self._on_end(message.id, pending))

    def _remaining_s(self, message: inference_pb2.InferManyRequest) -> float | None:
        if message.WhichOneof("action") is None:
            raise InvalidRequest("neither request nor cancel is set; set one", field="request")
        if message.id in self._inflight:
            raise InvalidRequest(
                f"id {message.id} is in flight on this stream already; use another", field="id"
            )
        call: float | None = self._context.time_remaining()
        if not message.HasField("timeout"):
            return call
        timeout_ns = duration_ns(message.timeout)
        if timeout_ns <= 0:
            raise InvalidRequest(
                f"timeout is {timeout_ns / 1e9:g} s; it must be above 0", field="timeout"
            )
        return timeout_ns / 1e9 if call is None else min(call, timeout_ns / 1e9)

    def _cancel(self, request_id: int) -> None:
        pending = self._inflight.get(request_id)
        if pending is not None:
            self._path.cancel(pending)

    def _on_end(self, request_id: int, pending: LiveRequest) -> None:
        if self._inflight.get(request_id) is not pending:
            return
        del self._inflight[request_id]
        error = pending.future.exception()
        if error is not None:
            self._put_error(request_id, error)
            return
        self._ended.put_nowait(
            inference_pb2.InferManyResponse(id=request_id, response=pending.future.result())
        )

    def _put_error(self, request_id: int, error: BaseException) -> None:
        self._ended.put_nowait(
            inference_pb2.InferManyResponse(id=request_id, error=to_status(error))
        )
