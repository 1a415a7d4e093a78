"""Quota is charged for requests that were shed; a cost above the burst says "retry later"."""

import asyncio

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from tests.support.fleet import (
    Refusal,
    RunningGateway,
    refusal,
    running_worker,
    text_request,
)
from tests.support.operating import ADMIN, CALLER, CLOSED, FLEET_TOKEN, closed_gateway

OPS = (("authorization", f"Bearer {ADMIN}"),)
ACME = (("authorization", f"Bearer {CALLER}"),)
ONE_AT_A_TIME = {"intercept_ms": 400, "jitter_ratio": 0, "max_requests": 1}
# 100 units at once, and practically none later.
QUOTA = {"units_per_second": 0.001, "burst_units": 100}


def whole_quota() -> str:
    """400 bytes: 100 units."""
    return "x" * 400


async def until_in_hand(running: RunningGateway, count: int) -> None:
    while running.gateway.scheduler.num_live() != count:
        await asyncio.to_thread(lambda: None)


async def refused(running: RunningGateway, **fields: object) -> Refusal:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await running.inference.Infer(text_request(**fields), metadata=ACME, timeout=10)
    return refusal(caught.value)


async def test_fault_41_quota_for_shed_work() -> None:
    tenants = {**CLOSED["tenants"], "acme": {**CLOSED["tenants"]["acme"], **QUOTA}}
    async with (
        closed_gateway(tenants=tenants) as running,
        running_worker(running, fleet_token=FLEET_TOKEN, runtime=ONE_AT_A_TIME, wait=False),
    ):
        await running.until_serving()
        busy = asyncio.ensure_future(
            running.inference.Infer(text_request(), metadata=OPS, timeout=10)
        )
        await until_in_hand(running, 1)
        # Expired in the queue, and taken back in the queue: neither has cost anything.
        late = await refused(running, text=whole_quota(), slo=Duration(nanos=50_000_000))
        assert late.reason in ("DEADLINE_EXPIRED", "DEADLINE_UNREACHABLE")
        left = running.inference.Infer(
            text_request(whole_quota(), request_id="left"), metadata=ACME, timeout=10
        )
        await until_in_hand(running, 2)
        short = await refused(running, text="one more")
        assert (short.reason, short.metadata["rule"]) == ("QUOTA_EXCEEDED", "quota")
        left.cancel()
        await until_in_hand(running, 1)
        await busy
        answer = await running.inference.Infer(
            text_request(whole_quota()), metadata=ACME, timeout=10
        )
        assert answer.usage.prompt_units == 100
        # More than the burst can never pass, and is not told to come back.
        never = await refused(running, text="x" * 404)
        assert never.code == grpc.StatusCode.INVALID_ARGUMENT
        assert (never.metadata["rule"], never.retry_ns) == ("burst", None)
