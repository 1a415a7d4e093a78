"""Time that can be brought to a halt, to show that something needs none."""

import asyncio
import contextlib
from collections.abc import Iterator

from headway.clock import SystemClock


class HaltingClock(SystemClock):
    """The system's clock, less the time for which it was halted. Who sleeps then sleeps on."""

    __slots__ = ("_behind_ns", "_halted_at_ns", "_sleepers")

    def __init__(self) -> None:
        self._behind_ns = 0
        self._halted_at_ns: int | None = None
        self._sleepers: dict[asyncio.Future[None], int] = {}

    def now_ns(self) -> int:
        if self._halted_at_ns is not None:
            return self._halted_at_ns
        return super().now_ns() - self._behind_ns

    async def sleep(self, duration_ns: int) -> None:
        woken = asyncio.get_running_loop().create_future()
        self._sleepers[woken] = self.now_ns() + duration_ns
        if duration_ns <= 0:
            woken.get_loop().call_soon(_wake, woken)
        else:
            self._set_timer(woken)
        try:
            await woken
        finally:
            del self._sleepers[woken]

    @contextlib.contextmanager
    def halted(self) -> Iterator[None]:
        """Meanwhile its present is one instant, and nobody who sleeps wakes."""
        self._halted_at_ns = self.now_ns()
        try:
            yield
        finally:
            self._behind_ns = super().now_ns() - self._halted_at_ns
            self._halted_at_ns = None
            for woken in self._sleepers:
                self._set_timer(woken)

    def _set_timer(self, woken: "asyncio.Future[None]") -> None:
        left_ns = self._sleepers[woken] - self.now_ns()
        woken.get_loop().call_later(max(0, left_ns) / 1e9, self._ring, woken)

    def _ring(self, woken: "asyncio.Future[None]") -> None:
        if self._halted_at_ns is not None or woken not in self._sleepers:
            return  # it is set anew when time goes on, or was cancelled
        if self._sleepers[woken] <= self.now_ns():
            _wake(woken)
        else:
            self._set_timer(woken)


def _wake(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)
