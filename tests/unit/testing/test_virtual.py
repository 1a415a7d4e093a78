import asyncio
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from headway.rng import SeedTree
from headway.testing.memory import MemoryServer, connect_from
from headway.testing.network import Network, Node
from headway.testing.virtual import Deadlock, LoopClock, VirtualLoop
from headway.v1 import inference_pb2, inference_pb2_grpc

DAY_NS = 86_400 * 10**9


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


def test_a_day_passes_at_once_and_to_the_nanosecond(loop: VirtualLoop) -> None:
    loop.run_until_complete(LoopClock(loop).sleep(DAY_NS + 1))
    assert loop.now_ns == DAY_NS + 1


def test_sleepers_wake_in_the_order_of_their_instants(loop: VirtualLoop) -> None:
    woken: list[int] = []

    async def sleep(duration_ns: int) -> None:
        await LoopClock(loop).sleep(duration_ns)
        woken.append(duration_ns)
        assert loop.now_ns == duration_ns

    async def main() -> None:
        await asyncio.gather(*(sleep(ns) for ns in (5, 3, 7_000_000_000, 4)))

    loop.run_until_complete(main())
    assert woken == [3, 4, 5, 7_000_000_000]


def test_waiting_for_nothing_is_an_error(loop: VirtualLoop) -> None:
    with pytest.raises(Deadlock):
        loop.run_until_complete(loop.create_future())


class Echo(inference_pb2_grpc.InferenceServiceServicer):
    def __init__(self) -> None:
        self.left = 0

    async def Infer(self, request: Any, context: Any) -> Any:
        if request.request_id == "wait":
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self.left += 1
        if request.request_id == "abort":
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such thing", (("k", "v"),))
        remaining = str(context.time_remaining())
        return inference_pb2.InferResponse(request_id=request.request_id, model=remaining)

    async def InferMany(self, requests: Any, context: Any) -> Any:
        async for message in requests:
            yield inference_pb2.InferManyResponse(id=message.id)


def network(loop: VirtualLoop) -> tuple[Network, Echo, Node, Any]:
    """A network of 1 ms a message, a server in it, and a stub of another node."""
    net = Network(loop, lambda source, target: 1_000_000)
    servicer, node = Echo(), net.node("server")
    server = MemoryServer(net, node)
    inference_pb2_grpc.add_InferenceServiceServicer_to_server(servicer, server)
    server.add_insecure_port("127.0.0.1:7")
    loop.run_until_complete(server.start())
    channel = connect_from(net, net.node("client"))("127.0.0.1:7")
    return net, servicer, node, inference_pb2_grpc.InferenceServiceStub(channel)


def test_a_call_takes_two_messages_and_carries_its_deadline(loop: VirtualLoop) -> None:
    _, _, _, stub = network(loop)

    async def main() -> None:
        answer = await stub.Infer(inference_pb2.InferRequest(request_id="a"), timeout=3)
        assert (answer.request_id, answer.model, loop.now_ns) == ("a", "3.0", 2_000_000)

    loop.run_until_complete(main())


def test_errors_arrive_with_code_words_and_trailers(loop: VirtualLoop) -> None:
    _, _, _, stub = network(loop)

    async def main() -> None:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await stub.Infer(inference_pb2.InferRequest(request_id="abort"))
        assert failed.value.code() is grpc.StatusCode.NOT_FOUND
        assert failed.value.details() == "no such thing"
        assert dict(failed.value.trailing_metadata() or ()) == {"k": "v"}

    loop.run_until_complete(main())


def test_a_caller_that_leaves_is_noticed_a_message_later(loop: VirtualLoop) -> None:
    net, servicer, _, stub = network(loop)
    clock = LoopClock(loop)

    async def main() -> None:
        call = asyncio.ensure_future(wait(stub))
        await clock.sleep(5_000_000)
        call.cancel()
        await clock.sleep(999_999)
        assert servicer.left == 0
        await clock.sleep(2)
        assert (servicer.left, net.num_calls) == (1, 0)

    loop.run_until_complete(main())


async def wait(stub: Any) -> None:
    await stub.Infer(inference_pb2.InferRequest(request_id="wait"))


def test_the_death_of_a_server_breaks_its_calls_and_refuses_new_ones(loop: VirtualLoop) -> None:
    _, _, node, stub = network(loop)

    async def main() -> None:
        call = asyncio.ensure_future(wait(stub))
        await LoopClock(loop).sleep(5_000_000)
        node.kill()
        for attempt in (call, wait(stub)):
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await attempt
            assert failed.value.code() is grpc.StatusCode.UNAVAILABLE

    loop.run_until_complete(main())


def test_a_frozen_node_answers_once_it_goes_on(loop: VirtualLoop) -> None:
    _, _, node, stub = network(loop)

    async def main() -> None:
        node.freeze()
        call = asyncio.ensure_future(stub.Infer(inference_pb2.InferRequest(request_id="a")))
        await LoopClock(loop).sleep(DAY_NS)
        assert not call.done()
        node.thaw()
        await call
        assert loop.now_ns == DAY_NS + 1_000_000

    loop.run_until_complete(main())


def test_messages_of_a_call_keep_their_order_whatever_each_takes(loop: VirtualLoop) -> None:
    net, _, _, stub = network(loop)
    rng = SeedTree(1).stream("delays")
    net.delay = lambda source, target: rng.below(50_000_000)

    async def main() -> None:
        call = stub.InferMany()
        for number in range(50):
            await call.write(inference_pb2.InferManyRequest(id=number))
        await call.done_writing()
        assert [answer.id async for answer in call] == list(range(50))

    loop.run_until_complete(main())
