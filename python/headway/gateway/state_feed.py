"""The state, read and compared once for all who watch it.

Watchers of about the same interval share a cadence: at each of its ticks the state is read once,
compared once, and the message handed to everyone in slices, so that hundreds of watchers never
hold the event loop for longer than one slice. Nothing runs while nobody watches.

A watcher that does not keep up loses its queue and gets a new snapshot instead.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Final

from headway.clock import Clock
from headway.errors import Overloaded
from headway.gateway.state_diff import changes
from headway.v1 import control_pb2

CADENCES_NS: Final = tuple(
    milliseconds * 1_000_000
    for milliseconds in (100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000)
)
"""Intervals that are served; a request for one between two gets the longer."""

QUEUE_LIMIT: Final = 8
"""Messages that wait for a watcher; with more it gets a snapshot instead."""

_SLICE: Final = 4
"""Watchers that get a message in one turn of the event loop; each costs some 80 us there."""

_SPREAD: Final = 0.8
"""Share of an interval over which a tick's messages are spread."""

_RETRY_NS: Final = 10_000_000_000

Message = control_pb2.WatchStateResponse


class _Watcher:
    """One stream's queue. `base` is the snapshot that it starts from, until its first change."""

    def __init__(self, base: control_pb2.State) -> None:
        self.base: control_pb2.State | None = base
        self.queue: deque[Message] = deque()
        self.ready = asyncio.Event()
        self.overrun = False

    def put(self, message: Message) -> None:
        if len(self.queue) >= QUEUE_LIMIT:
            self.queue.clear()
            self.overrun = True
        if not self.overrun:
            self.queue.append(message)
        self.ready.set()


class StateFeed:
    """Hands out the state to at most `max_watchers` streams.

    Attributes:
      num_reads: readings of the state so far.
    """

    def __init__(
        self, read: Callable[[], control_pb2.State], clock: Clock, *, max_watchers: int
    ) -> None:
        self._read_state = read
        self._clock = clock
        self._max_watchers = max_watchers
        self._cadences: dict[int, _Cadence] = {}
        self._num_watchers = 0
        self.num_reads = 0

    @property
    def num_watchers(self) -> int:
        """Streams open now."""
        return self._num_watchers

    async def watch(self, interval_ns: int) -> AsyncGenerator[Message, None]:
        """The whole state, then what changes of it, about once an interval.

        Raises:
          Overloaded: too many watch already.
        """
        if self._num_watchers >= self._max_watchers:
            raise Overloaded(
                f"{self._max_watchers} streams watch this gateway's state already "
                "(gateway.max_watchers); poll GetState, or retry in 10 s",
                retry_after_ns=_RETRY_NS,
            )
        cadence = self._cadence(interval_ns)
        self._num_watchers += 1
        watcher = cadence.join(self.read())
        try:
            async for message in self._messages(watcher):
                yield message
        finally:
            self._num_watchers -= 1
            cadence.leave(watcher)

    def read(self) -> control_pb2.State:
        """The state now."""
        self.num_reads += 1
        return self._read_state()

    async def _messages(self, watcher: _Watcher) -> AsyncGenerator[Message, None]:
        assert watcher.base is not None  # fresh
        yield Message(state=watcher.base, snapshot=True)
        while True:
            await watcher.ready.wait()
            watcher.ready.clear()
            if watcher.overrun:
                watcher.overrun = False
                watcher.base = self.read()
                yield Message(state=watcher.base, snapshot=True)
            while watcher.queue:
                yield watcher.queue.popleft()

    def _cadence(self, interval_ns: int) -> "_Cadence":
        chosen = next((c for c in CADENCES_NS if c >= interval_ns), CADENCES_NS[-1])
        if chosen not in self._cadences:
            self._cadences[chosen] = _Cadence(chosen, self.read, self._clock)
        return self._cadences[chosen]


class _Cadence:
    def __init__(
        self, interval_ns: int, read: Callable[[], control_pb2.State], clock: Clock
    ) -> None:
        self._interval_ns = interval_ns
        self._read = read
        self._clock = clock
        self._watchers: dict[_Watcher, None] = {}
        self._task: asyncio.Task[None] | None = None

    def join(self, base: control_pb2.State) -> _Watcher:
        watcher = _Watcher(base)
        self._watchers[watcher] = None
        if self._task is None:
            self._task = asyncio.ensure_future(self._run(base))
        return watcher

    def leave(self, watcher: _Watcher) -> None:
        self._watchers.pop(watcher, None)
        if not self._watchers and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self, previous: control_pb2.State) -> None:
        next_ns = self._clock.now_ns()
        while True:
            next_ns = max(next_ns + self._interval_ns, self._clock.now_ns())
            await self._clock.sleep(next_ns - self._clock.now_ns())
            current = self._read()
            change = changes(previous, current)
            await self._hand_out(current, change)
            previous = current

    async def _hand_out(self, current: control_pb2.State, change: Message | None) -> None:
        watchers = list(self._watchers)
        num_slices = -(-len(watchers) // _SLICE)
        pause_ns = int(self._interval_ns * _SPREAD) // max(1, num_slices)
        for start in range(0, len(watchers), _SLICE):
            if start:
                await self._clock.sleep(pause_ns)
            for watcher in watchers[start : start + _SLICE]:
                message = change
                if watcher.base is not None:
                    # Its snapshot is younger than what the others' change starts from.
                    message, watcher.base = changes(watcher.base, current), None
                if message is not None:
                    watcher.put(message)
