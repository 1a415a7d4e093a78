"""The worker's device: executes one batch at a time, whichever session it came from."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from headway.clock import Clock
from headway.errors import RuntimeFailure
from headway.runtimes.base import Execution, RuntimeOccupied
from headway.worker.batch import PendingBatch, Timings, Turn
from headway.worker.turns import Turns

_log = logging.getLogger(__name__)
_STOPPED = Execution((), 0)


@dataclass(slots=True)
class _Running:
    batch: PendingBatch
    task: asyncio.Task[Execution]
    begun_at: int
    idle_ns: int


class Device:
    """A bounded first-in-first-out line in front of one device. Not thread-safe: one event loop."""

    def __init__(self, clock: Clock, *, max_batches: int) -> None:
        """Makes an idle device.

        Args:
          clock: where the present comes from.
          max_batches: batches in hand at once, the executing one included; >= 1.
        """
        self._clock = clock
        self._max_batches = max_batches
        self._waiting: deque[PendingBatch] = deque()
        self._turns = Turns()
        self._running: _Running | None = None
        self._idle_since = clock.now_ns()
        self._last_device_ns: dict[int, int] = {}
        self._idle_waiters: list[asyncio.Future[None]] = []
        self.draining = False
        self.idle_ns = 0

    @property
    def num_batches(self) -> int:
        """Batches in hand."""
        return len(self._waiting) + (self._running is not None)

    @property
    def free_slots(self) -> int:
        """Batches it would take now."""
        return 0 if self.draining else max(0, self._max_batches - self.num_batches)

    def count_units(self) -> int:
        """Work units in hand, as the runtimes count them."""
        batches = list(self._waiting)
        if self._running is not None:
            batches.append(self._running.batch)
        return sum(batch.count_units() for batch in batches)

    def submit(self, batch: PendingBatch) -> None:
        """Executes a batch once those before it have ended; answers busy if it has no room.

        One batch that was sent to begin when another ends has room beyond the others'. Where
        there is none, a waiting batch gives way to one of a gateway that has had less.
        """
        displaced = None
        if self.draining or self.free_slots == 0:
            may_follow = batch.message.pipelined and self.num_batches <= self._max_batches
            if not may_follow:
                displaced = self._turns.displaced_by(batch, self._waiting)
            has_room = not self.draining and (may_follow or displaced is not None)
            if not (has_room and self._comes_in_time(batch, displaced)):
                self._turn_away(batch)
                return
        if displaced is not None:
            self._waiting.remove(displaced)
            self._turns.leave(displaced)
        self._turns.enter(batch, self._expected_ns(batch))
        self._waiting.append(batch)
        if displaced is not None:
            self._turn_away(displaced)
        if self._running is None:
            self._start_next(was_idle=True)
        elif self.free_slots == 0:
            free_in_ns = self.retry_after_ns() - self._expected_ns(batch)
            self._turns.call_before(batch, free_in_ns, self._clock.now_ns())

    def cancel(self, batch: PendingBatch, item_ids: Sequence[int]) -> None:
        """Takes back members; none given means all. Stops the batch once nobody waits for it."""
        batch.cancel(item_ids)
        self._stop_if_unwanted(batch)

    def abandon(self, batch: PendingBatch) -> None:
        """Takes back a batch whose session is lost."""
        batch.abandon()
        self._stop_if_unwanted(batch)

    def forget(self, turn: Turn) -> None:
        """An asker whose session has ended is called no more."""
        self._turns.forget(turn)

    def retry_after_ns(self) -> int:
        """When the device is expected to be free, from now.

        An execution that is late by its prediction is expected to take an eighth of its time so
        far again: the longer it has lasted, the longer it will.
        """
        waiting_ns = sum(self._expected_ns(batch) for batch in self._waiting)
        running = self._running
        if running is None:
            return waiting_ns
        elapsed_ns = self._clock.now_ns() - running.begun_at
        left_ns = self._expected_ns(running.batch) - elapsed_ns
        return waiting_ns + max(left_ns, elapsed_ns // 8, 1)

    async def until_idle(self) -> None:
        """Returns once no batch is in hand."""
        while self.num_batches:
            waiter = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(waiter)
            await waiter

    def _turn_away(self, batch: PendingBatch) -> None:
        retry_after_ns = self.retry_after_ns()
        if not self.draining:
            self._turns.turn_away(batch.turn, self._clock.now_ns() + retry_after_ns)
        batch.answer_busy(retry_after_ns, self.draining)

    def _comes_in_time(self, batch: PendingBatch, displaced: PendingBatch | None) -> bool:
        """True if a batch may wait for the end of what is in hand: its members were chosen for it.

        It is its own asker's work that ends, or the end that the asker was told of, within a
        quarter of what executes. Whoever missed that would wait for a whole execution more.
        """
        running = self._running
        if running is None or running.batch.turn is batch.turn:
            return True
        wait_ns = self.retry_after_ns() - (self._expected_ns(displaced) if displaced else 0)
        late_ns = self._clock.now_ns() + wait_ns - batch.turn.told_at
        return late_ns <= self._expected_ns(running.batch) // 4

    def _expected_ns(self, batch: PendingBatch) -> int:
        predicted = batch.message.predicted_device_ns
        return predicted if predicted > 0 else self._last_device_ns.get(batch.model.handle, 0)

    def _stop_if_unwanted(self, batch: PendingBatch) -> None:
        if not batch.all_cancelled():
            return
        running = self._running
        if running is not None and running.batch is batch:
            running.task.cancel()
        elif batch in self._waiting:
            self._waiting.remove(batch)
            self._turns.leave(batch)
            self._answer_unexecuted(batch)
            self._call_if_free()
            self._tell_idle()

    def _start_next(self, *, was_idle: bool) -> None:
        while self._waiting:
            now_ns = self._clock.now_ns()
            batch = self._waiting.popleft()
            inputs = batch.begin(now_ns)
            if inputs:
                self._turns.begin(batch)
                # `create_task` rather than a long-lived loop: one hop fewer for each batch.
                task = asyncio.get_running_loop().create_task(batch.model.runtime.run(inputs))
                idle_ns = now_ns - self._idle_since if was_idle else 0
                self.idle_ns += idle_ns
                self._running = _Running(batch, task, now_ns, idle_ns)
                task.add_done_callback(self._finish)
                return
            self._turns.leave(batch)
            self._answer_unexecuted(batch)

    def _answer_unexecuted(self, batch: PendingBatch) -> None:
        batch.answer((), Timings(wall_ns=self._clock.now_ns() - batch.received_at))

    def _finish(self, task: asyncio.Task[Execution]) -> None:
        running = self._running
        assert running is not None
        self._running = None
        now_ns = self._idle_since = self._clock.now_ns()
        # Before the answer, at which its gateway would send the next.
        self._call_if_free()
        self._settle(running, task, now_ns)
        self._start_next(was_idle=False)
        self._tell_idle()

    def _settle(self, running: _Running, task: asyncio.Task[Execution], now_ns: int) -> None:
        batch = running.batch
        try:
            execution = _STOPPED if task.cancelled() else task.result()
        except RuntimeOccupied as occupied:
            self._turns.leave(batch)
            batch.answer_busy(occupied.retry_after_ns, self.draining)
            return
        except Exception as error:
            execution = _failed(error, len(batch.executing), batch.model.label)
        execution = _checked(execution, len(batch.executing))
        self._turns.leave(batch, execution.device_ns or now_ns - running.begun_at)
        if execution.device_ns:
            self._last_device_ns[batch.model.handle] = execution.device_ns
        timings = Timings(execution.device_ns, now_ns - batch.received_at, running.idle_ns)
        batch.answer(execution.outcomes, timings, execution.tampering)

    def _call_if_free(self) -> None:
        if self.free_slots > 0:
            self._turns.call_all(self._clock.now_ns())

    def _tell_idle(self) -> None:
        if not self.num_batches:
            waiters, self._idle_waiters = self._idle_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)


def _failed(error: Exception, members: int, label: str) -> Execution:
    if isinstance(error, RuntimeFailure):
        _log.warning("a batch of %d of %s failed: %s", members, label, error.__cause__ or error)
        return Execution([error] * members, 0)
    _log.error("unexpected error of the runtime of %s", label, exc_info=error)
    hidden = RuntimeFailure("the runtime failed; the worker's log says how")
    return Execution([hidden] * members, 0)


def _checked(execution: Execution, members: int) -> Execution:
    if execution is _STOPPED or len(execution.outcomes) == members:
        return execution
    _log.error("the runtime answered %d of %d members", len(execution.outcomes), members)
    wrong = RuntimeFailure("the runtime answered another number of members than it was given")
    return Execution([wrong] * members, 0)
