"""The store goes away under load: inference does not notice, operators are told."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from tests.support.fleet import RunningGateway, running_worker, text_request
from tests.support.halting import HaltingClock
from tests.support.operating import (
    CALLER,
    FLEET_TOKEN,
    caller,
    closed_gateway,
    operator,
    until_store,
)
from tests.support.postgresql import PostgresServer

from headway import errors
from headway.client import RetryPolicy
from headway.v1 import control_pb2

ONCE = RetryPolicy(max_attempts=1)


class Load:
    """Requests one after the other, until told to stop."""

    def __init__(self) -> None:
        self.answered = 0
        self.stopping = False

    async def run(self, running: RunningGateway) -> None:
        async with caller(running, CALLER) as client:
            while not self.stopping:
                await client.infer(text_request(), timeout_s=10)
                self.answered += 1

    async def more(self, count: int) -> None:
        wanted = self.answered + count
        while self.answered < wanted:
            await asyncio.to_thread(lambda: None)


@contextlib.asynccontextmanager
async def loaded(*gateways: RunningGateway) -> AsyncIterator[Load]:
    """Ends with the first failure of any request."""
    load = Load()
    tasks = [asyncio.ensure_future(load.run(running)) for running in gateways]
    try:
        yield load
    finally:
        load.stopping = True
        await asyncio.gather(*tasks)


async def test_no_request_fails_while_the_store_is_away_and_changes_say_so(
    own_postgresql: PostgresServer,
) -> None:
    url, clock = own_postgresql.url(), HaltingClock()
    async with (
        closed_gateway(url, clock=clock) as one,
        closed_gateway(url, clock=clock) as other,
        running_worker(one, other, fleet_token=FLEET_TOKEN, wait=False),
        operator(one, retry=ONCE) as here,
        operator(other, retry=ONCE) as there,
    ):
        for running in (one, other):
            await running.until_serving()
        # Quotas of the configuration would stop an unpaced load.
        await here.update_tenant(control_pb2.Tenant(tenant="acme"))
        await until_unlimited(there)
        async with loaded(one, other) as load:
            await load.more(50)
            await asyncio.to_thread(own_postgresql.stop)
            for running in (one, other):
                await until_store(running, up=False)
            await load.more(200)
            for act in (
                here.create_tenant(control_pb2.Tenant(tenant="globex")),
                here.create_key("acme"),
                here.set_split("sim", {"v1": 1.0}),
                here.drain("w1"),
                here.audit(),
            ):
                with pytest.raises(errors.StoreUnavailable) as caught:
                    await act
                assert caught.value.retry_after_ns == 300_000_000
            # Nothing changed, reading goes on, and what needs no store works.
            assert [t.tenant for t in await here.tenants()] == ["acme", "ops"]
            assert [r.worker_id for r in await there.replicas()] == ["w1"]
            await here.set_log_level("info", "headway.gateway.fleet")
            assert (await here.state()).gateway.store.waiting_entries == 1
            await load.more(200)
            await asyncio.to_thread(own_postgresql.start)
            # How soon is in test_follow, in counted time.
            await asyncio.gather(until_store(one, up=True), until_store(other, up=True))
            with clock.halted():
                await here.create_tenant(control_pb2.Tenant(tenant="globex"))
                while "globex" not in [t.tenant for t in await there.tenants()]:
                    pass
            await load.more(50)
        assert "log_level" in [entry.kind for entry in await here.audit()]


async def until_unlimited(control: object) -> None:
    from headway.client import ControlClient

    assert isinstance(control, ControlClient)
    while any(t.units_per_second for t in await control.tenants() if t.tenant == "acme"):
        pass


async def test_a_store_that_hangs_is_as_good_as_away(own_postgresql: PostgresServer) -> None:
    async with (
        closed_gateway(own_postgresql.url(), store_timeout_s=2) as running,
        running_worker(running, fleet_token=FLEET_TOKEN, wait=False),
        operator(running, retry=ONCE) as control,
        caller(running, CALLER) as client,
    ):
        await running.until_serving()
        own_postgresql.freeze()
        try:
            with pytest.raises(errors.StoreUnavailable):
                await control.drain("w1")
            await client.infer(text_request(), timeout_s=5)
            await until_store(running, up=False)
        finally:
            own_postgresql.thaw()
        await until_store(running, up=True)
        await control.drain("w1")


async def test_a_gateway_that_starts_without_its_store_serves_the_configurations_tenants(
    own_postgresql: PostgresServer,
) -> None:
    own_postgresql.stop()
    unknown = "hw_Unknown1_" + "u" * 43
    async with (
        closed_gateway(own_postgresql.url()) as running,
        running_worker(running, fleet_token=FLEET_TOKEN, wait=False),
        caller(running, CALLER) as client,
        caller(running, unknown) as stranger,
        operator(running) as control,
    ):
        await running.until_serving()
        await client.infer(text_request(), timeout_s=5)
        # It may be a key of the store: "come back", not "you are nobody".
        with pytest.raises(errors.StoreUnavailable):
            await stranger.infer(text_request(), timeout_s=5)
        await asyncio.to_thread(own_postgresql.start)
        await until_store(running, up=True)
        with pytest.raises(errors.Unauthenticated):
            await stranger.infer(text_request(), timeout_s=5)
        await control.create_tenant(control_pb2.Tenant(tenant="globex"))
