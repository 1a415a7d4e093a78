"""The loop of rollouts and operators, whose steps come between each other's in every way.

Each test holds back one answer of the ledger and lets somebody act meanwhile.
"""

import asyncio

import pytest
from tests.support.rollout_world import MS, OPERATOR, QUICK, World, in_virtual_time

from headway.errors import StoreUnavailable
from headway.rollout import machine
from headway.store.records import RolloutRecord


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
