"""Several gateways on one store are alike, whichever is asked.

PostgreSQL tells them, so that no time goes by: their clock is halted meanwhile. SQLite is asked
five times a second; `tests/integration/store/test_follow.py` holds them to that in counted time.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from tests.support.fleet import RunningGateway, running_worker, text_request
from tests.support.halting import HaltingClock
from tests.support.operating import (
    FLEET_TOKEN,
    caller,
    closed_gateway,
    operator,
    until_store,
)

from headway import errors
from headway.client import Client, ControlClient, ManyStream
from headway.store.engine import parse
from headway.v1 import control_pb2


@contextlib.asynccontextmanager
async def two_gateways(store_url: str) -> AsyncIterator[tuple[RunningGateway, RunningGateway]]:
    clock = HaltingClock()
    async with (
        closed_gateway(store_url, clock=clock, gateway_id="one") as one,
        closed_gateway(store_url, clock=clock, gateway_id="other") as other,
        running_worker(one, other, worker_id="w1", fleet_token=FLEET_TOKEN, wait=False),
        running_worker(
            one, other, worker_id="w2", version="v2", fleet_token=FLEET_TOKEN, wait=False
        ),
    ):
        for running in (one, other):
            for pool in ("sim/v1", "sim/v2"):
                await running.until_serving(pool)
            await until_store(running, up=True)
        with clock.halted() if parse(store_url).is_postgresql else contextlib.nullcontext():
            yield one, other


async def until_refused(client: Client | ManyStream, **expected: str) -> None:
    with pytest.raises(errors.Unauthenticated):
        while True:
            # Who asks without pause soon has no quota left, which is known of a good key only.
            with contextlib.suppress(errors.QuotaExceeded):
                await client.infer(text_request(), timeout_s=5)


async def until_known(client: Client) -> None:
    while True:
        with contextlib.suppress(errors.Unauthenticated):
            await client.infer(text_request(), timeout_s=5)
            return


async def test_a_revoked_key_stops_on_every_gateway(store_url: str) -> None:
    async with two_gateways(store_url) as (one, other), operator(one) as control:
        key = await control.create_key("acme")
        many = ManyStream(other.addresses["data"], api_key=key.secret)
        async with caller(one, key.secret) as here, caller(other, key.secret) as there:
            await until_known(here)
            await until_known(there)
            await many.infer(text_request(), timeout_s=5)
            await control.revoke_key(key.key.key_id)
            await asyncio.gather(until_refused(here), until_refused(there), until_refused(many))
        await many.close()


async def until_split(control: ControlClient, shares: dict[str, float]) -> None:
    while True:
        split = await control.split("sim")
        if {share.version: share.share for share in split.shares} == shares:
            return


async def until_condition(
    control: ControlClient, worker_id: str, condition: "control_pb2.ReplicaCondition"
) -> None:
    while True:
        for replica in await control.replicas("sim"):
            if replica.worker_id == worker_id and replica.condition == condition:
                return


async def test_splits_and_drains_are_the_same_everywhere(store_url: str) -> None:
    async with (
        two_gateways(store_url) as (one, other),
        operator(one) as here,
        operator(other) as there,
    ):
        await here.set_split("sim", {"v2": 0.75, "v1": 0.25})
        await until_split(there, {"v2": 0.75, "v1": 0.25})
        await there.drain("w2")
        await until_condition(here, "w2", control_pb2.REPLICA_CONDITION_DRAINING)
        await here.undrain("w2")
        await until_condition(there, "w2", control_pb2.REPLICA_CONDITION_READY)


async def test_a_split_is_refused_where_another_gateways_rollout_is_not_known_yet(
    store_url: str,
) -> None:
    """It was asked of the copy in memory: the split of a rollout just begun was overwritten."""
    async with (
        two_gateways(store_url) as (one, other),
        operator(one) as here,
        operator(other) as there,
    ):
        rollout = await here.start_rollout("sim", "v2")
        with pytest.raises(errors.FailedPrecondition, match="divides the traffic of sim"):
            await there.set_split("sim", {"v1": 0.5, "v2": 0.5})
        await here.abort_rollout(rollout.rollout_id)
        await there.set_split("sim", {"v1": 0.5, "v2": 0.5})
        await until_split(here, {"v1": 0.5, "v2": 0.5})


async def test_a_restarted_gateway_and_a_returning_worker_know_what_operators_did(
    store_url: str,
) -> None:
    async with (
        closed_gateway(store_url) as running,
        running_worker(running, fleet_token=FLEET_TOKEN, wait=False),
        operator(running) as control,
    ):
        await running.until_serving()
        await control.set_split("sim", {"v1": 1.0})
        await control.drain("w1")
    async with (
        closed_gateway(store_url) as running,
        running_worker(running, fleet_token=FLEET_TOKEN, wait=False),
        operator(running) as control,
    ):
        await until_condition(control, "w1", control_pb2.REPLICA_CONDITION_DRAINING)
        split = await control.split("sim")
        assert split.source == control_pb2.TRAFFIC_SPLIT_SOURCE_OPERATOR


async def test_one_gateway_leads_and_another_takes_over(store_url: str) -> None:
    async with closed_gateway(store_url, gateway_id="other") as other:
        async with closed_gateway(store_url, gateway_id="one") as one:
            async with asyncio.timeout(10):
                while not (other.gateway.store.election.leads()):
                    await asyncio.to_thread(lambda: None)
            assert not one.gateway.store.election.leads()
            leader = other.gateway.state.read().gateway
            assert leader.store.leader
            await other.process.stop()
            async with asyncio.timeout(10):
                while not one.gateway.store.election.leads():
                    await asyncio.to_thread(lambda: None)


async def test_registrations_are_kept_for_people_to_look_at(store_url: str) -> None:
    from headway.store.store import Store

    store = Store(parse(store_url))
    async with (
        closed_gateway(store_url, gateway_id="one") as running,
        running_worker(running, fleet_token=FLEET_TOKEN, wait=False),
    ):
        await running.until_serving()
        async with asyncio.timeout(10):
            while not await store.registrations():
                pass
        (kept,) = await store.registrations()
        assert (kept.worker_id, kept.models, kept.gateway_id) == ("w1", (("sim", "v1"),), "one")
    await store.close()
