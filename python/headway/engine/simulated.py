"""A device without a model: graph times with noise, regimes and host delays; tokens that count."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headway._core import Rng
from headway.engine.executor import ExecutorLimits, LaneOpening
from headway.engine.frame import Completion, DecodeRow, Frame, GraphShape, RowOutcome
from headway.engine.surface import CostSurface
from headway.engine.timeline import Timeline

END_TOKEN = 0
VOCABULARY_SIZE = 256


@dataclass(frozen=True, slots=True)
class SimulatedOutput:
    """What a simulated lane will write, hidden from the engine.

    Attributes:
      length: tokens before the end; the request's limit may cut it.
      acceptance: probability that a draft is right, if those before it were.
    """

    length: int
    acceptance: float = 0.0


@dataclass(frozen=True, slots=True)
class Regime:
    """From an instant on, times are multiplied; for all graphs, or for those that begin so."""

    from_ns: int
    factor: float
    graphs: str = ""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """How a device strays from its surface.

    Attributes:
      noise: each time is a uniform 1 ± this of itself, in [0, 1).
      regimes: in the order of their instants; the last one that has begun and fits holds.
      host_delay_ns: between a frame's end and the engine's hearing of it.
      late_host: probability that the host is late for a frame by `late_ns` more.
      late_again: the same probability right after a frame for which it was late.
      untimed: probability that the device cannot tell its time.
    """

    noise: float = 0.0
    regimes: Sequence[Regime] = field(default=())
    host_delay_ns: int = 0
    late_host: float = 0.0
    late_again: float = 0.0
    late_ns: int = 0
    untimed: float = 0.0


class SimulatedVocabulary:
    """Words of one letter. Token 0 ends an output."""

    size = VOCABULARY_SIZE
    ends = frozenset({END_TOKEN})

    def encode(self, text: str) -> list[int]:
        """A token for every four bytes."""
        data = text.encode()
        return [1 + sum(data[i : i + 4]) % (VOCABULARY_SIZE - 1) for i in range(0, len(data), 4)]

    def piece(self, token: int) -> bytes:
        """A letter and a space."""
        return b"" if token == END_TOKEN else bytes((97 + token % 26, 32))


@dataclass(slots=True)
class _Lane:
    output: SimulatedOutput
    limit: int
    written: int = 0
    ended: bool = False


class SimulatedExecutor:
    """One device: frames run one after another, in the order of their submission."""

    def __init__(
        self,
        surface: CostSurface,
        timeline: Timeline,
        rng: Rng,
        *,
        limits: ExecutorLimits,
        output_of: Callable[[LaneOpening], SimulatedOutput],
        disturbance: Disturbance | None = None,
        warmed_up: bool = True,
    ) -> None:
        """Makes a device with nothing on it.

        Args:
          output_of: what a lane will write.
          disturbance: none by default.
          warmed_up: whether every graph was run once before, undisturbed.
        """
        self._warmed_up = warmed_up
        self.busy_ns = 0
        self._surface = surface
        self._catalogue = tuple(surface.graphs)
        self._timeline = timeline
        self._rng = rng
        self._limits = limits
        self._output_of = output_of
        self._disturbance = disturbance or Disturbance()
        self._lanes: dict[int, _Lane] = {}
        self._queue: deque[tuple[Frame, Callable[[Completion], None]]] = deque()
        self._running = False
        self._told_at = 0
        self._was_late = False
        self._closed = False

    @property
    def catalogue(self) -> Sequence[GraphShape]:
        """Graphs of the surface."""
        return self._catalogue

    @property
    def limits(self) -> ExecutorLimits:
        """As given."""
        return self._limits

    @property
    def vocabulary(self) -> SimulatedVocabulary:
        """One for all."""
        return SimulatedVocabulary()

    @property
    def measured_ns(self) -> Sequence[int]:
        """Each graph's time when full, where it was warmed up."""
        if not self._warmed_up:
            return ()
        return [
            self._surface.cost_ns(graph, graph.prefill_tokens, graph.decode_rows)
            for graph in self._catalogue
        ]

    def full_ns(self, frame: Frame, completion: Completion) -> int:
        """By the surface."""
        graph = self._catalogue[frame.graph]
        prompt_tokens = sum(row.num_tokens for row in frame.prefill)
        part = self._surface.cost_ns(graph, prompt_tokens, len(frame.decode))
        full = self._surface.cost_ns(graph, graph.prefill_tokens, graph.decode_rows)
        return round(completion.device_ns * full / part) if part else completion.device_ns

    def open(self, lane: LaneOpening) -> None:
        """Begins a lane."""
        self._lanes[lane.slot] = _Lane(self._output_of(lane), lane.output_limit)

    def release(self, slot: int) -> None:
        """Ends a lane."""
        self._lanes.pop(slot, None)

    def submit(self, frame: Frame, done: Callable[[Completion], None]) -> None:
        """Runs a frame after those before it."""
        self._queue.append((frame, done))
        if not self._running:
            self._begin()

    async def close(self) -> None:
        """Calls nobody back any more."""
        self._closed = True

    def _begin(self) -> None:
        self._running = True
        frame, done = self._queue.popleft()
        graph = self._catalogue[frame.graph]
        prompt_tokens = sum(row.num_tokens for row in frame.prefill)
        cost = self._surface.cost_ns(graph, prompt_tokens, len(frame.decode))
        device_ns = round(cost * self._factor(graph) * self._jitter())
        end_ns = self._timeline.now_ns() + device_ns
        self._timeline.call_at(end_ns, lambda: self._end(frame, done, device_ns))

    def _end(self, frame: Frame, done: Callable[[Completion], None], device_ns: int) -> None:
        self._running = False
        self.busy_ns += device_ns
        outcomes = [
            RowOutcome(row.slot, self._write(row.slot, 1) if row.completes else ())
            for row in frame.prefill
        ]
        outcomes += [self._decode(row) for row in frame.decode]
        disturbance = self._disturbance
        told_ns = 0 if self._happens(disturbance.untimed) else device_ns
        late = disturbance.late_again if self._was_late else disturbance.late_host
        self._was_late = self._happens(late)
        late_ns = disturbance.late_ns if self._was_late else 0
        completion = Completion(frame.frame_id, outcomes, told_ns)
        self._tell(self._timeline.now_ns() + disturbance.host_delay_ns + late_ns, done, completion)
        if self._queue:
            self._begin()

    def _tell(self, at_ns: int, done: Callable[[Completion], None], told: Completion) -> None:
        # A late host hears of frames in their order all the same.
        self._told_at = max(at_ns, self._told_at)
        self._timeline.call_at(self._told_at, lambda: None if self._closed else done(told))

    def _decode(self, row: DecodeRow) -> RowOutcome:
        lane = self._lanes[row.slot]
        if lane.ended or lane.written >= lane.limit:
            return RowOutcome(row.slot)
        drafted = min(row.width, lane.limit - lane.written) - 1
        accepted = 0
        while accepted < drafted and self._rng.uniform() < lane.output.acceptance:
            accepted += 1
        tokens = self._write(row.slot, accepted + 1)
        kept = min(accepted, len(tokens))
        return RowOutcome(row.slot, tokens, (0.0,) * len(tokens), drafted, kept)

    def _write(self, slot: int, num_tokens: int) -> tuple[int, ...]:
        lane = self._lanes[slot]
        tokens = []
        for _ in range(num_tokens):
            lane.ended = lane.written >= lane.output.length
            tokens.append(END_TOKEN if lane.ended else 1 + lane.written % (VOCABULARY_SIZE - 1))
            if lane.ended:
                break
            lane.written += 1
        return tuple(tokens)

    def _factor(self, graph: GraphShape) -> float:
        factor = 1.0
        for regime in self._disturbance.regimes:
            if regime.from_ns <= self._timeline.now_ns() and graph.name.startswith(regime.graphs):
                factor = regime.factor
        return factor

    def _jitter(self) -> float:
        noise = self._disturbance.noise
        return 1 + noise * (2 * self._rng.uniform() - 1) if noise else 1.0

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self._rng.uniform() < chance
