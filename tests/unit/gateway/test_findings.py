"""What the deterministic simulation found, each pinned by itself."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headway.errors import Cancelled
from headway.gateway.idempotency import IdempotencyWindow
from headway.gateway.servicer import InferenceServicer
from headway.gateway.stream_replica import StreamReplica
from headway.rpc.interceptors import Caller, guard
from headway.v1 import inference_pb2, types_pb2
from headway.worker.patience import within


def test_an_output_that_comes_in_one_message_leaves_a_gap_to_divide_by() -> None:
    # lane_ns divided by it: requests for outputs ended as INTERNAL.
    replica = StreamReplica(replica=None)  # type: ignore[arg-type]  # it is not asked
    for _ in range(3):
        replica.learn_gap(output_units=8, writing_ns=0)
    assert replica.gap_ns == 1.0


async def test_a_retry_does_not_join_an_execution_whose_last_caller_has_just_left() -> None:
    loop = asyncio.get_running_loop()
    window = IdempotencyWindow(lambda: 0)
    caller = Caller("t", 0)
    request = inference_pb2.InferRequest(idempotency_key="k", input=types_pb2.Input(text="a"))
    submitted: list[Any] = []

    def submit() -> Any:
        submitted.append(SimpleNamespace(future=loop.create_future()))
        return submitted[-1]

    def once() -> Any:
        return asyncio.ensure_future(window.once(request, caller, 9, submit, lambda pending: None))

    first = once()
    await turn()
    # The retry's turn comes before that of the callbacks of the end.
    retry = once()
    submitted[0].future.set_exception(Cancelled("the caller left"))
    await turn()
    with pytest.raises(Cancelled):
        await first
    assert len(submitted) == 2
    submitted[1].future.set_result(inference_pb2.InferResponse(request_id="second"))
    assert (await retry).request_id == "second"
    assert len(window) == 1


async def test_a_fault_in_one_request_of_a_stream_ends_that_one_with_internal() -> None:
    class Faulty:
        def submit(self, request: Any, *_: Any) -> Any:
            if request.request_id == "bad":
                raise ZeroDivisionError
            ended = asyncio.get_running_loop().create_future()
            ended.set_result(inference_pb2.InferResponse(request_id=request.request_id))
            return SimpleNamespace(future=ended)

    async def requests() -> Any:
        for number, name in enumerate(("bad", "good")):
            message = inference_pb2.InferManyRequest(id=number)
            message.request.request_id = name
            yield message

    servicer = InferenceServicer(Faulty(), catalog=None, max_inflight_per_stream=4)  # type: ignore[arg-type]
    guard(servicer, "s", ["InferMany"], lambda *_: Caller("t", 0))
    context = SimpleNamespace(
        time_remaining=lambda: 9.0, invocation_metadata=lambda: (), peer=lambda: "p"
    )
    answers = {a.id: a async for a in servicer.InferMany(requests(), context)}
    assert answers[0].error.code == 13
    assert answers[1].response.request_id == "good"


async def test_patience_that_ends_leaves_no_exception_behind() -> None:
    told: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: told.append(context))

    class Instant:
        def now_ns(self) -> int:
            return 0

        async def sleep(self, duration_ns: int) -> None:
            await turn()

    with pytest.raises(TimeoutError):
        await within(Instant(), 1, asyncio.gather(loop.create_future()))
    await turn()
    assert not told


async def turn() -> None:
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.call_soon(done.set_result, None)
    await done
