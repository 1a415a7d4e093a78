"""A client's retry with the same key is not executed twice."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from tests.support.fleet import (
    RunningGateway,
    refusal,
    running_gateway,
    running_worker,
    text_request,
    until_executing,
    until_live,
)

from headway.v1 import control_pb2

SLOW = {"intercept_ms": 200, "jitter_ratio": 0}


async def num_batches(running: RunningGateway) -> int:
    state = await running.control.GetState(control_pb2.GetStateRequest(), timeout=5)
    return sum(replica.completed_batches for replica in state.state.replicas)


@contextlib.asynccontextmanager
async def asked_twice(transport: str) -> AsyncIterator[tuple[RunningGateway, Any, Any]]:
    """A call that executes, and another with its key."""
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, runtime=SLOW),
    ):
        request = text_request(idempotency_key="k")
        first = running.inference.Infer(request, timeout=10)
        await until_executing(running)
        yield running, first, running.inference.Infer(request, timeout=10)


async def test_a_retry_joins_the_execution_in_flight(transport: str) -> None:
    async with asked_twice(transport) as (running, first, second):
        answers = await asyncio.gather(first, second)
        assert answers[0] == answers[1]
        assert await num_batches(running) == 1


async def test_a_retry_after_the_answer_gets_it_again(transport: str) -> None:
    async with running_gateway(transport=transport) as running, running_worker(running):
        request = text_request(idempotency_key="k")
        answers = [await running.inference.Infer(request, timeout=10) for _ in range(3)]
        assert answers[0] == answers[1] == answers[2]
        assert await num_batches(running) == 1


async def test_another_request_under_the_same_key_is_refused(transport: str) -> None:
    async with running_gateway(transport=transport) as running, running_worker(running):
        await running.inference.Infer(text_request("one", idempotency_key="k"), timeout=10)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.inference.Infer(text_request("two", idempotency_key="k"), timeout=10)
        told = refusal(caught.value)
        assert (told.reason, told.field) == ("INVALID_REQUEST", "idempotency_key")


async def test_the_first_caller_may_leave_and_the_second_is_answered(transport: str) -> None:
    async with asked_twice(transport) as (running, first, second):
        # Calls of one connection arrive in order: when this one is there, the second is.
        last = running.inference.Infer(text_request(), timeout=10)
        await until_live(running, 2)
        first.cancel()
        assert (await second).replica == "w1"
        await last
        assert await num_batches(running) == 2


async def test_when_all_callers_leave_the_work_is_stopped(transport: str) -> None:
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, runtime={"failures": {"hang": 1}}),
    ):
        call = running.inference.Infer(text_request(idempotency_key="k"), timeout=60)
        await until_executing(running)
        call.cancel()
        await until_live(running, 0)
        await until_executing(running, 0)


async def test_a_failed_request_is_executed_again(transport: str) -> None:
    async with (
        running_gateway(transport=transport, max_attempts=1) as running,
        running_worker(running, runtime={"failures": {"fail": 1}}),
    ):
        for _ in range(2):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await running.inference.Infer(text_request(idempotency_key="k"), timeout=10)
            assert refusal(caught.value).reason == "UPSTREAM_FAILURE"
        state = await running.control.GetState(control_pb2.GetStateRequest(), timeout=5)
        assert [r.failed_batches for r in state.state.replicas] == [2]
