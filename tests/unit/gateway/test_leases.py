"""Leases of workers, as a gateway sees them that does not always get to run."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from headway.gateway.fleet import Fleet
from headway.gateway.settings import GatewaySettings
from headway.gateway.wiring import wire
from headway.rng import SeedTree
from headway.v1 import fleet_pb2, types_pb2

SECOND = 1_000_000_000
TURN = 3 * SECOND // 4
"""Leases of 3 s are looked at four times each."""


class LateClock:
    """Sleeps of a turn are over at once, as late as they are told to be; others never are.

    Attributes:
      late_ns: of the next sleeps of a turn, in order; with none left, they never end.
      meanwhile: called as each sleep begins.
    """

    def __init__(self) -> None:
        self._now_ns = 0
        self.late_ns: list[int] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.done = asyncio.Event()

    def now_ns(self) -> int:
        return self._now_ns

    async def sleep(self, duration_ns: int) -> None:
        if duration_ns == TURN and self.late_ns:
            self.meanwhile()
            self._now_ns += duration_ns + self.late_ns.pop(0)
            return
        if duration_ns == TURN:
            self.done.set()
        await asyncio.get_running_loop().create_future()


@contextlib.asynccontextmanager
async def fleet_of_one(clock: LateClock) -> AsyncIterator[tuple[Fleet, str]]:
    """A fleet whose only worker has just registered, and its lease."""
    settings = GatewaySettings(insecure_no_auth=True, store={"url": "sqlite://"}, lease_seconds=3)
    fleet = wire(settings, clock, SeedTree(1), asyncio.get_running_loop()).fleet
    worker = fleet.register(
        fleet_pb2.RegisterRequest(
            worker_id="w1",
            instance_id="i1",
            address="127.0.0.1:9",
            models=[types_pb2.ModelCard(model="sim", version="v1")],
        )
    )
    yield fleet, worker.lease_id
    await fleet.close()


async def watch(fleet: Fleet, clock: LateClock, late_ns: list[int]) -> None:
    """Looks after the leases for so many sleeps."""
    clock.late_ns = late_ns
    watching = asyncio.ensure_future(fleet.watch_leases())
    await clock.done.wait()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_a_gateway_that_stood_still_hears_its_workers_before_it_lets_them_go() -> None:
    """All were let go at once, with their heartbeats unread: nothing was served."""
    clock = LateClock()
    async with fleet_of_one(clock) as (fleet, lease_id):

        def heartbeat_once_it_runs_again() -> None:
            if clock.now_ns() > 60 * SECOND:
                fleet.heartbeat(fleet_pb2.HeartbeatRequest(lease_id=lease_id))

        clock.meanwhile = heartbeat_once_it_runs_again
        await watch(fleet, clock, [0, 60 * SECOND, 0, 0])
        assert list(fleet.workers) == ["w1"]


@pytest.mark.parametrize(
    ("late_ns", "what"),
    [
        ([0] * 4, "a silent worker goes as its lease ends"),
        ([0, 60 * SECOND, 0], "one turn more is all that it has"),
        ([60 * SECOND] * 2, "nor has it another where every turn is late"),
    ],
)
async def test_a_silent_worker_goes(late_ns: list[int], what: str) -> None:
    clock = LateClock()
    async with fleet_of_one(clock) as (fleet, _):
        await watch(fleet, clock, late_ns)
        assert not fleet.workers, what
