"""The loop of rollouts and operators, whose steps come between each other's in every way.

Each test holds back one answer of the ledger and lets somebody act meanwhile.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from tests.support.held_ledger import HeldLedger

from headway._core import Scheduler
from headway.errors import StoreUnavailable
from headway.gateway.catalog import Catalog, Model
from headway.gateway.rollouts.service import Rollouts
from headway.gateway.settings import GatewaySettings
from headway.rollout import machine
from headway.store.records import Author, RolloutRecord
from headway.telemetry.gateway import GatewayMetrics, Gauges
from headway.testing.virtual import LoopClock, VirtualLoop
from headway.v1 import types_pb2

MS = 1_000_000
OPERATOR = Author("ops")
STEP = {"min_seconds": 0.5, "min_requests": 5, "max_error_rate": 1.0, "max_latency_ratio": 100,
        "max_seconds": 1, "on_inconclusive": "advance_if_clean"}  # fmt: skip
QUICK: dict[str, Any] = {
    "steps": [{"share": share, **STEP} for share in (0.1, 0.4, 0.9)],
    "analysis_seconds": 0.2,
    "tick_seconds": 0.1,
    "warmup_seconds": 0,
    "latency_tolerance": 50,
    "capacity": {"forecast": False},
}


class World:
    """A gateway's rollouts of two models on a held ledger, and traffic for their versions."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.clock = LoopClock(loop)
        settings = GatewaySettings(insecure_no_auth=True)
        self.catalog = Catalog(settings, Scheduler(seed=1, max_live=8), GatewayMetrics(Gauges))
        for model in ("a", "b"):
            for version in ("v1", "v2"):
                pool = self.catalog.host(types_pb2.ModelCard(model=model, version=version))
                pool.num_ready = 1
            self.catalog.override_split(self.catalog.models[model], ({"v1": 1.0, "v2": 0.0}, 2))
        self.ledger = HeldLedger(self.catalog)
        ledger: Any = self.ledger
        self.rollouts = Rollouts(self.catalog, ledger, self.clock, self._submit, gateway_id="g1")

    @staticmethod
    def _submit(request: Any, remaining_s: float) -> Any:
        raise AssertionError("no shadow step")

    async def start(self, model: str = "a") -> str:
        record = await self.rollouts.start(model, "v2", "", QUICK, OPERATOR)
        return record.rollout_id

    @contextlib.asynccontextmanager
    async def turning(self) -> AsyncIterator[None]:
        """The loop runs meanwhile."""
        running = asyncio.ensure_future(self.rollouts.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def settle(self) -> None:
        """All that waits for no answer and no tick has happened."""
        await self.clock.sleep(1)

    async def serve(self, until: Callable[[], bool], model: str = "a") -> None:
        """Good requests for both versions, every 20 ms, until something is so: for 60 s at most."""
        for _ in range(3000):
            if until():
                return
            await self.clock.sleep(20 * MS)
            for pool in self.catalog.models[model].versions.values():
                if pool.tap is not None:
                    for _ in range(4):
                        pool.tap.ended(self.clock.now_ns(), "ok", 5 * MS, 1)
        raise AssertionError("it never came to that")

    async def serve_for(self, seconds: float) -> None:
        ends_ns = self.clock.now_ns() + round(seconds * 1000) * MS
        await self.serve(lambda: self.clock.now_ns() >= ends_ns)

    def kill(self, tap: Any) -> None:
        """Requests of the canary end, each for itself, and all fail."""
        for number in range(200):
            tap.ended(self.clock.now_ns() + number, "UPSTREAM_FAILURE", 5 * MS, 1)

    def seen(self, rollout_id: str) -> RolloutRecord:
        """The rollout as this gateway shows it; its controller has the same, if there is one."""
        for record, controller in self.rollouts.active():
            if record.rollout_id == rollout_id:
                assert controller is None or controller.record == record
                return record
        raise AssertionError(f"{rollout_id} is not shown as active")

    def stored(self, rollout_id: str) -> RolloutRecord:
        return self.ledger.stored[rollout_id]

    def model(self, name: str = "a") -> Model:
        return self.catalog.models[name]


def in_virtual_time(body: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    """Runs a test; whatever waits for ever ends it as a deadlock."""
    loop = VirtualLoop()
    try:
        loop.run_until_complete(body(World(loop)))
    finally:
        loop.close()


@pytest.mark.parametrize("answer", ["collect", "state", "last_sequence"])
def test_a_pause_while_another_takes_the_rollout_over_holds_it(answer: str) -> None:
    """The controller began with the record of before, and wrote it over the pause."""

    async def body(world: World) -> None:
        rollout_id = await world.start()
        held = world.ledger.hold(answer)
        async with world.turning():
            await held.reached.wait()
            pausing = asyncio.ensure_future(world.rollouts.pause(rollout_id, OPERATOR))
            await world.settle()
            held.released.set()
            assert (await pausing).phase == machine.PAUSED
            await world.serve_for(10)
            assert (world.stored(rollout_id).phase, world.stored(rollout_id).step) == ("paused", 0)
            assert world.seen(rollout_id) == world.stored(rollout_id)
            assert len(world.ledger.trail) > 8
            await world.rollouts.resume(rollout_id, OPERATOR)
            await world.serve(lambda: world.stored(rollout_id).phase == machine.PROMOTED)

    in_virtual_time(body)


@pytest.mark.parametrize("answer", ["before change", "change", "note", "keep"])
@pytest.mark.parametrize("acts", ["pause", "pause and resume", "pause, resume and pause"])
def test_what_operators_do_while_a_step_is_stored_is_what_holds(answer: str, acts: str) -> None:
    async def body(world: World) -> None:
        rollout_id = await world.start()
        async with world.turning():
            held = world.ledger.hold(answer)
            if answer in ("note", "keep"):
                # Of the step, not of the analyses before it.
                stepping = world.ledger.hold("before change")
                held.released.set()
                await world.serve(stepping.reached.is_set)
                held = world.ledger.hold(answer)
                stepping.released.set()
            await world.serve(held.reached.is_set)
            done: list[RolloutRecord] = []

            async def operate() -> None:
                for act in acts.replace(" and", ",").split(", "):
                    call = getattr(world.rollouts, act)
                    done.append(await call(rollout_id, OPERATOR))

            operating = asyncio.ensure_future(operate())
            await world.settle()
            held.released.set()
            await operating
            await world.settle()
            assert world.seen(rollout_id) == world.stored(rollout_id) == done[-1]
            if done[-1].phase == machine.PAUSED:
                await world.serve_for(10)
                assert world.seen(rollout_id) == world.stored(rollout_id) == done[-1]
                await world.rollouts.resume(rollout_id, OPERATOR)
            await world.serve(lambda: world.stored(rollout_id).phase == machine.PROMOTED)

    in_virtual_time(body)


@pytest.mark.parametrize("leading", [True, False])
def test_a_reading_that_ends_late_does_not_undo_a_newer_one(leading: bool) -> None:
    async def body(world: World) -> None:
        world.ledger.leading = leading
        rollout_id = await world.start()
        async with world.turning():
            await world.serve_for(0.3)
            held = world.ledger.hold("active")
            pausing = asyncio.ensure_future(world.rollouts.pause(rollout_id, OPERATOR))
            await held.reached.wait()
            resuming = asyncio.ensure_future(world.rollouts.resume(rollout_id, OPERATOR))
            await world.settle()
            held.released.set()
            await asyncio.gather(pausing, resuming)
            assert world.stored(rollout_id).phase == machine.RUNNING
            assert world.seen(rollout_id) == world.stored(rollout_id)

    in_virtual_time(body)


def test_a_step_stored_while_an_older_reading_is_on_its_way_is_not_undone() -> None:
    async def body(world: World) -> None:
        rollout_id = await world.start()
        async with world.turning():
            stepping = world.ledger.hold("before change")
            await world.serve(stepping.reached.is_set)
            held = world.ledger.hold("active")
            reading = asyncio.ensure_future(world.rollouts.start("b", "v2", "", QUICK, OPERATOR))
            await world.settle()
            stepping.released.set()
            await held.reached.wait()
            held.released.set()
            await reading
            assert world.stored(rollout_id).step == 1
            assert world.seen(rollout_id) == world.stored(rollout_id)

    in_virtual_time(body)


def test_a_rollout_that_ended_during_anothers_turn_is_not_tapped_again() -> None:
    async def body(world: World) -> None:
        first, second = await world.start("a"), await world.start("b")
        assert first < second
        held = world.ledger.hold("collect")
        async with world.turning():
            await held.reached.wait()
            aborting = asyncio.ensure_future(world.rollouts.abort(second, "", OPERATOR))
            await world.settle()
            held.released.set()
            await aborting
            await world.serve_for(1)
            assert [pool.tap for pool in world.model("b").versions.values()] == [None, None]
            assert [record.rollout_id for record, _ in world.rollouts.active()] == [first]

    in_virtual_time(body)


@pytest.mark.parametrize("answer", ["collect", "before change", "change"])
def test_a_promotion_while_a_dead_canary_is_cut_off_has_the_last_word(answer: str) -> None:
    """An operator's decision wins; this gateway alone kept its own split until the next one."""

    async def body(world: World) -> None:
        rollout_id = await world.start()
        canary = world.model().versions["v2"]
        async with world.turning():
            await world.serve_for(0.3)
            held = world.ledger.hold(answer)
            if answer != "change":
                world.kill(canary.tap)
                await held.reached.wait()
            promoting = asyncio.ensure_future(world.rollouts.promote(rollout_id, OPERATOR))
            await world.settle()
            if answer == "change":
                # Stored, and this gateway does not know yet: it finds the canary dead now.
                assert held.reached.is_set()
                world.kill(canary.tap)
                await world.clock.sleep(500 * MS)
            held.released.set()
            await promoting
            await world.serve_for(1)
            assert world.stored(rollout_id).phase == machine.PROMOTED
            assert dict(world.model().shares) == {"v1": 0.0, "v2": 1.0}

    in_virtual_time(body)


def test_requests_of_a_rollout_that_is_over_cut_nothing_off() -> None:
    async def body(world: World) -> None:
        rollout_id = await world.start()
        async with world.turning():
            await world.serve_for(0.3)
            tap = world.model().versions["v2"].tap
            await world.rollouts.promote(rollout_id, OPERATOR)
            world.kill(tap)
            await world.serve_for(1)
            assert dict(world.model().shares) == {"v1": 0.0, "v2": 1.0}

    in_virtual_time(body)


def test_a_dead_canary_is_cut_off_and_stays_so_once_the_rollout_has_ended() -> None:
    async def body(world: World) -> None:
        rollout_id = await world.start()
        async with world.turning():
            await world.serve_for(0.3)
            world.kill(world.model().versions["v2"].tap)
            world.kill(world.model().versions["v2"].tap)
            assert dict(world.model().shares) == {"v1": 1.0, "v2": 0.0}
            await world.serve_for(1)
            assert world.stored(rollout_id).phase == machine.ROLLED_BACK
            assert dict(world.model().shares) == {"v1": 1.0, "v2": 0.0}

    in_virtual_time(body)


def test_a_cut_is_lifted_only_when_the_split_of_the_end_is_here() -> None:
    """Another gateway rolled back, and this one reads of that before the split has come."""

    async def body(world: World) -> None:
        world.ledger.leading = False
        rollout_id = await world.start()
        async with world.turning():
            await world.serve_for(0.3)
            world.kill(world.model().versions["v2"].tap)
            world.ledger.change_alone(
                rollout_id, lambda found: machine.ended(found, machine.ROLLED_BACK, "dead", 1)
            )
            # Its reading shows the end of the first already.
            await world.rollouts.start("b", "v2", "", QUICK, OPERATOR)
            assert dict(world.model().shares) == {"v1": 1.0, "v2": 0.0}
            assert "a" not in [record.model for record, _ in world.rollouts.active()]

    in_virtual_time(body)


@pytest.mark.parametrize("answer", ["before change", "change"])
def test_the_verdict_of_a_step_that_the_store_did_not_take_at_once_is_in_the_trail(
    answer: str,
) -> None:
    async def body(world: World) -> None:
        rollout_id = await world.start()
        async with world.turning():
            held = world.ledger.hold(answer)
            await world.serve(held.reached.is_set)
            world.ledger.away = True
            held.released.set()
            await world.serve_for(5)
            world.ledger.away = False
            await world.serve(lambda: world.stored(rollout_id).phase == machine.PROMOTED)
            await world.serve_for(1)
            moves = [each.decision for each in world.ledger.trail if each.decision != "hold"]
            assert moves == ["advance", "advance", "promote"]
            numbers = [each.sequence for each in world.ledger.trail]
            assert numbers == list(range(1, len(numbers) + 1))

    in_virtual_time(body)


@pytest.mark.parametrize("answer", ["before change", "change"])
def test_the_verdict_that_ended_a_rollout_is_in_the_trail_though_the_store_was_lost(
    answer: str,
) -> None:
    async def body(world: World) -> None:
        rollout_id = await world.start()
        async with world.turning():
            await world.serve_for(0.3)
            held = world.ledger.hold(answer)
            for _ in range(2):
                world.kill(world.model().versions["v2"].tap)
            await held.reached.wait()
            world.ledger.away = True
            held.released.set()
            await world.serve_for(5)
            world.ledger.away = False
            await world.serve_for(3)
            assert world.stored(rollout_id).phase == machine.ROLLED_BACK
            assert world.rollouts.active() == []
            assert [each.decision for each in world.ledger.trail][-1] == "roll_back"

    in_virtual_time(body)


def test_the_verdict_of_a_step_that_an_operator_made_void_is_not_in_the_trail() -> None:
    async def body(world: World) -> None:
        rollout_id = await world.start()
        async with world.turning():
            held = world.ledger.hold("before change")
            await world.serve(held.reached.is_set)
            world.ledger.away = True
            held.released.set()
            await world.settle()
            world.ledger.away = False
            await world.rollouts.pause(rollout_id, OPERATOR)
            await world.serve_for(3)
            assert world.stored(rollout_id).step == 0
            assert {each.decision for each in world.ledger.trail} == {"hold"}

    in_virtual_time(body)


class TestOperatorsAreNotHeldUp:
    def test_by_a_turn_that_waits_for_a_store_that_is_away(self) -> None:
        async def body(world: World) -> None:
            rollout_id = await world.start()
            held = world.ledger.hold("collect")
            async with world.turning():
                await held.reached.wait()
                world.ledger.away = True
                before_ns = world.clock.now_ns()
                with pytest.raises(StoreUnavailable):
                    await world.rollouts.pause(rollout_id, OPERATOR)
                assert world.clock.now_ns() == before_ns
                assert world.stored(rollout_id).phase == machine.RUNNING

        in_virtual_time(body)

    def test_for_longer_than_5_s_and_their_change_is_made(self) -> None:
        async def body(world: World) -> None:
            rollout_id = await world.start()
            held = world.ledger.hold("collect")
            async with world.turning():
                await held.reached.wait()
                before_ns = world.clock.now_ns()
                assert (await world.rollouts.pause(rollout_id, OPERATOR)).phase == machine.PAUSED
                assert world.clock.now_ns() - before_ns <= 5_001 * MS
                held.released.set()
                await world.serve_for(10)
                assert world.seen(rollout_id) == world.stored(rollout_id)
                assert world.stored(rollout_id).phase == machine.PAUSED

        in_virtual_time(body)

    def test_by_a_store_that_goes_away_once_the_change_is_made(self) -> None:
        async def body(world: World) -> None:
            rollout_id = await world.start()
            async with world.turning():
                await world.serve_for(0.3)
                held = world.ledger.hold("active")
                pausing = asyncio.ensure_future(world.rollouts.pause(rollout_id, OPERATOR))
                await held.reached.wait()
                world.ledger.away = True
                held.released.set()
                assert (await pausing).phase == machine.PAUSED
                world.ledger.away = False
                await world.serve_for(3)
                assert world.seen(rollout_id) == world.stored(rollout_id)
                assert world.stored(rollout_id).phase == machine.PAUSED

        in_virtual_time(body)

    def test_and_leave_nothing_locked_when_they_give_up(self) -> None:
        async def body(world: World) -> None:
            rollout_id = await world.start()
            held = world.ledger.hold("collect")
            async with world.turning():
                await held.reached.wait()
                pausing = asyncio.ensure_future(world.rollouts.pause(rollout_id, OPERATOR))
                await world.settle()
                pausing.cancel()
                held.released.set()
                await world.serve_for(1)
                assert world.seen(rollout_id) == world.stored(rollout_id)
                assert world.stored(rollout_id).phase == machine.PAUSED

        in_virtual_time(body)
