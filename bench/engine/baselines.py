"""Step policies that others use, behind the engine's own interface.

prefill-first: prompts before anything else, as large as they come (the first vLLM).
decode-first chunking: every stream in every step, prompts in what is left of a token budget
  (Sarathi-Serve; Agrawal and others, OSDI 2024).
round-robin: a prompt chunk and a decode step take turns.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from headway._core import StepPause
from headway.engine.frame import GraphShape

IDLE, QUEUE_FULL = StepPause.IDLE, StepPause.QUEUE_FULL


@dataclass(slots=True)
class Lane:
    """A request."""

    handle: int
    prompt_left: int
    output_left: int
    order: int
    held: bool = False
    leaving: bool = False
    served_at: int = 0


@dataclass(frozen=True, slots=True)
class BaselineStep:
    """A chosen step."""

    frame: int
    graph: int
    prompt_lanes: Sequence[int]
    prompt_tokens: Sequence[int]
    row_lanes: Sequence[int]
    reason: int = 1
    cost_ns: int = 0
    score: float = 0.0
    parts: Sequence[float] = field(default=(0.0,) * 6)


class BaselineSelector:
    """`policy`: "prefill-first", "decode-first" with a `budget` of tokens, or "round-robin"."""

    def __init__(
        self, graphs: Sequence[GraphShape], policy: str, budget: int = 0, max_frames: int = 2
    ) -> None:
        self._graphs = graphs
        self._policy = policy
        self._budget = budget
        self._max_frames = max_frames
        self._largest_chunk = max(graph.prefill_tokens for graph in graphs)
        self._most_rows = max(graph.decode_rows for graph in graphs)
        self._lanes: dict[int, Lane] = {}
        self._flights: deque[BaselineStep] = deque()
        self._num_lanes = self._num_frames = 0
        self._prefill_turn = False

    def admit(
        self,
        now_ns: int,
        *,
        prompt_tokens: int,
        output_limit: int,
        prompt_left: int | None = None,
        **others: object,
    ) -> int:
        self._num_lanes += 1
        left = prompt_tokens if prompt_left is None else prompt_left
        self._lanes[self._num_lanes] = Lane(self._num_lanes, left, output_limit, self._num_lanes)
        return self._num_lanes

    def cancel(self, lane: int) -> None:
        if lane in self._lanes:
            self._lanes[lane].leaving = True

    def hold(self, lane: int, held: bool) -> None:
        if lane in self._lanes:
            self._lanes[lane].held = held

    def set_acceptance(self, lane: int, acceptance: Sequence[float]) -> None:
        """Baselines do not draft."""

    def observe(self, graph: int, **others: object) -> None:
        """Baselines do not look at costs."""

    def dispatch(self, now_ns: int) -> BaselineStep | StepPause:
        if len(self._flights) >= self._max_frames:
            return QUEUE_FULL
        lanes = [each for each in self._lanes.values() if not (each.leaving or each.held)]
        prompts = sorted((e for e in lanes if e.prompt_left > 0), key=lambda e: e.order)
        streams = sorted(
            (e for e in lanes if e.prompt_left == 0 and e.output_left > 0),
            key=lambda e: (e.served_at, e.order),
        )[: self._most_rows]
        if not prompts and not streams:
            return IDLE
        chunk, rows = self._divide(prompts, streams)
        return self._take(prompts, chunk, rows)

    def _divide(self, prompts: list[Lane], streams: list[Lane]) -> tuple[int, list[Lane]]:
        if not prompts:
            return 0, streams
        if self._policy == "prefill-first":
            return self._largest_chunk, []
        if self._policy == "round-robin":
            self._prefill_turn = not self._prefill_turn
            if self._prefill_turn or not streams:
                return self._largest_chunk if self._budget == 0 else self._budget, []
            return 0, streams
        room = max(1, min(self._budget, self._largest_chunk) - len(streams))
        return (room if streams else min(self._budget, self._largest_chunk)), streams

    def _take(self, prompts: list[Lane], chunk: int, rows: list[Lane]) -> BaselineStep:
        taken: list[tuple[Lane, int]] = []
        left = chunk
        for lane in prompts:
            if left <= 0 or len(taken) >= 4:
                break
            tokens = min(left, lane.prompt_left)
            taken.append((lane, tokens))
            left -= tokens
        total = chunk - left
        graph = min(
            (
                index
                for index, graph in enumerate(self._graphs)
                if graph.width == 1
                and (graph.prefill_tokens >= total if total else graph.prefill_tokens == 0)
                and (graph.decode_rows >= len(rows) if rows else graph.decode_rows == 0)
            ),
            key=lambda i: (self._graphs[i].prefill_tokens, self._graphs[i].decode_rows),
        )
        self._num_frames += 1
        for lane, tokens in taken:
            lane.prompt_left -= tokens
            lane.output_left -= lane.prompt_left == 0
        for lane in rows:
            lane.output_left -= 1
            lane.served_at = self._num_frames
        step = BaselineStep(
            self._num_frames,
            graph,
            [lane.handle for lane, _ in taken],
            [tokens for _, tokens in taken],
            [lane.handle for lane in rows],
        )
        self._flights.append(step)
        return step

    def complete(
        self,
        frame: int,
        now_ns: int,
        *,
        device_ns: int | None,
        lanes: Sequence[int],
        tokens: Sequence[int],
        ended: Sequence[bool],
    ) -> None:
        self._flights.popleft()
        for handle, has_ended in zip(lanes, ended, strict=True):
            if has_ended:
                self._lanes[handle].leaving = True
        in_flight = {
            handle for step in self._flights for handle in (*step.prompt_lanes, *step.row_lanes)
        }
        self._lanes = {
            handle: lane
            for handle, lane in self._lanes.items()
            if handle in in_flight or not lane.leaving
        }
