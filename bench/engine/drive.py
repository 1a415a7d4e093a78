"""Runs the engine on a simulated device in virtual time, and keeps what readers saw."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from headway._core import Rng
from headway.engine.engine import Engine
from headway.engine.executor import ExecutorLimits, LaneOpening
from headway.engine.frame import GraphShape
from headway.engine.request import Ending, GenerationRequest, Targets
from headway.engine.scheduling import make_selector
from headway.engine.selection import StepSelector
from headway.engine.simulated import Disturbance, SimulatedExecutor, SimulatedOutput
from headway.engine.surface import CostSurface
from headway.engine.timeline import VirtualTimeline
from headway.engine.trace import Trace

from .baselines import BaselineSelector

S = 1_000_000_000
MakeSelector = Callable[[Sequence[GraphShape]], StepSelector]


NEVER_NS = 1 << 60


def headway(graphs: Sequence[GraphShape]) -> StepSelector:
    """The product, with costs that do not go stale."""
    return make_selector(graphs, max_lanes=1024, lifetime_ns=NEVER_NS)


def refreshing(graphs: Sequence[GraphShape]) -> StepSelector:
    """The product as it is."""
    return make_selector(graphs, max_lanes=1024)


def baseline(policy: str, budget: int = 0) -> MakeSelector:
    return lambda graphs: BaselineSelector(graphs, policy, budget)


POLICIES: dict[str, MakeSelector] = {
    "headway": headway,
    "headway, refreshing": refreshing,
    "prefill-first": baseline("prefill-first"),
    "decode-first 64": baseline("decode-first", 64),
    "decode-first 256": baseline("decode-first", 256),
    "decode-first 512": baseline("decode-first", 512),
    "round-robin": baseline("round-robin"),
}


@dataclass(slots=True)
class Work:
    """One request of a workload. `output` is hidden from the engine."""

    at_ns: int
    prompt_tokens: int
    output: int
    acceptance: float = 0.0
    targets: Targets = field(default_factory=Targets)


@dataclass(slots=True)
class Reading:
    """What one reader saw."""

    work: Work
    delivered: list[tuple[int, int]] = field(default_factory=list)
    ending: Ending | None = None
    on_end: Callable[[], None] = lambda: None

    @property
    def first_token_ns(self) -> int | None:
        return self.delivered[0][0] - self.work.at_ns if self.delivered else None

    @property
    def gaps_ns(self) -> list[int]:
        return [later[0] - earlier[0] for earlier, later in pairwise(self.delivered)]


class Simulation:
    """A device, an engine, and a line of requests before it."""

    def __init__(
        self,
        surface: CostSurface,
        make: MakeSelector,
        *,
        lanes: int,
        seed: int = 1,
        disturbance: Disturbance | None = None,
        budget: int = 1 << 15,
        trace: Trace | None = None,
    ) -> None:
        self.timeline = VirtualTimeline()
        self.readings: list[Reading] = []
        self._budget = budget
        self._line: deque[Reading] = deque()
        self._outputs: dict[int, SimulatedOutput] = {}
        self.executor = SimulatedExecutor(
            surface,
            self.timeline,
            Rng(seed),
            limits=ExecutorLimits(lanes, 1 << 40, 1 << 20),
            output_of=self._output_of,
            disturbance=disturbance,
        )
        self.engine = Engine(
            self.executor,
            make(self.executor.catalogue),
            self.timeline,
            trace=trace,
            reuse=False,
        )
        self.engine.on_freed = self._admit

    def offer(self, work: Work) -> Reading:
        reading = Reading(work)
        self.readings.append(reading)

        def arrive() -> None:
            self._line.append(reading)
            self._admit()

        self.timeline.call_at(work.at_ns, arrive)
        return reading

    def run(self, until_ns: int | None = None) -> None:
        self.timeline.run(until_ns)

    def _admit(self) -> None:
        while self._line and self.engine.free_lanes:
            reading = self._line.popleft()
            work = reading.work
            # The seed carries the hidden output to the device; nothing is drawn from it here.
            number = len(self._outputs)
            self._outputs[number] = SimulatedOutput(work.output, work.acceptance)
            request = GenerationRequest(
                prompt=_Prompt(work.prompt_tokens, number),
                output_limit=self._budget,
                targets=work.targets,
                arrived_at_ns=work.at_ns,
                request_id=str(number),
            )
            self.engine.admit(request, _Listener(reading, self.timeline))

    def _output_of(self, lane: LaneOpening) -> SimulatedOutput:
        return self._outputs[lane.prompt[0]]


class _Prompt(Sequence[int]):
    """A prompt that takes no memory; its first token says whose it is."""

    def __init__(self, length: int, number: int) -> None:
        self._length = length
        self._number = number

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int | slice) -> int | Sequence[int]:  # type: ignore[override]
        return () if isinstance(index, slice) else self._number


class _Listener:
    def __init__(self, reading: Reading, timeline: VirtualTimeline) -> None:
        self._reading = reading
        self._timeline = timeline

    def on_output(self, text: str, token_ids: Sequence[int], logprobs: Sequence[float]) -> None:
        if token_ids:
            self._reading.delivered.append((self._timeline.now_ns(), len(token_ids)))

    def on_end(self, ending: Ending) -> None:
        self._reading.ending = ending
        self._reading.on_end()


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile, nearest rank; 0 of nothing."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]
