"""A model whose passes take no thread: they run when virtual time says that they end."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from headway.engine.executor import ExecutorLimits, LaneOpening
from headway.engine.frame import Completion, Frame, GraphShape
from headway.engine.stepper import Stepper
from headway.engine.timeline import VirtualTimeline


class InlineExecutor:
    """Runs frames in order, each `duration_ns(frame)` long."""

    def __init__(
        self,
        stepper: Stepper,
        vocabulary: Any,
        timeline: VirtualTimeline,
        *,
        catalogue: Sequence[GraphShape],
        limits: ExecutorLimits,
        duration_ns: Callable[[Frame], int] = lambda frame: 1_000_000,
    ) -> None:
        self.catalogue = tuple(catalogue)
        self.limits = limits
        self.vocabulary = vocabulary
        self.measured_ns: Sequence[int] = ()
        self.frames: list[Frame] = []
        # Set to change what the engine is told.
        self.tamper: Callable[[Completion], Completion] = lambda completion: completion
        self._stepper = stepper
        self._timeline = timeline
        self._duration_ns = duration_ns
        self._queue: deque[Callable[[], None]] = deque()
        self._running = False

    def full_ns(self, frame: Frame, completion: Completion) -> int:
        return completion.device_ns

    def open(self, lane: LaneOpening) -> None:
        self._enqueue(lambda: self._stepper.open(lane))

    def release(self, slot: int) -> None:
        self._enqueue(lambda: self._stepper.release(slot))

    def submit(self, frame: Frame, done: Callable[[Completion], None]) -> None:
        self.frames.append(frame)
        self._enqueue(lambda: self._begin(frame, done))

    async def close(self) -> None:
        """Nothing runs by itself."""

    def _enqueue(self, work: Callable[[], None]) -> None:
        self._queue.append(work)
        self._drain()

    def _drain(self) -> None:
        while self._queue and not self._running:
            self._queue.popleft()()

    def _begin(self, frame: Frame, done: Callable[[Completion], None]) -> None:
        self._running = True
        duration_ns = self._duration_ns(frame)

        def end() -> None:
            completion = Completion(frame.frame_id, self._stepper.run(frame), duration_ns)
            self._running = False
            self._drain()
            done(self.tamper(completion))

        self._timeline.call_at(self._timeline.now_ns() + duration_ns, end)
