import asyncio

import pytest

from headway.clock import Clock
from headway.testing import ManualClock

SECOND_NS = 1_000_000_000


async def record_wakes(clock: Clock, delays_ns: list[int]) -> list[int]:
    """Instants at which sleepers with these delays woke, in order."""
    woken_at: list[int] = []

    async def sleeper(delay_ns: int) -> None:
        await clock.sleep(delay_ns)
        woken_at.append(clock.now_ns())

    await asyncio.gather(*(sleeper(delay_ns) for delay_ns in delays_ns))
    return woken_at


async def test_each_sleeper_wakes_at_its_own_deadline_in_order() -> None:
    clock = ManualClock(start_ns=100)
    task = asyncio.ensure_future(record_wakes(clock, [30, 10, 20]))
    await clock.advance(25)
    assert clock.now_ns() == 125
    assert clock.num_sleepers == 1
    await clock.advance(5)
    assert await task == [110, 120, 130]


async def test_nothing_wakes_before_its_time() -> None:
    clock = ManualClock()
    task = asyncio.ensure_future(clock.sleep(10))
    await clock.advance(9)
    assert not task.done()
    await clock.advance(1)
    assert task.done()


async def test_a_chain_of_sleeps_runs_within_one_advance() -> None:
    clock = ManualClock()

    async def tick() -> int:
        for _ in range(5):
            await clock.sleep(SECOND_NS)
        return clock.now_ns()

    task = asyncio.ensure_future(tick())
    await clock.advance(10 * SECOND_NS)
    assert task.result() == 5 * SECOND_NS
    assert clock.now_ns() == 10 * SECOND_NS


@pytest.mark.parametrize("duration_ns", [0, -1, -SECOND_NS])
async def test_a_sleep_that_is_over_returns_without_moving_time(duration_ns: int) -> None:
    clock = ManualClock()
    await clock.sleep(duration_ns)
    assert clock.now_ns() == 0


async def test_a_cancelled_sleeper_holds_nothing_up() -> None:
    clock = ManualClock()
    cancelled = asyncio.ensure_future(clock.sleep(5))
    kept = asyncio.ensure_future(clock.sleep(9))
    await clock.settle()
    cancelled.cancel()
    await clock.settle()
    assert clock.next_wake_ns == 9
    assert await clock.jump()
    assert kept.done()
    assert not await clock.jump()


async def test_auto_jump_passes_an_hour_at_once() -> None:
    clock = ManualClock()
    async with clock.auto_jump():
        await clock.sleep(3600 * SECOND_NS)
        assert await record_wakes(clock, [2, 1]) == [3600 * SECOND_NS + 1, 3600 * SECOND_NS + 2]
    assert clock.now_ns() == 3600 * SECOND_NS + 2


async def test_time_does_not_run_backwards() -> None:
    with pytest.raises(ValueError, match="time does not run backwards"):
        await ManualClock().advance(-1)
