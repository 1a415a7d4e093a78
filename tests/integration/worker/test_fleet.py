"""A worker joins gateways, and joins them again after any loss. Over real gRPC."""

import asyncio

import pytest
from tests.integration.worker.peers import (
    HANGING,
    FleetDouble,
    running_fleet,
    running_worker,
    session,
    text_item,
)

from headway.testing import ManualClock
from headway.v1 import fleet_pb2

READY = fleet_pb2.WORKER_STATE_READY
DRAINING = fleet_pb2.WORKER_STATE_DRAINING


async def test_it_says_what_it_is() -> None:
    async with (
        running_fleet() as fleet,
        running_worker(
            gateways=[fleet.address],
            fleet_token="secret",
            labels={"zone": "a"},
            max_outstanding_batches=2,
        ) as worker,
    ):
        request = await fleet.registered.get()
        assert request.worker_id == "w1"
        assert request.address == worker.addresses["worker"]
        assert request.fleet_token == "secret"
        assert request.max_outstanding_batches == 2
        assert dict(request.labels) == {"zone": "a"}
        assert [(card.model, card.version) for card in request.models] == [("sim", "v1")]
        assert request.software_version


async def test_it_says_how_it_is() -> None:
    async with (
        running_fleet() as fleet,
        running_worker(
            gateways=[fleet.address], models=[{"model": "sim", "runtime": HANGING}]
        ) as worker,
        session(worker.addresses["worker"]) as gateway,
    ):
        first = await fleet.heartbeats.get()
        assert (first.lease_id, first.state, first.outstanding_batches) == ("lease-1", READY, 0)
        assert [(m.model, m.version, m.ready) for m in first.models] == [("sim", "v1", True)]
        await gateway.execute(1, [text_item(1, "five!"), text_item(2, "four")])
        busy = await fleet.heartbeat_such_that(lambda beat: beat.outstanding_batches == 1)
        assert busy.outstanding_units == 3


async def test_it_joins_every_gateway() -> None:
    async with running_fleet() as one, running_fleet() as other:
        async with running_worker(gateways=[one.address, other.address]):
            assert (await one.registered.get()).worker_id == "w1"
            assert (await other.registered.get()).worker_id == "w1"
            for fleet in (one, other):
                await fleet.heartbeats.get()
        assert await one.deregistered.get() == "lease-1"
        assert await other.deregistered.get() == "lease-1"


async def test_an_unknown_lease_makes_it_register_again() -> None:
    # Known fault 33: a gateway forgot a worker that was silent.
    async with running_fleet() as fleet, running_worker(gateways=[fleet.address]):
        await fleet.heartbeats.get()
        fleet.known.clear()
        await fleet.registered.get()
        await fleet.registered.get()
        beat = await fleet.heartbeat_such_that(lambda beat: beat.lease_id == "lease-2")
        assert beat.state == READY


async def test_it_comes_back_after_a_gateway_restarts() -> None:
    # Known fault 33.
    first = FleetDouble()
    await first.start()
    async with running_worker(gateways=[first.address]):
        await first.heartbeats.get()
        await first.stop()
        async with running_fleet(port=first.port) as second:
            assert (await second.registered.get()).worker_id == "w1"
            await second.heartbeats.get()


async def test_it_waits_for_a_gateway_that_is_not_there_yet() -> None:
    absent = FleetDouble()
    await absent.start()
    await absent.stop()
    async with running_worker(gateways=[absent.address]):
        async with running_fleet(port=absent.port) as fleet:
            assert (await fleet.registered.get()).worker_id == "w1"


async def test_a_silent_gateway_is_left_when_the_lease_is_over() -> None:
    clock = ManualClock()
    async with (
        running_fleet(silent=True) as fleet,
        running_worker(clock, gateways=[fleet.address]),
    ):
        await fleet.registered.get()
        await fleet.heartbeats.get()
        fleet.silent = False
        # The lease is 5 s; then comes the backoff of at most 0.15 s.
        await clock.advance(5_200_000_000)
        await fleet.registered.get()
        await fleet.heartbeat_such_that(lambda beat: beat.lease_id == "lease-2")


async def test_a_restart_with_another_address_is_registered() -> None:
    # Known fault 34.
    async with running_fleet() as fleet:
        instances = []
        for advertise in (None, "worker.example:7000", "worker.example:0"):
            async with running_worker(gateways=[fleet.address], advertise=advertise) as worker:
                request = await fleet.registered.get()
                bound = worker.addresses["worker"]
            port = bound.rpartition(":")[2]
            expected = {None: bound, "worker.example:0": f"worker.example:{port}"}
            assert request.address == expected.get(advertise, advertise)
            instances.append(request.instance_id)
        # The seed was the same; a new start is another instance all the same.
        assert len(set(instances)) == 3


async def test_a_drain_is_announced_and_then_it_leaves() -> None:
    async with (
        running_fleet(interval_ms=60_000) as fleet,
        running_worker(gateways=[fleet.address]) as worker,
    ):
        await fleet.heartbeats.get()
        draining = asyncio.ensure_future(worker.drain())
        # At once, though a heartbeat would be due in a minute only.
        beat = await fleet.heartbeat_such_that(lambda beat: beat.state == DRAINING)
        assert [model.ready for model in beat.models] == [False]
        assert await fleet.deregistered.get() == "lease-1"
        await draining


async def test_an_operators_drain_leaves_the_worker_as_it_is() -> None:
    async with (
        running_fleet() as fleet,
        running_worker(gateways=[fleet.address]) as worker,
        session(worker.addresses["worker"]) as gateway,
    ):
        fleet.drain = True
        await fleet.heartbeats.get()
        await gateway.execute(1, [text_item(1, "x")])
        assert (await gateway.result()).items[0].status == 1
        beat = await fleet.heartbeats.get()
        assert beat.state == READY


@pytest.mark.parametrize("num_losses", [1, 3])
async def test_it_never_gives_up(num_losses: int) -> None:
    async with running_fleet(forgetful=num_losses) as fleet:
        async with running_worker(gateways=[fleet.address]):
            await fleet.heartbeat_such_that(lambda beat: beat.lease_id == f"lease-{num_losses + 1}")
