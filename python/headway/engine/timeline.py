"""Time for simulations: a heap of things to come, without an event loop."""

import asyncio
import heapq
from collections.abc import Callable
from typing import Protocol

from headway.clock import Clock


class Timeline(Protocol):
    """A clock on which calls can be put."""

    def now_ns(self) -> int:
        """The present instant."""
        ...

    async def sleep(self, duration_ns: int) -> None:
        """As `Clock.sleep`."""
        ...

    def call_at(self, at_ns: int, call: Callable[[], None]) -> None:
        """Calls at an instant, or at once after it; calls of one instant in their order."""
        ...


class VirtualTimeline:
    """Jumps from call to call. Whole hours of a device pass in seconds."""

    def __init__(self) -> None:
        self._now_ns = 0
        self._calls: list[tuple[int, int, Callable[[], None]]] = []
        self._num_calls = 0

    def now_ns(self) -> int:
        """The present instant."""
        return self._now_ns

    async def sleep(self, duration_ns: int) -> None:
        """Not for simulations without an event loop.

        Raises:
          NotImplementedError: always.
        """
        raise NotImplementedError("put a call on the timeline instead")

    def call_at(self, at_ns: int, call: Callable[[], None]) -> None:
        """Puts a call on the heap."""
        self._num_calls += 1
        heapq.heappush(self._calls, (max(at_ns, self._now_ns), self._num_calls, call))

    def step(self) -> bool:
        """Makes the next call; False if there is none."""
        if not self._calls:
            return False
        self._now_ns, _, call = heapq.heappop(self._calls)
        call()
        return True

    def run(self, until_ns: int | None = None) -> None:
        """Makes calls until none is left, or none at or before `until_ns`."""
        while self._calls and (until_ns is None or self._calls[0][0] <= until_ns):
            self.step()


class ClockTimeline:
    """Calls on the running event loop, at instants of a `Clock`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    def now_ns(self) -> int:
        """The present instant."""
        return self._clock.now_ns()

    async def sleep(self, duration_ns: int) -> None:
        """Returns once the duration has passed."""
        await self._clock.sleep(duration_ns)

    def call_at(self, at_ns: int, call: Callable[[], None]) -> None:
        """Starts a task that waits and calls."""
        task = asyncio.ensure_future(self._call_later(at_ns, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        """Forgets all calls to come."""
        for task in self._tasks:
            task.cancel()

    async def _call_later(self, at_ns: int, call: Callable[[], None]) -> None:
        await self._clock.sleep(at_ns - self._clock.now_ns())
        call()
