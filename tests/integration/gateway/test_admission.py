"""Limits, tenants' queues and displacement on a live fleet, as callers and operators see them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import grpc
import pytest
from tests.support.fleet import (
    Refusal,
    RunningGateway,
    refusal,
    running_gateway,
    running_worker,
    text_request,
)
from tests.support.operating import ADMIN, CALLER, FLEET_TOKEN, caller, closed_gateway, operator

from headway import errors
from headway.gateway.settings import GatewaySettings
from headway.v1 import types_pb2

CRITICAL = types_pb2.PRIORITY_CRITICAL
SHEDDABLE = types_pb2.PRIORITY_SHEDDABLE
ONE_AT_A_TIME = {"intercept_ms": 300, "jitter_ratio": 0, "max_requests": 1}


async def until_in_hand(running: RunningGateway, count: int) -> None:
    while running.gateway.scheduler.num_live() != count:
        await asyncio.to_thread(lambda: None)


async def refused(running: RunningGateway, **fields: Any) -> Refusal:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await running.inference.Infer(text_request(**fields), timeout=10)
    return refusal(caught.value)


@asynccontextmanager
async def slow_fleet(**changes: Any) -> AsyncIterator[RunningGateway]:
    """A gateway and one replica that takes 300 ms for each request."""
    async with (
        running_gateway(**changes) as running,
        running_worker(running, runtime=ONE_AT_A_TIME),
    ):
        yield running


async def test_the_limit_refuses_and_says_by_what_numbers() -> None:
    limit = {"limit": {"initial": 1, "min": 1, "max": 1}}
    async with slow_fleet(admission=limit) as running:
        first = running.inference.Infer(text_request(), timeout=10)
        await until_in_hand(running, 1)
        told = await refused(running)
        assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "OVERLOADED")
        assert told.message.startswith("sim has 1 requests in hand, of at most 1; retry in ")
        assert told.retry_ns is not None and told.retry_ns > 0
        seen = {name: told.metadata[name] for name in ("rule", "limit_requests",
                                                       "inflight_requests")}  # fmt: skip
        assert seen == {"rule": "limit", "limit_requests": "1", "inflight_requests": "1"}
        await first


async def test_a_critical_request_takes_the_place_of_a_sheddable_one() -> None:
    async with slow_fleet(max_queued_requests=1) as running, operator(running, None) as control:
        running_now = asyncio.ensure_future(running.inference.Infer(text_request(), timeout=10))
        while not running.gateway.scheduler.num_executing():
            await asyncio.to_thread(lambda: None)
        low = asyncio.ensure_future(refused(running, priority=SHEDDABLE, request_id="low"))
        await until_in_hand(running, 2)
        high = asyncio.ensure_future(
            running.inference.Infer(text_request(priority=CRITICAL), timeout=10)
        )
        told = await low
        assert not running_now.done(), "it is told at once"
        assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "OVERLOADED")
        assert told.metadata["rule"] == "displaced"
        assert told.retry_ns == 100_000_000
        full = await refused(running, priority=SHEDDABLE)
        assert (full.reason, full.metadata["rule"]) == ("QUEUE_FULL", "queue")
        await asyncio.gather(running_now, high)
        pool = (await control.state()).pools[0]
        assert (pool.displaced.critical, pool.displaced.sheddable) == (0, 1)
        story = "\n".join((await control.explain("low")).sentences)
        assert "its place in the queue went to a request of a higher class" in story
        metrics = await scrape(running)
        labels = 'model="sim",version="v1"'
        assert f'headway_displaced_requests_total{{class="sheddable",{labels}}} 1.0' in metrics
        refusals = f'headway_refusals_total{{class="sheddable",{labels.split(",")[0]},'
        assert f'{refusals}reason="QUEUE_FULL",version="v1"}} 1.0' in metrics
        assert f"headway_inflight_limit{{{labels}}} 10000.0" in metrics


async def scrape(running: RunningGateway) -> str:
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://{running.addresses['http']}/metrics") as response:
            return await response.text()


async def test_a_tenant_has_no_more_queued_than_it_may() -> None:
    bound = {"max_queued_requests_per_tenant": 1}
    async with (
        closed_gateway(admission=bound) as running,
        running_worker(running, fleet_token=FLEET_TOKEN, runtime=ONE_AT_A_TIME, wait=False),
        caller(running, CALLER) as acme,
        caller(running, ADMIN) as ops,
    ):
        await running.until_serving()
        executing = asyncio.ensure_future(acme.infer(text_request(), timeout_s=10))
        while not running.gateway.scheduler.num_executing():
            await asyncio.to_thread(lambda: None)
        queued = asyncio.ensure_future(acme.infer(text_request(), timeout_s=10))
        await until_in_hand(running, 2)
        with pytest.raises(errors.QuotaExceeded, match="wait for answers before sending") as caught:
            await acme.infer(text_request(), timeout_s=10)
        assert caught.value.metadata["rule"] == "tenant_queue"
        await asyncio.gather(executing, queued, ops.infer(text_request(), timeout_s=10))


async def test_an_explanation_has_the_numbers_of_admission() -> None:
    async with (
        closed_gateway() as running,
        running_worker(running, fleet_token=FLEET_TOKEN, wait=False),
        caller(running, CALLER) as acme,
        operator(running) as control,
    ):
        await running.until_serving()
        await acme.infer(text_request("x" * 40, request_id="mine"), timeout_s=5)
        told = await control.explain("mine")
        seen = told.record.admission
        assert (seen.limit, seen.inflight, seen.reserved) == (10_000, 0, 0)
        # 1,000 units a second and two seconds' worth: the bucket was full.
        assert seen.tenant_units == 2000
        assert (seen.share_ratio, seen.weight_part) == (0, 1)
        (sentence,) = [line for line in told.sentences if line.startswith("Its tenant")]
        assert sentence == (
            "Its tenant then had 2,000 units left of its quota, 0 requests queued, and of the "
            "recent device time 0.00 times its fair share; 0 of at most 10,000 requests were in "
            "hand for that version."
        )


async def test_idle_tenants_make_room_and_come_back() -> None:
    tight = {"max_active_tenants": 1, "fair_share_seconds": 0.5}
    async with (
        closed_gateway(admission=tight) as running,
        running_worker(running, fleet_token=FLEET_TOKEN, wait=False),
        caller(running, CALLER) as acme,
        caller(running, ADMIN) as ops,
    ):
        await running.until_serving()
        for client, other in ((acme, ops), (ops, acme), (acme, ops)):
            async with asyncio.timeout(10):
                while True:
                    try:
                        await client.infer(text_request(), timeout_s=5)
                        break
                    except errors.Overloaded as busy:
                        assert "admission.max_active_tenants" in busy.message
            with pytest.raises(errors.Overloaded):
                await other.infer(text_request(), timeout_s=5)


async def test_a_reload_changes_limits_of_live_pools() -> None:
    limits = [{"initial": 50, "min": 2, "max": 100}, {"initial": 20, "min": 2, "max": 30}]

    def load() -> GatewaySettings:
        settings: Any = {"insecure_no_auth": True, "admission": {"limit": limits[-1]}}
        return GatewaySettings(**settings)

    async with (
        running_gateway(load, admission={"limit": limits[0]}) as running,
        running_worker(running),
        operator(running, None) as control,
    ):
        assert (await control.state()).pools[0].inflight_limit == 50
        changed = running.gateway.reloader.reload()
        assert "gateway.admission.limit.max: 100 -> 30" in changed.changes
        # What it has learned stays, within the new bounds.
        assert (await control.state()).pools[0].inflight_limit == 30
