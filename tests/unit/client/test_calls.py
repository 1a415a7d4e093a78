import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from grpc import aio

from headway import errors
from headway.client import Client, GatewayUnreachable, ManyStream, text_request
from headway.rpc.status import abort_arguments, to_status
from headway.v1 import inference_pb2, inference_pb2_grpc, types_pb2


def reply(request: inference_pb2.InferRequest) -> inference_pb2.InferResponse:
    return inference_pb2.InferResponse(
        version="v1", output=types_pb2.Output(text=request.input.text)
    )


class EchoGateway(inference_pb2_grpc.InferenceServiceServicer):
    """Echoes texts. "full" is refused, "hold" never answered, "hang up" ends the stream."""

    def __init__(self) -> None:
        self.metadata: dict[str, str] = {}
        self.timeouts: list[float] = []
        self.held: list[int] = []
        self.cancelled: list[int] = []
        self.num_streams = 0

    async def Infer(self, request: Any, context: Any) -> inference_pb2.InferResponse:
        self.metadata = dict(context.invocation_metadata())
        if request.input.text == "full":
            await context.abort(*abort_arguments(errors.QueueFull("full", retry_after_ns=5)))
        if request.input.text == "hold":
            await asyncio.Event().wait()
        return reply(request)

    async def ListModels(self, request: Any, context: Any) -> inference_pb2.ListModelsResponse:
        return inference_pb2.ListModelsResponse(models=[inference_pb2.ServedModel(model="echo")])

    async def InferMany(
        self, requests: Any, context: Any
    ) -> AsyncIterator[inference_pb2.InferManyResponse]:
        self.num_streams += 1
        self.metadata = dict(context.invocation_metadata())
        held = []
        async for message in requests:
            if message.WhichOneof("action") == "cancel":
                self.cancelled.append(message.id)
                continue
            self.timeouts.append(message.timeout.seconds + message.timeout.nanos / 1e9)
            text = message.request.input.text
            if text == "hang up":
                return
            if text == "full":
                yield inference_pb2.InferManyResponse(
                    id=message.id, error=to_status(errors.QueueFull("full", retry_after_ns=5))
                )
            elif text == "first":
                held.append(message)
            elif text == "hold":
                self.held.append(message.id)
            else:
                yield inference_pb2.InferManyResponse(
                    id=message.id, response=reply(message.request)
                )
                for one in held:
                    yield inference_pb2.InferManyResponse(id=one.id, response=reply(one.request))


@pytest.fixture
async def gateway() -> AsyncIterator[tuple[str, EchoGateway]]:
    server, servicer = aio.server(), EchoGateway()
    inference_pb2_grpc.add_InferenceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}", servicer
    await server.stop(None)


async def test_a_call_shows_its_key_and_returns_the_answer(
    gateway: tuple[str, EchoGateway],
) -> None:
    address, servicer = gateway
    async with Client(address, api_key="hw_12345678_secret", num_channels=2) as client:
        for text in ("one", "two", "three"):
            assert (await client.infer(text_request(text), timeout_s=5)).output.text == text
        assert [model.model for model in await client.list_models(timeout_s=5)] == ["echo"]
    assert servicer.metadata["authorization"] == "Bearer hw_12345678_secret"


async def test_a_refusal_and_a_missed_deadline_are_typed(
    gateway: tuple[str, EchoGateway],
) -> None:
    async with Client(gateway[0]) as client:
        with pytest.raises(errors.QueueFull) as caught:
            await client.infer(text_request("full"), timeout_s=5)
        assert caught.value.retry_after_ns == 5
        with pytest.raises(errors.DeadlineExpired):
            await client.infer(text_request("hold"), timeout_s=0.05)


@contextlib.contextmanager
def socket_that_refuses() -> Iterator[str]:
    """An address that is bound, so that nobody else listens there, and does not listen."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.mark.parametrize("caller", [Client, ManyStream])
async def test_nobody_listening_is_unreachable(caller: type[Client] | type[ManyStream]) -> None:
    with socket_that_refuses() as address:
        connection = caller(address)
        with pytest.raises(GatewayUnreachable, match=address):
            await connection.infer(text_request("x"), timeout_s=5)
        await connection.close()


async def test_several_texts_are_rows_of_one_request() -> None:
    request = text_request("a", "b", model="m", version="v2")
    assert list(request.input.texts.values) == ["a", "b"]
    assert (request.model, request.version) == ("m", "v2")


async def test_a_stream_carries_many_calls_answered_in_any_order(
    gateway: tuple[str, EchoGateway],
) -> None:
    address, servicer = gateway
    stream = ManyStream(address, api_key="hw_12345678_secret")
    texts = ["first", *(str(number) for number in range(50))]
    answers = await asyncio.gather(
        *(stream.infer(text_request(text), timeout_s=2.5) for text in texts)
    )
    assert [answer.output.text for answer in answers] == texts
    assert servicer.num_streams == 1
    assert servicer.timeouts == [2.5] * 51
    assert servicer.metadata["authorization"] == "Bearer hw_12345678_secret"
    await stream.close()


async def test_an_error_ends_its_call_and_not_the_stream(
    gateway: tuple[str, EchoGateway],
) -> None:
    address, servicer = gateway
    stream = ManyStream(address)
    with pytest.raises(errors.QueueFull) as caught:
        await stream.infer(text_request("full"))
    assert caught.value.retry_after_ns == 5
    assert (await stream.infer(text_request("still here"))).output.text == "still here"
    assert servicer.num_streams == 1
    await stream.close()


async def test_a_cancelled_call_is_cancelled_at_the_gateway(
    gateway: tuple[str, EchoGateway],
) -> None:
    address, servicer = gateway
    stream = ManyStream(address)
    held = asyncio.ensure_future(stream.infer(text_request("hold")))
    await stream.infer(text_request("sent after it"))
    held.cancel()
    await asyncio.wait([held])
    await stream.infer(text_request("sent after the cancel"))
    assert len(servicer.held) == 1
    assert servicer.cancelled == servicer.held
    await stream.close()


async def test_a_lost_stream_fails_its_calls_and_is_opened_again(
    gateway: tuple[str, EchoGateway],
) -> None:
    address, servicer = gateway
    stream = ManyStream(address)
    held = asyncio.ensure_future(stream.infer(text_request("hold")))
    with pytest.raises(GatewayUnreachable, match="ended"):
        await stream.infer(text_request("hang up"))
    with pytest.raises(GatewayUnreachable, match="ended"):
        await held
    assert (await stream.infer(text_request("again"))).output.text == "again"
    assert servicer.num_streams == 2
    await stream.close()


async def test_closing_ends_calls_in_flight(gateway: tuple[str, EchoGateway]) -> None:
    stream = ManyStream(gateway[0])
    held = asyncio.ensure_future(stream.infer(text_request("hold")))
    await stream.infer(text_request("sent after it"))
    await stream.close()
    with pytest.raises(errors.Cancelled):
        await held
