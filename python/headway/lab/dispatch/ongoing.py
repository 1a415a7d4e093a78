"""Dispatch by the prices of ongoing service, with known graph costs."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headway.errors import ConfigError
from headway.lab.dispatch.catalog import GraphSpec
from headway.lab.dispatch.policy import Completion, Selection, better
from headway.lab.dispatch.request import RequestView, expected_tokens
from headway.lab.dispatch.service import (
    Pricing,
    PromptPrice,
    Reference,
    Service,
    ServicePrices,
    StreamPrice,
    advance,
)


class OngoingServicePolicy:
    """Proportional-fair token prices, decode age with continuation, pressure on prompts."""

    def __init__(
        self,
        graphs: Sequence[GraphSpec],
        prices: ServicePrices | None = None,
        name: str = "ongoing",
    ) -> None:
        self.graphs = tuple(graphs)
        self.prices = prices or ServicePrices()
        self.reference = Reference(self.graphs)
        self.services: dict[int, Service] = {}
        self._name = name
        self._views: dict[int, RequestView] = {}
        self._decode_time_s = 0.0

    def __deepcopy__(self, memo: dict[int, Any]) -> "OngoingServicePolicy":
        """An independent twin that shares what never changes."""
        twin = copy.copy(self)
        twin.services = {index: replace(s) for index, s in self.services.items()}
        twin._views = dict(self._views)
        return twin

    @property
    def name(self) -> str:
        """For tables."""
        return self._name

    def arrive(self, now_ns: int, view: RequestView) -> None:
        """Starts its history at a fair share."""
        streams = sum(known.prompt_left == 0 for known in self._views.values())
        share = 1 / (len(self._views) + 1)
        gap_s = self.reference.decode_time_s(streams) if view.prompt_left == 0 else 0.0
        self.services[view.index] = Service(
            share, share, gap_s, view.arrived_at_ns, view.arrived_at_ns
        )
        self._views[view.index] = view

    def select(self, now_ns: int, views: Sequence[RequestView]) -> Selection:
        """The graph of the highest score with its best cohort."""
        self._views = {view.index: view for view in views}
        pricing = Pricing(now_ns, views, self.services, self.reference, self.prices)
        self._decode_time_s = pricing.decode_time_s
        candidates = [
            candidate
            for index in range(len(self.graphs))
            if (candidate := self._candidate(index, pricing)) is not None
        ]
        if not candidates:
            raise ConfigError("no graph of the catalog serves any live request; add one that does")
        chosen, reason = self._choose(candidates, pricing)
        scores = tuple((candidate.graph, candidate.score) for candidate in candidates)
        return Selection(chosen.graph, chosen.prompts, chosen.rows, chosen.score, reason, scores)

    def complete(self, completion: Completion) -> None:
        """Moves the histories of all that were there."""
        occupied_s = (completion.ended_at_ns - completion.started_at_ns) * 1e-9
        prompts = dict(completion.selection.prompts)
        published = {request: tokens for request, tokens, _ in completion.published}
        for index in self._views:
            service = self.services[index]
            if index in prompts:
                self._prefilled(service, prompts[index], published[index], completion)
            else:
                tokens = published.get(index, 0)
                steps = self._decode_time_s / occupied_s
                deliveries = steps * min(tokens, 1)
                advance(
                    service,
                    tokens * steps,
                    deliveries,
                    occupied_s,
                    self._decode_time_s,
                    self.prices,
                )
                if tokens > 0:
                    self._deliver(service, completion.ended_at_ns)
        for request, _, ended in completion.published:
            if ended:
                del self._views[request]

    def _prefilled(
        self, service: Service, tokens: int, published: int, completion: Completion
    ) -> None:
        occupied_s = (completion.ended_at_ns - completion.started_at_ns) * 1e-9
        share = tokens / (occupied_s * self.reference.prefill_rate)
        advance(service, share, 0.0, occupied_s, self._decode_time_s, self.prices)
        service.served_at_ns = completion.ended_at_ns
        if published:
            service.gap_s = self._decode_time_s
            service.published_at_ns = completion.ended_at_ns

    def _deliver(self, service: Service, now_ns: int) -> None:
        gap_s = (now_ns - service.published_at_ns) * 1e-9
        weight = self.prices.gap_weight if service.gap_s > 0 else 1.0
        service.gap_s += weight * (gap_s - service.gap_s)
        service.published_at_ns = service.served_at_ns = now_ns

    def _candidate(self, index: int, pricing: Pricing) -> Selection | None:
        graph = self.graphs[index]
        time_s = graph.duration_ns * 1e-9
        prompts = self._fill(graph, pricing.prompts)
        rows = self._rows(graph, pricing.streams, time_s)
        if not prompts and not rows:
            return None
        value = sum(value for _, value in rows)
        value += sum(
            tokens * prompt.token + prompt.completion * (tokens == prompt.view.prompt_left)
            for prompt, tokens in prompts
        )
        value -= sum(stream.waiting(time_s) for stream in pricing.streams)
        return Selection(
            index,
            tuple((prompt.view.index, tokens) for prompt, tokens in prompts),
            tuple(sorted(row for row, _ in rows)),
            value / time_s,
            "value",
        )

    def _rows(
        self, graph: GraphSpec, streams: Sequence[StreamPrice], time_s: float
    ) -> list[tuple[int, float]]:
        values = [
            (stream.view.index, stream.row(expected_tokens(stream.view, graph.width), time_s))
            for stream in streams
        ]
        return sorted(values, key=lambda row: (-row[1], row[0]))[: graph.decode_capacity]

    def _fill(
        self, graph: GraphSpec, prompts: Sequence[PromptPrice]
    ) -> list[tuple[PromptPrice, int]]:
        left = graph.prefill_capacity
        chosen = []
        for prompt in prompts[: graph.prompts]:
            tokens = min(prompt.view.prompt_left, left)
            if tokens > 0:
                chosen.append((prompt, tokens))
                left -= tokens
        return chosen

    def _choose(self, candidates: Sequence[Selection], pricing: Pricing) -> tuple[Selection, str]:
        if not pricing.streams and len(pricing.prompts) == 1 and self.prices.plan_lone_prompt:
            first = self.reference.plan.first(pricing.prompts[0].view.prompt_left)
            return next(c for c in candidates if c.graph == first), "lone_prompt"
        if any(prompt.passed_over >= 1 for prompt in pricing.prompts):
            serving = [c for c in candidates if self.graphs[c.graph].prefill_capacity]
            if serving:
                return self._best(serving), "passed_over"
        return self._best(candidates), "best_score"

    def _best(self, candidates: Sequence[Selection]) -> Selection:
        best = candidates[0]
        for candidate in candidates[1:]:
            duration_ns = self.graphs[candidate.graph].duration_ns
            best_ns = self.graphs[best.graph].duration_ns
            if better(candidate.score, duration_ns, best.score, best_ns):
                best = candidate
        return best
