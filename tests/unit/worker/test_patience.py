"""Waiting ends with what was waited for, or in time."""

import asyncio

import pytest

from headway.testing import ManualClock
from headway.worker.patience import within

S = 1_000_000_000


async def test_what_comes_in_time_is_returned() -> None:
    clock = ManualClock()

    async def answer() -> str:
        await clock.sleep(2 * S)
        return "here"

    async with clock.auto_jump():
        assert await within(clock, 3 * S, answer()) == "here"
    assert clock.now_ns() == 2 * S
    assert clock.num_sleepers == 0


async def test_what_is_raised_in_time_is_raised() -> None:
    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await within(ManualClock(), S, fail())


async def test_what_comes_too_late_is_cancelled() -> None:
    clock = ManualClock()
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    async with clock.auto_jump():
        with pytest.raises(TimeoutError, match=r"not done after 1\.5 s"):
            await within(clock, 3 * S // 2, never)
    assert never.cancelled()
    assert clock.now_ns() == 3 * S // 2


async def test_cancelling_the_wait_cancels_what_is_waited_for() -> None:
    clock = ManualClock()
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(within(clock, S, never))
    await clock.settle()
    waiting.cancel()
    await clock.settle()
    assert waiting.cancelled()
    assert never.cancelled()
    assert clock.num_sleepers == 0
