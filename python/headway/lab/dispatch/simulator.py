"""One execution resource, one graph in flight, output published at its completion."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headway.lab.dispatch.acceptance import published_tokens
from headway.lab.dispatch.catalog import GraphSpec
from headway.lab.dispatch.policy import Completion, Policy, Selection
from headway.lab.dispatch.request import RequestSpec, RequestView


@dataclass
class Progress:
    """A request in a run. Instants in ns of the run's clock, which starts at 0."""

    spec: RequestSpec
    prompt_left: int
    generated: int = 0
    arrived: bool = False
    wait_since_ns: int = 0
    first_token_at_ns: int | None = None
    ended_at_ns: int | None = None
    deliveries: list[tuple[int, int]] = field(default_factory=list)
    gaps_ns: list[int] = field(default_factory=list)
    age_area_ns2: float = 0.0

    @property
    def live(self) -> bool:
        """Arrived and not ended."""
        return self.arrived and self.ended_at_ns is None

    @property
    def decoding(self) -> bool:
        """Live, with its prompt done."""
        return self.live and self.prompt_left == 0


@dataclass
class Run:
    """Everything that happened. `steps` in order."""

    graphs: tuple[GraphSpec, ...]
    requests: list[Progress]
    steps: list[Completion]
    ended_at_ns: int

    @property
    def busy_ns(self) -> int:
        """Time the resource was in use; not its efficiency."""
        return sum(step.ended_at_ns - step.started_at_ns for step in self.steps)


class Simulation:
    """Runs one policy over one workload. Deterministic in its arguments."""

    def __init__(
        self,
        graphs: Sequence[GraphSpec],
        requests: Sequence[RequestSpec],
        policy: Policy,
        seed: int = 0,
        slots: int | None = None,
    ) -> None:
        """`seed` of the acceptance draws, which depend on nothing else but their place.

        With `slots`, at most as many requests are live; the others wait outside, by workload order.
        """
        self.graphs = tuple(graphs)
        self.requests = [Progress(spec, spec.prompt_tokens) for spec in requests]
        self.policy = policy
        self.seed = seed
        self.slots = len(self.requests) if slots is None else slots
        self.now_ns = 0

    def run(self, horizon_ns: int) -> Run:
        """Until all requests ended, or no step may start any more at `horizon_ns`.

        A step started before the horizon finishes in full.
        """
        steps = list(self._steps(horizon_ns))
        return Run(self.graphs, self.requests, steps, self.now_ns)

    def _steps(self, horizon_ns: int) -> Iterator[Completion]:
        while self.now_ns < horizon_ns:
            self._arrive()
            views = self._views()
            if not views:
                upcoming = [p.spec.arrives_at_ns for p in self.requests if not p.arrived]
                if not upcoming:
                    return
                self.now_ns = max(self.now_ns, min(upcoming))
                continue
            yield self._execute(self.policy.select(self.now_ns, views))

    def _arrive(self) -> None:
        free = self.slots - sum(progress.live for progress in self.requests)
        for index, progress in enumerate(self.requests):
            if free <= 0:
                return
            if not progress.arrived and progress.spec.arrives_at_ns <= self.now_ns:
                free -= 1
                progress.arrived = True
                progress.wait_since_ns = progress.spec.arrives_at_ns
                if progress.decoding:
                    self._age(progress, progress.wait_since_ns, self.now_ns)
                self.policy.arrive(self.now_ns, self._view(index))

    def _view(self, index: int) -> RequestView:
        progress = self.requests[index]
        spec = progress.spec
        return RequestView(
            index=index,
            arrived_at_ns=spec.arrives_at_ns,
            prompt_tokens=spec.prompt_tokens,
            prompt_left=progress.prompt_left,
            generated=progress.generated,
            output_limit=spec.output_limit,
            published_at_ns=progress.wait_since_ns,
            acceptance=spec.acceptance,
            weight=spec.weight,
        )

    def _views(self) -> list[RequestView]:
        return [self._view(index) for index, p in enumerate(self.requests) if p.live]

    def _execute(self, selection: Selection) -> Completion:
        graph = self.graphs[selection.graph]
        started_at_ns = self.now_ns
        self.now_ns += graph.duration_ns
        for progress in self.requests:
            if progress.decoding:
                self._age(progress, started_at_ns, self.now_ns)
        published = [self._prefill(index, tokens) for index, tokens in selection.prompts]
        published += [self._decode(index, graph.width) for index in selection.rows]
        completion = Completion(selection, started_at_ns, self.now_ns, tuple(published))
        self.policy.complete(completion)
        return completion

    def _prefill(self, index: int, tokens: int) -> tuple[int, int, bool]:
        progress = self.requests[index]
        progress.prompt_left -= tokens
        if progress.prompt_left > 0:
            return index, 0, False
        return self._publish(index, 1)

    def _decode(self, index: int, width: int) -> tuple[int, int, bool]:
        progress = self.requests[index]
        tokens = published_tokens(progress.spec, index, progress.generated, width, self.seed)
        return self._publish(index, tokens)

    def _publish(self, index: int, tokens: int) -> tuple[int, int, bool]:
        progress = self.requests[index]
        progress.generated += tokens
        progress.deliveries.append((self.now_ns, tokens))
        if progress.first_token_at_ns is None:
            progress.first_token_at_ns = self.now_ns
        if progress.spec.prompt_tokens == 0 or len(progress.deliveries) > 1:
            progress.gaps_ns.append(self.now_ns - progress.wait_since_ns)
        progress.wait_since_ns = self.now_ns
        ended = progress.generated >= progress.spec.length
        if ended:
            progress.ended_at_ns = self.now_ns
        return index, tokens, ended

    def _age(self, progress: Progress, start_ns: int, end_ns: int) -> None:
        """Adds `A T + T²/2` of a stream's age A over a step of T, served or not."""
        start_ns = max(start_ns, progress.wait_since_ns)
        age_ns = start_ns - progress.wait_since_ns
        duration_ns = max(end_ns - start_ns, 0)
        progress.age_area_ns2 += age_ns * duration_ns + duration_ns * duration_ns / 2
