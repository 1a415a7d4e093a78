"""An event loop in virtual time: when all wait, the clock jumps to the next timer.

Hours pass in moments, and a run is repeatable to the last event: nothing happens between two
turns of the loop that the program itself did not cause.

```python
def main(loop: VirtualLoop) -> None:
    clock = LoopClock(loop)
    loop.run_until_complete(clock.sleep(3_600_000_000_000))
```
"""

import asyncio
import math
import selectors
from collections.abc import Callable, Mapping
from typing import Any

_NS_PER_S = 1_000_000_000


class Deadlock(RuntimeError):
    """Everything waits, and no timer is set: nothing will ever happen again."""


class _VirtualSelector(selectors.BaseSelector):
    """Instead of waiting, moves the clock. Files are never ready."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.on_turn: Callable[[], None] = lambda: None
        self._files: dict[int, selectors.SelectorKey] = {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.on_turn()
        if timeout is None:
            raise Deadlock("everything waits, and no timer is set")
        if timeout > 0:
            # The loop runs what is due within its resolution of 1 ns, so that the float's last
            # bits need no nanosecond of their own.
            self.now_ns += max(1, math.ceil(timeout * _NS_PER_S - 0.01))
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        self._files[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        return self._files[fd]

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._files.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._files

    def close(self) -> None:
        self._files.clear()


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop without real time, sockets or threads.

    Timers of one instant run in the order in which they come to be due in asyncio's heap, which
    depends on the program alone. Raises `Deadlock` where a real loop would wait for ever.
    """

    def __init__(self) -> None:
        self._virtual = _VirtualSelector()
        super().__init__(self._virtual)

    def on_turn(self, call: Callable[[], None]) -> None:
        """Has `call` called after each turn, before time moves: the place for invariants."""
        self._virtual.on_turn = call

    @property
    def now_ns(self) -> int:
        """The present instant, from 0."""
        return self._virtual.now_ns

    def time(self) -> float:
        """The present instant in seconds, as asyncio has it."""
        return self._virtual.now_ns / _NS_PER_S


class LoopClock:
    """A `headway.clock.Clock` on a virtual loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_ns(self) -> int:
        """The present instant."""
        return self._loop.now_ns

    async def sleep(self, duration_ns: int) -> None:
        """Returns once `duration_ns` have passed; at once, but after others' turn, if <= 0."""
        woken = self._loop.create_future()
        at_s = (self._loop.now_ns + max(0, duration_ns)) / _NS_PER_S
        handle = self._loop.call_at(at_s, _resolve, woken)
        try:
            await woken
        finally:
            handle.cancel()


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
