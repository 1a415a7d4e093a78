"""Time, passed in. The only module that reads a clock or sleeps."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic time in nanoseconds. Its zero means nothing; only differences do."""

    def now_ns(self) -> int:
        """The present instant."""
        ...

    async def sleep(self, duration_ns: int) -> None:
        """Returns once `duration_ns` have passed; at once if it is <= 0."""
        ...


class SystemClock:
    """The process's monotonic clock; steps of the wall clock do not touch it."""

    __slots__ = ()

    def now_ns(self) -> int:
        """The present instant."""
        return time.monotonic_ns()

    async def sleep(self, duration_ns: int) -> None:
        """Sleeps on the running event loop."""
        await asyncio.sleep(max(0, duration_ns) / 1e9)


def wall_ns() -> int:
    """Nanoseconds since 1970-01-01 UTC, for timestamps shown to people; never for decisions."""
    return time.time_ns()
