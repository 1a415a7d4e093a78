"""Methods that the native transport begins without a coroutine, as their callers see them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from headway.errors import Overloaded, PermissionDenied
from headway.limits import ConnectionLimits
from headway.rpc.decoding import Lenient
from headway.rpc.interceptors import Caller, guard
from headway.rpc.server import bind, make_server
from headway.v1 import inference_pb2, inference_pb2_grpc

SERVICE = "headway.v1.InferenceService"
CALLER = Caller("acme", 7)
Request, Response = inference_pb2.InferRequest, inference_pb2.InferResponse


class Servicer(inference_pb2_grpc.InferenceServiceServicer):
    """Keeps what began, so that a test ends it."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[asyncio.Future[Any]] = asyncio.Queue()
        self.seen: list[tuple[str, Caller, float | None]] = []
        self.left = asyncio.Event()

    async def Infer(self, request: Request, context: Any) -> Response:
        """What takes a coroutine."""
        return Response(request_id=request.request_id, replica="a coroutine")

    def begin(
        self, request: Request, caller: Caller, remaining_s: float | None
    ) -> tuple[asyncio.Future[Any], Callable[[], None]] | None:
        if request.idempotency_key:
            return None
        if request.request_id == "refused":
            raise Overloaded("there is no room", retry_after_ns=2_000_000_000)
        if request.request_id == "broken":
            raise ZeroDivisionError
        self.seen.append((request.request_id, caller, remaining_s))
        answer = asyncio.get_running_loop().create_future()
        self.begun.put_nowait(answer)
        return answer, self.left.set


def authenticate(metadata: Callable[[], Any], method: str) -> Caller:
    if ("authorization", "Bearer good") not in metadata():
        raise PermissionDenied(f"{method} takes a good key")
    return CALLER


@asynccontextmanager
async def served(
    servicer: Servicer, max_message_bytes: int = 1 << 20
) -> AsyncIterator[tuple[Any, Any, Any]]:
    server = make_server("native", max_message_bytes=max_message_bytes, limits=ConnectionLimits())
    direct = {"Infer": servicer.begin}
    guard(servicer, SERVICE, ("Infer",), authenticate, pushback=False, direct=direct)
    inference_pb2_grpc.add_InferenceServiceServicer_to_server(servicer, Lenient(server))
    address = bind(server, "127.0.0.1", 0, "port")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            yield inference_pb2_grpc.InferenceServiceStub(channel), channel, server
    finally:
        await server.stop(None)


def call(stub: Any, *, timeout: float | None = None, key: str = "good", **fields: Any) -> Any:
    metadata = (("authorization", f"Bearer {key}"),)
    return stub.Infer(Request(**fields), timeout=timeout, metadata=metadata)


