"""One timer for all deadlines."""

from collections.abc import Callable
from typing import Protocol

_NS_PER_MS = 1_000_000


class TimerHandle(Protocol):
    """What the event loop gives for a call to come."""

    def cancel(self) -> None:
        """Takes it back."""
        ...


class DeadlineTimer:
    """Calls `fire` at the earliest instant asked for, on the event loop.

    Waits are rounded up to whole milliseconds, the resolution of the loop: rounding down would
    fire too early, find nothing to do, and arm again, over and over.
    """

    def __init__(
        self,
        now_ns: Callable[[], int],
        call_later: Callable[[float, Callable[[], None]], TimerHandle],
        fire: Callable[[], None],
    ) -> None:
        self._now_ns = now_ns
        self._call_later = call_later
        self._fire = fire
        self._armed_at_ns: int | None = None
        self._handle: TimerHandle | None = None

    def arm(self, at_ns: int) -> None:
        """Makes sure of a call at `at_ns` or before. O(1); nothing to do in the usual case."""
        if self._armed_at_ns is not None and self._armed_at_ns <= at_ns:
            return
        self.cancel()
        wait_ms = max(1, -(-(at_ns - self._now_ns()) // _NS_PER_MS))
        self._armed_at_ns = at_ns
        self._handle = self._call_later(wait_ms / 1e3, self._on_time)

    def cancel(self) -> None:
        """Forgets the call to come."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None
        self._armed_at_ns = None

    def _on_time(self) -> None:
        self._handle = None
        self._armed_at_ns = None
        self._fire()
