"""Waiting with an end, on the clock that was passed in."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from headway.clock import Clock

T = TypeVar("T")


async def within(clock: Clock, duration_ns: int, awaitable: Awaitable[T]) -> T:
    """What `awaitable` returns or raises, if it does within `duration_ns`.

    Raises:
      TimeoutError: it did not; it was cancelled.
    """
    work = asyncio.ensure_future(awaitable)
    timer = asyncio.ensure_future(clock.sleep(duration_ns))
    try:
        await asyncio.wait((work, timer), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise TimeoutError(f"not done after {duration_ns / 1e9:g} s")
        return work.result()
    finally:
        timer.cancel()
        if not work.done():
            work.cancel()
            await asyncio.wait((work,))
            if not work.cancelled():
                work.exception()  # a gathering that is cancelled ends so; nobody else looks at it