async def error_of(answer: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await answer
    return failure.value.code(), failure.value.details() or ""


async def test_answers_come_as_they_end_whatever_their_order() -> None:
    servicer = Servicer()
    async with served(servicer) as (stub, _, _):
        first, second = call(stub, request_id="first"), None
        begun = await servicer.begun.get()
        second = call(stub, request_id="second")
        (await servicer.begun.get()).set_result(Response(request_id="2"))
        assert (await second).request_id == "2"
        begun.set_result(Response(request_id="1"))
        assert (await first).request_id == "1"
    assert [(name, caller) for name, caller, _ in servicer.seen] == [
        ("first", CALLER),
        ("second", CALLER),
    ]


async def test_the_time_left_is_that_of_the_call() -> None:
    servicer = Servicer()
    async with served(servicer) as (stub, _, _):
        for timeout in (None, 1000):
            waiting = call(stub, request_id="x", timeout=timeout)
            (await servicer.begun.get()).set_result(Response())
            await waiting
    (_, _, without), (_, _, given) = servicer.seen
    assert without is None
    # The client's core sends a long timeout rounded up, by 1 % here.
    assert given is not None and 900 < given < 1011


async def test_what_takes_a_coroutine_gets_one() -> None:
    servicer = Servicer()
    async with served(servicer) as (stub, _, _):
        answer = await call(stub, request_id="x", idempotency_key="k")
    assert (answer.request_id, answer.replica) == ("x", "a coroutine")


async def test_refusals_leave_through_the_status_table() -> None:
    servicer = Servicer()
    async with served(servicer) as (stub, _, _):
        assert await error_of(call(stub, request_id="refused")) == (
            grpc.StatusCode.UNAVAILABLE,
            "there is no room",
        )
        assert await error_of(call(stub, key="bad")) == (
            grpc.StatusCode.PERMISSION_DENIED,
            f"/{SERVICE}/Infer takes a good key",
        )
        late = call(stub, request_id="x")
        (await servicer.begun.get()).set_exception(Overloaded("later", retry_after_ns=1))
        assert await error_of(late) == (grpc.StatusCode.UNAVAILABLE, "later")


async def test_unexpected_errors_tell_nothing_of_the_inside(
    caplog: pytest.LogCaptureFixture,
) -> None:
    servicer = Servicer()
    async with served(servicer) as (stub, _, _):
        at_once = await error_of(call(stub, request_id="broken"))
        waiting = call(stub, request_id="x")
        (await servicer.begun.get()).set_result("not a message")
        assert at_once == await error_of(waiting)
    assert at_once == (
        grpc.StatusCode.INTERNAL,
        "internal error; the gateway's log has it under this request's id",
    )
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        f"unexpected error in /{SERVICE}/Infer"
    ] * 2


async def test_bytes_that_are_no_message_are_refused() -> None:
    servicer = Servicer()
    async with served(servicer) as (_, channel, _):
        raw = channel.unary_unary(f"/{SERVICE}/Infer")
        code, told = await error_of(raw(b"\xff\xff", metadata=(("authorization", "Bearer good"),)))
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert told.startswith("the message cannot be read")


@pytest.mark.parametrize("side", ["request", "answer"])
async def test_messages_beyond_the_bound_are_not_carried(side: str) -> None:
    servicer = Servicer()
    async with served(servicer, max_message_bytes=1000) as (stub, _, _):
        if side == "request":
            ending = await error_of(call(stub, request_id="x" * 1001))
        else:
            waiting = call(stub, request_id="x")
            (await servicer.begun.get()).set_result(Response(request_id="x" * 1001))
            ending = await error_of(waiting)
    assert ending[0] == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_caller_that_leaves_is_told_of() -> None:
    servicer = Servicer()
    async with served(servicer) as (stub, _, _):
        waiting = call(stub, request_id="x")
        begun = await servicer.begun.get()
        waiting.cancel()
        await servicer.left.wait()
        assert begun.cancelled()


async def test_a_call_whose_deadline_comes_counts_as_left() -> None:
    servicer = Servicer()
    async with served(servicer) as (stub, _, _):
        ending = await error_of(call(stub, request_id="x", timeout=0.2))
        await servicer.left.wait()
    assert ending[0] == grpc.StatusCode.DEADLINE_EXCEEDED


async def test_an_answer_taken_back_inside_ends_as_cancelled() -> None:
    servicer = Servicer()
    async with served(servicer) as (stub, _, _):
        waiting = call(stub, request_id="x")
        (await servicer.begun.get()).cancel()
        assert await error_of(waiting) == (grpc.StatusCode.CANCELLED, "Cancelled")


async def test_a_server_that_stops_waits_for_what_has_begun() -> None:
    servicer = Servicer()
    async with served(servicer) as (stub, _, server):
        waiting, last = call(stub, request_id="x"), call(stub, request_id="y")
        begun = [await servicer.begun.get(), await servicer.begun.get()]
        by_name = dict(zip([name for name, _, _ in servicer.seen], begun, strict=True))
        stopping = asyncio.ensure_future(server.stop(30))
        refused = await error_of(call(stub, request_id="late"))
        by_name["x"].set_result(Response(request_id="in time"))
        assert (await waiting).request_id == "in time"
        assert not stopping.done()
        last.cancel()
        await stopping
    assert refused == (grpc.StatusCode.UNAVAILABLE, "Server is shutting down")
