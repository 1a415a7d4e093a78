"""Unary calls over a few channels."""

import itertools
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any

from grpc import aio

from headway.client.closing import Closing
from headway.client.errors import from_call
from headway.client.retry import NO_RETRY, RetryPolicy, with_retries
from headway.client.stream import events
from headway.client.tls import ClientTls, channel_tls
from headway.clock import Clock, SystemClock
from headway.errors import ConfigError
from headway.rng import SeedTree, fresh_root
from headway.rpc.channels import MIB
from headway.rpc.renewal import Held, RenewedChannel
from headway.v1 import inference_pb2, types_pb2

DEFAULT_MESSAGE_BYTES = 64 * MIB
"""Gateways' own default."""

SERVICE = "/headway.v1.InferenceService/"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a caller shows to a gateway.

    Attributes:
      api_key: hw_<key id>_<secret>; None where the gateway asks for none.
    """

    api_key: str | None = field(default=None, repr=False)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Call metadata that carries them."""
        return (("authorization", f"Bearer {self.api_key}"),) if self.api_key else ()


@dataclass(frozen=True, slots=True)
class _Calls:
    """The methods of InferenceService on one channel."""

    infer: Any
    infer_stream: Any
    list_models: Any


def _calls(channel: aio.Channel) -> _Calls:
    return _Calls(
        infer=channel.unary_unary(
            SERVICE + "Infer",
            request_serializer=inference_pb2.InferRequest.SerializeToString,
            response_deserializer=inference_pb2.InferResponse.FromString,
        ),
        infer_stream=channel.unary_stream(
            SERVICE + "InferStream",
            request_serializer=inference_pb2.InferStreamRequest.SerializeToString,
            response_deserializer=inference_pb2.InferStreamResponse.FromString,
        ),
        list_models=channel.unary_unary(
            SERVICE + "ListModels",
            request_serializer=inference_pb2.ListModelsRequest.SerializeToString,
            response_deserializer=inference_pb2.ListModelsResponse.FromString,
        ),
    )


class Client(Closing):
    """Calls one gateway.

    Calls may run concurrently; they take turns over the channels. It is bound to the event loop
    in which it is first used. Renewed certificates are shown by the calls that begin after.
    """

    def __init__(
        self,
        address: str,
        *,
        api_key: str | None = None,
        tls: ClientTls | None = None,
        max_message_bytes: int = DEFAULT_MESSAGE_BYTES,
        num_channels: int = 1,
        retry: RetryPolicy | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Connects when first used.

        Args:
          address: host:port of the gateway's data port.
          api_key: shown with each call.
          tls: for a gateway with TLS; None for plaintext. Its files are read here.
          max_message_bytes: largest request sent and answer taken; the gateway has its own limit.
          num_channels: connections, >= 1; one carries thousands of calls a second.
          retry: what to do about rejections that say when to come back; default nothing.
          clock: for the waits between retries; default the system's.

        Raises:
          ConfigError: the files of `tls` cannot be used.
        """
        self.address = address
        self._retry = retry or NO_RETRY
        self._clock = clock or SystemClock()
        self._rng = SeedTree(fresh_root()).stream("client") if retry is not None else None
        self._metadata = Credentials(api_key).metadata
        secured = channel_tls(tls)
        self._channels = [
            RenewedChannel(address, secured, _calls, max_message_bytes=max_message_bytes)
            for _ in range(num_channels)
        ]
        self._turns = itertools.cycle(self._channels)

    @property
    def certificate_problem(self) -> ConfigError | None:
        """Why the files of `tls` as they are now are not used; None if they are."""
        return self._channels[0].problem

    async def infer(
        self, request: inference_pb2.InferRequest, *, timeout_s: float | None = None
    ) -> inference_pb2.InferResponse:
        """One answer.

        Args:
          request: what to run.
          timeout_s: the deadline, for all attempts together; None for the model's default.

        Raises:
          RequestError: the gateway refused or failed it; the class says why.
          GatewayUnreachable: nobody answered.
          UnexpectedStatus: the answer was of no known kind.
          CertificateExpired: the certificate to show ran out, and its files hold no better one.
        """

        async def once(timeout_s: float | None) -> inference_pb2.InferResponse:
            held = self._take()
            try:
                response: inference_pb2.InferResponse = await held.calls.infer(
                    request, timeout=timeout_s, metadata=self._metadata
                )
            except aio.AioRpcError as error:
                raise from_call(error, self.address, self.certificate_problem) from error
            finally:
                held.release()
            return response

        if self._rng is None:
            return await once(timeout_s)
        return await with_retries(once, self._retry, self._clock, self._rng, timeout_s=timeout_s)

    def infer_stream(
        self, request: inference_pb2.InferRequest, *, timeout_s: float | None = None
    ) -> AsyncGenerator[inference_pb2.InferStreamResponse]:
        """One answer in parts; the last event is `final`. Raises as `infer` does.

        It begins when the first event is asked for. What is not taken holds the writer back;
        closing the generator cancels the call.
        """
        return self._events(request, timeout_s)

    async def list_models(
        self, *, timeout_s: float | None = None
    ) -> Sequence[inference_pb2.ServedModel]:
        """The models that are served, by name. Raises as `infer` does."""
        held = self._take()
        try:
            response: inference_pb2.ListModelsResponse = await held.calls.list_models(
                inference_pb2.ListModelsRequest(), timeout=timeout_s, metadata=self._metadata
            )
        except aio.AioRpcError as error:
            raise from_call(error, self.address, self.certificate_problem) from error
        finally:
            held.release()
        return response.models

    async def close(self) -> None:
        """Closes the connections; calls in flight are cancelled."""
        for channel in self._channels:
            await channel.close()

    async def _events(
        self, request: inference_pb2.InferRequest, timeout_s: float | None
    ) -> AsyncGenerator[inference_pb2.InferStreamResponse]:
        held = self._take()
        call = held.calls.infer_stream(
            inference_pb2.InferStreamRequest(request=request),
            timeout=timeout_s,
            metadata=self._metadata,
        )
        try:
            async for event in events(call, self.address, self.certificate_problem):
                yield event
        finally:
            call.cancel()
            held.release()

    def _take(self) -> Held[_Calls]:
        return next(self._turns).take()


def text_input(*texts: str) -> types_pb2.Input:
    """One text, or several as the rows of one request."""
    if len(texts) == 1:
        return types_pb2.Input(text=texts[0])
    return types_pb2.Input(texts=types_pb2.TextList(values=texts))


def text_request(*texts: str, model: str = "", version: str = "") -> inference_pb2.InferRequest:
    """A request for `text_input` of `texts`."""
    return inference_pb2.InferRequest(model=model, version=version, input=text_input(*texts))
