"""Time under a test's control. Shipped, so that code built on Headway can be tested the same way.

```python
clock = ManualClock()
task = asyncio.ensure_future(clock.sleep(5_000_000_000))
await clock.advance(5_000_000_000)   # returns once the sleeper and what it caused have run
assert task.done()

async with clock.auto_jump():        # or let time leap whenever everything waits
    await clock.sleep(3_600_000_000_000)
```
"""

import asyncio
import contextlib
import heapq
import types
from collections.abc import AsyncIterator, Generator

SETTLE_PASSES = 32
"""Passes of the event loop without a new sleep or wake-up after which all is taken to wait."""


class ManualClock:
    """A `headway.clock.Clock` that moves only when told to.

    Sleepers wake in the order of their deadlines, and each sees exactly its own deadline as the
    present. A task that waits for the outside world (a socket, a thread) counts as waiting.
    """

    def __init__(self, start_ns: int = 0) -> None:
        """`start_ns`: the first instant."""
        self._now_ns = start_ns
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._num_events = 0

    def now_ns(self) -> int:
        """The present instant."""
        return self._now_ns

    async def sleep(self, duration_ns: int) -> None:
        """Returns once the clock has been moved by `duration_ns`; at once if it is <= 0."""
        if duration_ns <= 0:
            await _one_pass()
            return
        self._num_events += 1
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now_ns + duration_ns, self._num_events, woken))
        await woken

    @property
    def num_sleepers(self) -> int:
        """Tasks that wait for the clock."""
        return sum(not woken.done() for _, _, woken in self._sleepers)

    @property
    def next_wake_ns(self) -> int | None:
        """Instant at which the next sleeper wakes; None if nobody sleeps."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    async def advance(self, duration_ns: int) -> None:
        """Moves time by `duration_ns` >= 0, deadline by deadline, settling at each.

        Raises ValueError for a negative duration: this clock is monotonic.
        """
        if duration_ns < 0:
            raise ValueError(f"duration_ns is {duration_ns}; time does not run backwards")
        target_ns = self._now_ns + duration_ns
        await self.settle()
        while (wake_ns := self.next_wake_ns) is not None and wake_ns <= target_ns:
            self._wake(wake_ns)
            await self.settle()
        self._now_ns = target_ns

    async def jump(self) -> bool:
        """Moves time to the next sleeper's deadline and settles; False if nobody sleeps."""
        await self.settle()
        wake_ns = self.next_wake_ns
        if wake_ns is None:
            return False
        self._wake(wake_ns)
        await self.settle()
        return True

    async def settle(self) -> None:
        """Runs the event loop until everything waits."""
        quiet_passes, seen = 0, self._num_events
        while quiet_passes < SETTLE_PASSES:
            await _one_pass()
            quiet_passes = quiet_passes + 1 if seen == self._num_events else 0
            seen = self._num_events

    @contextlib.asynccontextmanager
    async def auto_jump(self) -> AsyncIterator[None]:
        """While inside, time leaps to the next deadline whenever everything waits."""
        jumper = asyncio.ensure_future(self._keep_jumping())
        try:
            yield
        finally:
            jumper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await jumper

    async def _keep_jumping(self) -> None:
        while True:
            await self.jump()

    def _wake(self, wake_ns: int) -> None:
        self._now_ns = wake_ns
        while self.next_wake_ns == wake_ns:
            self._num_events += 1
            heapq.heappop(self._sleepers)[2].set_result(None)


@types.coroutine
def _one_pass() -> Generator[None]:
    """Gives every ready callback of the loop one turn."""
    yield
