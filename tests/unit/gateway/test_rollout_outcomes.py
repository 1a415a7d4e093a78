"""No outcome of a rollout's requests is lost, or counted twice, while the store is away."""

from typing import Any

import pytest
from tests.support.rollout_world import MS, QUICK, STEP, World, in_virtual_time

from headway.rollout.counts import ArmCounts, TickCounts

LONG: dict[str, Any] = QUICK | {
    "steps": [{"share": 0.3, **STEP, "min_seconds": 600, "max_seconds": 900}]
}


async def lose_the_store_in(world: World, answer: str) -> None:
    """For 3 s, from an answer of a tick on; requests end before, meanwhile and after."""
    held = world.ledger.hold(answer)
    await world.serve(held.reached.is_set)
    world.ledger.away = True
    held.released.set()
    await world.serve_for(3)
    world.ledger.away = False
    await world.serve_for(1)


@pytest.mark.parametrize("answer", ["state", "last_sequence", "collect"])
def test_outcomes_of_ticks_that_the_store_did_not_answer_count_in_a_later_one(answer: str) -> None:
    """Those of each such tick were dropped, though the evidence of the step hangs on them."""

    async def body(world: World) -> None:
        await world.start(settings=LONG)
        began_ns = world.clock.now_ns()
        async with world.turning():
            await lose_the_store_in(world, answer)
            await world.clock.sleep(1000 * MS)  # ticks without requests, until all are judged
            last = world.ledger.trail[-1]
            for arm in (last.baseline, last.canary):
                assert arm["requests"] == world.num_served["a", arm["version"]] > 0
            [(_, controller)] = world.rollouts.active()
            assert controller is not None
            # Of the time, nothing is left out either: all but the tick that goes on.
            elapsed_s = (world.clock.now_ns() - began_ns) / 1e9
            assert elapsed_s - LONG["analysis_seconds"] <= controller.view().elapsed_s <= elapsed_s

    in_virtual_time(body)


@pytest.mark.parametrize("answer", ["state", "last_sequence"])
def test_what_others_have_posted_is_taken_when_it_can_be_judged(answer: str) -> None:
    """It was taken out of the store first, and was nowhere when the next question failed."""

    async def body(world: World) -> None:
        await world.start(settings=LONG)
        world.ledger.posted = [TickCounts(ArmCounts(requests=700), ArmCounts(requests=300))]
        async with world.turning():
            await lose_the_store_in(world, answer)
            await world.clock.sleep(1000 * MS)
            last = world.ledger.trail[-1]
            for arm, more in ((last.baseline, 700), (last.canary, 300)):
                assert arm["requests"] == world.num_served["a", arm["version"]] + more

    in_virtual_time(body)


def test_outcomes_that_a_leader_could_not_judge_go_to_the_next_one() -> None:
    async def body(world: World) -> None:
        await world.start(settings=LONG)
        async with world.turning():
            held = world.ledger.hold("collect")
            await world.serve(held.reached.is_set)
            world.ledger.away = True
            held.released.set()
            await world.serve_for(3)
            world.ledger.leading, world.ledger.away = False, False
            await world.clock.sleep(3000 * MS)
            posted = TickCounts()
            for counts in world.ledger.posted_here:
                posted.add(counts)
            assert world.ledger.trail == []
            for version, arm in (("v1", posted.baseline), ("v2", posted.canary)):
                assert arm.requests == world.num_served["a", version] > 0

    in_virtual_time(body)
