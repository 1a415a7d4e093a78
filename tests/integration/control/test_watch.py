"""Watching the state: one reading for all, bounded queues, snapshots for the slow."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

import pytest
from tests.support.fleet import running_gateway, running_worker
from tests.support.operating import operator

from headway import errors
from headway.gateway.state_feed import QUEUE_LIMIT, StateFeed
from headway.testing import ManualClock
from headway.v1 import control_pb2

SECOND_NS = 1_000_000_000
Message = control_pb2.WatchStateResponse


class Source:
    """A state that tests change."""

    def __init__(self) -> None:
        self.live = 0
        self.names: set[str] = set()

    def read(self) -> control_pb2.State:
        replicas = [control_pb2.ReplicaState(replica=name) for name in sorted(self.names)]
        return control_pb2.State(
            gateway=control_pb2.GatewayState(inflight_requests=self.live), replicas=replicas
        )


class View:
    """What a client makes of the messages it gets."""

    def __init__(self, messages: AsyncGenerator[Message, None]) -> None:
        self.messages = messages
        self.snapshots = 0
        self.received = 0
        self.live = -1
        self.names: set[str] = set()

    async def take(self) -> None:
        message = await anext(self.messages)
        self.received += 1
        if message.snapshot:
            self.snapshots += 1
            self.names.clear()
        if message.state.HasField("gateway"):
            self.live = message.state.gateway.inflight_requests
        self.names |= {replica.replica for replica in message.state.replicas}
        self.names -= set(message.removed_replicas)


@contextlib.asynccontextmanager
async def watching(feed: StateFeed, count: int, interval_ns: int) -> AsyncIterator[list[View]]:
    views = [View(feed.watch(interval_ns)) for _ in range(count)]
    for view in views:
        await view.take()
    yield views
    for view in views:
        await view.messages.aclose()


async def test_many_watchers_cost_one_reading_a_tick() -> None:
    clock, source = ManualClock(), Source()
    feed = StateFeed(source.read, clock, max_watchers=1000)
    async with watching(feed, 100, SECOND_NS) as views:
        reads = feed.num_reads
        assert reads == 100  # a snapshot each
        source.live = 7
        await clock.advance(2 * SECOND_NS)
        for view in views:
            await view.take()
        assert feed.num_reads - reads == 2
        assert {view.live for view in views} == {7}
    assert feed.num_watchers == 0
    reads = feed.num_reads
    await clock.advance(10 * SECOND_NS)
    assert feed.num_reads == reads  # nobody watches, nothing is read


async def test_a_quiet_state_sends_nothing() -> None:
    clock, source = ManualClock(), Source()
    feed = StateFeed(source.read, clock, max_watchers=10)
    async with watching(feed, 1, SECOND_NS) as (view,):
        waiting = asyncio.ensure_future(view.take())
        await clock.advance(5 * SECOND_NS)
        assert not waiting.done()
        source.names.add("w1")
        await clock.advance(2 * SECOND_NS)
        await waiting
        assert (view.received, view.names) == (2, {"w1"})


async def test_a_watcher_that_joins_between_ticks_misses_nothing() -> None:
    clock, source = ManualClock(), Source()
    feed = StateFeed(source.read, clock, max_watchers=10)
    async with watching(feed, 1, SECOND_NS) as (first,):
        await clock.advance(SECOND_NS // 2)
        source.names.add("brief")
        async with watching(feed, 1, SECOND_NS) as (second,):
            assert second.names == {"brief"}
            source.names.discard("brief")
            source.live = 1
            await clock.advance(2 * SECOND_NS)
            for view in (first, second):
                await view.take()
                assert (view.names, view.live) == (set(), 1)


async def test_a_slow_watcher_gets_a_new_snapshot_and_holds_nobody_up() -> None:
    clock, source = ManualClock(), Source()
    feed = StateFeed(source.read, clock, max_watchers=10)
    async with watching(feed, 2, SECOND_NS) as (slow, quick):
        for number in range(3 * QUEUE_LIMIT):
            source.live = number
            source.names = {f"w{number}"}
            await clock.advance(SECOND_NS)
            await quick.take()
        assert (quick.snapshots, quick.received) == (1, 3 * QUEUE_LIMIT + 1)
        await slow.take()
        assert (slow.snapshots, slow.received) == (2, 2)
        assert (slow.names, slow.live) == (quick.names, quick.live)
        source.names = set()
        await clock.advance(2 * SECOND_NS)
        await slow.take()
        assert slow.names == set()


async def test_watchers_are_bounded() -> None:
    async with running_gateway(max_watchers=2) as running, operator(running) as control:
        first, second = control.watch(), control.watch()
        assert (await anext(first)).snapshot
        assert (await anext(second)).snapshot
        with pytest.raises(errors.Overloaded) as caught:
            async with operator(running) as other, contextlib.aclosing(other.watch()) as third:
                await anext(third)
        assert caught.value.retry_after_ns == 10 * SECOND_NS
        await first.aclose()
        while running.gateway.feed.num_watchers == 2:
            await asyncio.to_thread(lambda: None)
        third = control.watch()
        assert (await anext(third)).snapshot
        await third.aclose()
        await second.aclose()


async def test_too_short_an_interval_is_refused() -> None:
    async with running_gateway() as running, operator(running) as control:
        with pytest.raises(errors.InvalidRequest, match=r"at least 0\.1 s"):
            await anext(control.watch(0.01))


async def test_every_watcher_of_a_live_gateway_sees_a_worker_come_and_go() -> None:
    async with running_gateway() as running, operator(running) as control:
        views = [View(control.watch(0.1)) for _ in range(20)]
        for view in views:
            await view.take()
        async with running_worker(running):
            for view in views:
                while view.names != {"w1/sim/v1"}:
                    await view.take()
        for view in views:
            while view.names:
                await view.take()
            await view.messages.aclose()
