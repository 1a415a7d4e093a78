"""Clients of a simulated fleet: one call each, through the generated stubs."""

import asyncio
from dataclasses import dataclass
from typing import Any

import grpc
from tests.dst.plan import Request
from tests.dst.world import CLIENT_DELAY_NS, World

from headway.client.errors import from_call, from_status
from headway.runtimes.base import ItemOutput
from headway.runtimes.simulated import answer
from headway.testing.memory import connect_from
from headway.v1 import inference_pb2, inference_pb2_grpc, types_pb2

OK = "ok"
LEFT = "left"
MARGIN_NS = 2 * CLIENT_DELAY_NS[1] + 2_000_000
"""Both ways of a message, the loop's millisecond, and one to spare."""


class Broken(AssertionError):
    """An invariant does not hold."""


class Refused(Exception):
    """An error that came in a message rather than as a status."""


@dataclass
class Call:
    """A request and how it ended."""

    request: Request
    request_id: str
    text: str
    sent_ns: int
    ended_ns: int = -1
    outcome: str = ""
    replica: str = ""


class Clients:
    """Sends the requests of a plan when they are due."""

    def __init__(self, world: World) -> None:
        self.calls: list[Call] = []
        self._world = world
        self._stubs: list[Any] = [
            inference_pb2_grpc.InferenceServiceStub(
                connect_from(world.network, world.client)(gateway.data)
            )
            for gateway in world.gateways
        ]

    async def run(self, requests: list[Request]) -> None:
        """Returns when each of them has ended."""
        tasks = []
        for request in requests:
            await self._world.pass_time(request.at_ns - self._world.loop.now_ns)
            tasks.append(self.begin(request))
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()  # an assertion of the client

    def begin(self, request: Request) -> "asyncio.Task[None]":
        text = f"request {request.key or request.number} " + "x" * request.size
        call = Call(request, f"r{request.number}", text, self._world.loop.now_ns)
        self.calls.append(call)
        self._world.trace.add("send", call.request_id, request.kind, f"gateway-{request.gateway}")
        task = self._world.client.run(self._one(call))
        self._world.storms.append(task)
        if request.cancel_after_ns is not None:
            at_s = (self._world.loop.now_ns + request.cancel_after_ns) / 1e9
            self._world.loop.call_at(at_s, task.cancel)
        return task

    async def _one(self, call: Call) -> None:
        try:
            response = await self._ask(call)
        except asyncio.CancelledError:
            self._end(call, LEFT)
            raise
        except grpc.aio.AioRpcError as error:
            self._end(call, from_call(error, "gateway").reason)
        except Refused as refused:
            self._end(call, str(refused))
        else:
            call.replica = response.replica
            self._end(call, OK)
            _check_answer(call, response)

    async def _ask(self, call: Call) -> inference_pb2.InferResponse:
        stub = self._stubs[call.request.gateway]
        message = _message(call)
        timeout = call.request.timeout_ns / 1e9
        if call.request.kind == "unary":
            return await stub.Infer(message, timeout=timeout)
        if call.request.kind == "stream":
            return await _read_stream(stub, message, timeout)
        return await _ask_on_stream(stub, message, call, timeout)

    def _end(self, call: Call, outcome: str) -> None:
        if call.outcome:
            raise Broken(f"{call.request_id} ended twice: {call.outcome}, then {outcome}")
        call.outcome, call.ended_ns = outcome, self._world.loop.now_ns
        self._world.trace.add("end", call.request_id, outcome, call.replica)
        late_ns = call.ended_ns - call.sent_ns - call.request.timeout_ns - MARGIN_NS
        if late_ns > 0:
            raise Broken(f"{call.request_id} ended ({outcome}) {late_ns / 1e6:g} ms too late")


async def _read_stream(
    stub: Any, message: inference_pb2.InferRequest, timeout: float
) -> inference_pb2.InferResponse:
    reading = stub.InferStream(inference_pb2.InferStreamRequest(request=message), timeout=timeout)
    text, final = "", None
    try:
        async for event in reading:
            if final is not None:
                raise Broken("an event came after the final one")
            if event.WhichOneof("event") == "final":
                final = event.final
            else:
                text += event.delta.text
    except BaseException:
        reading.cancel()
        raise
    if final is None:
        raise Broken("a stream ended without a final event")
    if text and not final.output.text.startswith(text):
        raise Broken("the parts are not the beginning of the answer")
    return final


async def _ask_on_stream(
    stub: Any, message: inference_pb2.InferRequest, call: Call, timeout: float
) -> inference_pb2.InferResponse:
    """One request on an InferMany stream; its error as that of a call."""
    stream = stub.InferMany()
    asked = inference_pb2.InferManyRequest(id=1, request=message)
    asked.timeout.FromNanoseconds(call.request.timeout_ns)
    try:
        await stream.write(asked)
        await stream.done_writing()
        answered = await stream.read()
        if answered is grpc.aio.EOF:
            raise Broken(f"the stream of {call.request_id} ended without an answer")
        if await stream.read() is not grpc.aio.EOF:
            raise Broken(f"{call.request_id} was answered twice")
    except BaseException:
        stream.cancel()
        raise
    if answered.HasField("error"):
        raise Refused(from_status(answered.error).reason)
    return answered.response


def _message(call: Call) -> inference_pb2.InferRequest:
    request = call.request
    return inference_pb2.InferRequest(
        model=request.model,
        input=types_pb2.Input(text=call.text),
        request_id=call.request_id,
        idempotency_key=request.key,
        priority=request.priority,  # type: ignore[arg-type]  # an enum's number
        lane=request.lane,  # type: ignore[arg-type]
    )


def _check_answer(call: Call, response: inference_pb2.InferResponse) -> None:
    """The answer is to this request, and to no other."""
    if not response.output.tensors:
        return
    expected = answer(types_pb2.Input(text=call.text))
    assert isinstance(expected, ItemOutput)
    if response.output != expected.output:
        raise Broken(f"{call.request_id} got another's answer")
