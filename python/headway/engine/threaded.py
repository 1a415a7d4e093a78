"""A token model behind the executor protocol: its passes run in a thread of their own."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor as Pool
from dataclasses import dataclass

from headway.clock import Clock
from headway.engine.executor import ExecutorLimits, LaneOpening, Vocabulary
from headway.engine.frame import Completion, Frame, GraphShape
from headway.engine.stepper import Stepper

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PassCosts:
    """What passes take: a fixed part, and parts by prompt token and by decoded position.

    Attributes:
      prefill_ns: fixed part of a pass that decodes for nobody.
      decode_ns: fixed part of one that does.
      token_ns: by prompt token.
      position_ns: by decoded or verified position.
    """

    prefill_ns: float
    decode_ns: float
    token_ns: float
    position_ns: float

    def of_ns(self, tokens: int, positions: int) -> float:
        """A pass with so much in it, > 0."""
        fixed = self.decode_ns if positions else self.prefill_ns
        return max(1.0, fixed + tokens * self.token_ns + positions * self.position_ns)

    def full_ns(self, graph: GraphShape) -> float:
        """A graph with all of its room in use."""
        return self.of_ns(graph.prefill_tokens, graph.decode_rows * graph.width)


class ThreadedExecutor:
    """Passes run one after another in `device_thread`; the event loop only hears of their ends.

    While a pass runs, the next frame already waits in the thread's queue: the event loop's
    delays leave the device no time without work.
    """

    def __init__(
        self,
        stepper: Stepper,
        *,
        catalogue: Sequence[GraphShape],
        limits: ExecutorLimits,
        vocabulary: Vocabulary,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        device_thread: Pool,
        costs: PassCosts,
    ) -> None:
        """Makes the executor of a loaded model.

        Args:
          device_thread: a pool of exactly one thread.
          costs: of passes by what is in them, as measured before.
        """
        self._costs = costs
        self._stepper = stepper
        self._catalogue = tuple(catalogue)
        self._limits = limits
        self._vocabulary = vocabulary
        self._clock = clock
        self._loop = loop
        self._thread = device_thread
        self._closed = False

    @property
    def catalogue(self) -> Sequence[GraphShape]:
        """Its prepared graphs."""
        return self._catalogue

    @property
    def limits(self) -> ExecutorLimits:
        """What it has room for."""
        return self._limits

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens."""
        return self._vocabulary

    @property
    def measured_ns(self) -> Sequence[int]:
        """Each graph's time when full, by the costs measured."""
        return [round(self._costs.full_ns(graph)) for graph in self._catalogue]

    def full_ns(self, frame: Frame, completion: Completion) -> int:
        """By the costs measured: only their proportions matter."""
        tokens = sum(row.num_tokens for row in frame.prefill)
        rows = {row.slot for row in frame.decode}
        positions = sum(1 + o.num_drafted for o in completion.outcomes if o.slot in rows)
        part = self._costs.of_ns(tokens, positions)
        full = self._costs.full_ns(self._catalogue[frame.graph])
        return round(completion.device_ns * max(1.0, full / part))

    def open(self, lane: LaneOpening) -> None:
        """Begins a lane, once the passes before it have ended."""
        self._thread.submit(self._stepper.open, lane)

    def release(self, slot: int) -> None:
        """Frees a slot, once the passes before have ended."""
        if not self._closed:
            self._thread.submit(self._stepper.release, slot)

    def submit(self, frame: Frame, done: Callable[[Completion], None]) -> None:
        """Queues a pass."""
        self._thread.submit(self._run, frame, done)

    async def close(self) -> None:
        """Calls nobody back any more, and waits for the pass in hand."""
        self._closed = True
        await self._loop.run_in_executor(self._thread, lambda: None)

    def _run(self, frame: Frame, done: Callable[[Completion], None]) -> None:
        if self._closed:
            return
        begun_at = self._clock.now_ns()
        try:
            outcomes = self._stepper.run(frame)
            device_ns = self._clock.now_ns() - begun_at
            completion = Completion(frame.frame_id, outcomes, device_ns)
        except Exception as error:
            _log.exception("frame %d failed", frame.frame_id)
            completion = Completion(frame.frame_id, error=f"{type(error).__name__}: {error}")
        if not self._closed:
            self._loop.call_soon_threadsafe(self._deliver, done, completion)

    def _deliver(self, done: Callable[[Completion], None], completion: Completion) -> None:
        if not self._closed:
            done(completion)
