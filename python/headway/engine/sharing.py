"""Several engines on one device: whose frame is next, by the device time each has had."""

from collections import deque
from collections.abc import Callable, Sequence

from headway.engine.executor import Executor, ExecutorLimits, LaneOpening, Vocabulary
from headway.engine.frame import Completion, Frame, GraphShape


class DeviceShare:
    """Gives the device to one frame at a time; over time each engine that wants it gets as much.

    Start-time fair queueing: an engine's virtual time grows by the device time of its frames, and
    the least goes next. Who was idle begins where the device is, so that nobody saves up. No
    engine is ahead of another that waits by more than the longest frame of each. O(engines) a
    frame. Source: Goyal, Vin and Cheng, SIGCOMM 1996.
    """

    def __init__(self) -> None:
        self._members: list[SharedExecutor] = []
        self._running = False
        self._virtual_ns = 0

    def join(self, executor: Executor) -> "SharedExecutor":
        """An executor that takes turns with those that joined before."""
        member = SharedExecutor(executor, self)
        self._members.append(member)
        return member

    def wake(self, member: "SharedExecutor") -> None:
        """A member that wanted nothing has a frame."""
        member.virtual_ns = max(member.virtual_ns, self._virtual_ns)

    def pump(self) -> None:
        """Starts the next frame if the device is free."""
        wanting = [member for member in self._members if member.queue]
        if self._running or not wanting:
            return
        # The first of equals: in the order in which they joined.
        member = min(wanting, key=lambda each: each.virtual_ns)
        self._virtual_ns = member.virtual_ns
        self._running = True
        member.start_next(self._on_end)

    def _on_end(self) -> None:
        self._running = False
        self.pump()


class SharedExecutor:
    """One engine's view of a device that others use too."""

    def __init__(self, executor: Executor, share: DeviceShare) -> None:
        self.queue: deque[tuple[Frame, Callable[[Completion], None]]] = deque()
        self.virtual_ns = 0
        self._executor = executor
        self._share = share
        self._num_running = 0

    @property
    def catalogue(self) -> Sequence[GraphShape]:
        """As the device's."""
        return self._executor.catalogue

    @property
    def limits(self) -> ExecutorLimits:
        """As the device's."""
        return self._executor.limits

    @property
    def vocabulary(self) -> Vocabulary:
        """As the device's."""
        return self._executor.vocabulary

    @property
    def measured_ns(self) -> Sequence[int]:
        """As the device's."""
        return self._executor.measured_ns

    def full_ns(self, frame: Frame, completion: Completion) -> int:
        """As the device's."""
        return self._executor.full_ns(frame, completion)

    def open(self, lane: LaneOpening) -> None:
        """Begins a lane. No frame of it waits yet."""
        self._executor.open(lane)

    def release(self, slot: int) -> None:
        """Frees a slot. No frame of it waits any more."""
        self._executor.release(slot)

    def submit(self, frame: Frame, done: Callable[[Completion], None]) -> None:
        """Runs a frame after those before it, when it is this engine's turn."""
        if not self.queue and not self._num_running:
            self._share.wake(self)
        self.queue.append((frame, done))
        self._share.pump()

    async def close(self) -> None:
        """Stops."""
        self.queue.clear()
        await self._executor.close()

    def start_next(self, ended: Callable[[], None]) -> None:
        """Hands the first frame to the device; `ended` is called before its owner hears."""
        frame, done = self.queue.popleft()
        self._num_running += 1

        def on_completion(completion: Completion) -> None:
            self._num_running -= 1
            self.virtual_ns += completion.device_ns
            ended()
            done(completion)

        self._executor.submit(frame, on_completion)
