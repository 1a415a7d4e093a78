"""Copies of the control state stay like the store, through its losses."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from tests.support.fleet import turn
from tests.support.postgresql import PostgresServer

from headway.clock import Clock, SystemClock
from headway.errors import StoreUnavailable
from headway.store.bell import listening
from headway.store.engine import parse
from headway.store.follow import Follower
from headway.store.records import Author, ControlDelta, TenantRecord
from headway.store.store import Store
from headway.testing import ManualClock

OPS = Author("ops")
ALIKE_NS = 1_000_000_000


class Copy:
    """One gateway's view of a store."""

    def __init__(self, url: str, clock: Clock) -> None:
        self.store = Store(parse(url), timeout_s=2)
        self.tenants: set[str] = set()
        self.ups = 0
        self.changed = asyncio.Event()
        self.follower = Follower(
            self.store,
            clock,
            prepare=self.store.prepare,
            apply=self.take,
            on_up=self.came_up,
        )

    def take(self, delta: ControlDelta) -> None:
        if delta.full:
            self.tenants.clear()
        for name, record in delta.tenants.items():
            (self.tenants.add if record else self.tenants.discard)(name)
        self.changed.set()

    async def came_up(self) -> None:
        self.ups += 1
        self.changed.set()

    async def until(self, *tenants: str, ups: int = 1) -> None:
        while self.tenants != set(tenants) or self.ups < ups:
            self.changed.clear()
            await self.changed.wait()

    async def write(self, tenant: str) -> None:
        async with self.store.change(OPS, 1) as change:
            await change.put_tenant(TenantRecord(tenant), "create")


@contextlib.asynccontextmanager
async def following(url: str, clock: Clock | None = None) -> AsyncIterator[Copy]:
    copy = Copy(url, clock or SystemClock())
    task = asyncio.ensure_future(copy.follower.run())
    try:
        yield copy
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await copy.store.close()


async def until_it_waits(clock: ManualClock) -> None:
    """Returns once a follower has read all there is, or knows that there is nothing to read."""
    while clock.num_sleepers == 0:
        await turn()


async def test_a_change_through_one_gateway_reaches_another_within_1_s(store_url: str) -> None:
    clock = ManualClock()
    # PostgreSQL rings: no time goes by. SQLite is read five times a second.
    until_told_ns = 0 if parse(store_url).is_postgresql else 200_000_000
    async with following(store_url) as one, following(store_url, clock) as other:
        await one.until()
        await other.until()
        for number in range(3):
            await until_it_waits(clock)
            await one.write(f"t{number}")
            await clock.advance(until_told_ns)
            await other.until(*(f"t{n}" for n in range(number + 1)))
        await until_it_waits(clock)
        async with one.store.change(OPS, 2) as change:
            await change.delete_tenant("t1")
        await clock.advance(until_told_ns)
        await other.until("t0", "t2")


async def test_a_store_that_comes_late_is_followed_then(own_postgresql: PostgresServer) -> None:
    own_postgresql.stop()
    async with following(own_postgresql.url()) as copy:
        assert not copy.follower.up
        own_postgresql.start()
        await copy.until(ups=1)
        await copy.write("acme")
        await copy.until("acme")


async def test_copies_are_alike_again_within_1_s_of_the_stores_return(
    own_postgresql: PostgresServer,
) -> None:
    url, clock = own_postgresql.url(), ManualClock()
    async with following(url) as one, following(url, clock) as other:
        await one.until()
        await other.until()
        own_postgresql.stop()
        while one.follower.up or other.follower.up:
            await turn()
        await asyncio.to_thread(own_postgresql.start)
        await one.until(ups=2)
        await until_it_waits(clock)
        await one.write("acme")
        await clock.advance(ALIKE_NS)
        await other.until("acme", ups=2)


async def test_a_hung_server_is_noticed_and_its_return_too(own_postgresql: PostgresServer) -> None:
    async with following(own_postgresql.url()) as copy:
        await copy.until()
        own_postgresql.freeze()
        try:
            while copy.follower.up:
                await turn()
        finally:
            own_postgresql.thaw()
        await copy.until(ups=2)


class HeldClock:
    """The first sleep is over at once; the next one when a test says so."""

    def __init__(self) -> None:
        self.num_sleeps = 0
        self.second_began, self.second_ends = asyncio.Event(), asyncio.Event()

    def now_ns(self) -> int:
        return 0

    async def sleep(self, duration_ns: int) -> None:
        self.num_sleeps += 1
        if self.num_sleeps == 2:
            self.second_began.set()
            await self.second_ends.wait()
        elif self.num_sleeps > 2:
            await asyncio.get_running_loop().create_future()


async def test_a_server_that_answers_no_heartbeat_is_lost_by_the_clock_of_all_other_waits(
    own_postgresql: PostgresServer,
) -> None:
    """By that of the machine it was lost, where it was busy, to gateways whose clock is halted."""
    clock = HeldClock()
    store = Store(parse(own_postgresql.url()))
    with pytest.raises(StoreUnavailable):
        async with listening(store, clock) as bell:
            own_postgresql.freeze()
            try:
                ringing = asyncio.ensure_future(bell.ring())
                await clock.second_began.wait()
                clock.second_ends.set()
                await ringing
            finally:
                own_postgresql.thaw()
    await store.close()


async def test_a_server_that_answers_a_heartbeat_late_by_no_clock_of_ours_is_not_lost(
    own_postgresql: PostgresServer,
) -> None:
    clock = HeldClock()
    store = Store(parse(own_postgresql.url()))
    async with listening(store, clock) as bell:
        own_postgresql.freeze()
        try:
            ringing = asyncio.ensure_future(bell.ring())
            await clock.second_began.wait()
        finally:
            own_postgresql.thaw()
        await ringing
    await store.close()
