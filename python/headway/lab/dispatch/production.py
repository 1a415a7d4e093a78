"""The product's own selector, as a policy of the lab."""

import copy
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from headway import _core
from headway.errors import ConfigError
from headway.lab.dispatch.catalog import GraphSpec
from headway.lab.dispatch.policy import Completion, Selection
from headway.lab.dispatch.request import RequestView
from headway.lab.dispatch.service import ServicePrices

REASONS = {
    _core.StepReason.BEST_SCORE: "best_score",
    _core.StepReason.LONE_PROMPT: "lone_prompt",
    _core.StepReason.PASSED_OVER: "passed_over",
    _core.StepReason.BOOTSTRAP: "bootstrap",
    _core.StepReason.REFRESH: "refresh",
}


class ProductionPolicy:
    """Drives `headway._core.StepScheduler`, the object that the worker's engine drives."""

    def __init__(
        self,
        graphs: Sequence[GraphSpec],
        prices: ServicePrices | None = None,
        *,
        known_costs: bool = True,
        name: str = "production",
    ) -> None:
        """With `known_costs` it starts with every cost measured and never measures again.

        Without, it starts cold as a worker does: graphs are bootstrapped and refreshed.
        """
        self.graphs = tuple(graphs)
        self.scheduler = _core.StepScheduler(
            [_native_graph(graph) for graph in self.graphs],
            prices=_core.StepPrices(**asdict(prices or ServicePrices())),
            probe_share=0.0 if known_costs else None,
        )
        self._name = name
        self._lanes: dict[int, int] = {}
        self._requests: dict[int, int] = {}
        self._frame = 0
        if known_costs:
            for index, graph in enumerate(self.graphs):
                self.scheduler.observe(
                    index,
                    device_ns=graph.duration_ns,
                    wall_ns=graph.duration_ns,
                    completed_at_ns=0,
                )

    @property
    def name(self) -> str:
        """For tables."""
        return self._name

    def __deepcopy__(self, memo: dict[int, Any]) -> "ProductionPolicy":
        """An independent twin, native state included."""
        twin = copy.copy(self)
        twin.scheduler = copy.copy(self.scheduler)
        twin._lanes = dict(self._lanes)
        twin._requests = dict(self._requests)
        return twin

    def arrive(self, now_ns: int, view: RequestView) -> None:
        """Takes a lane."""
        lane = self.scheduler.admit(
            now_ns,
            arrived_at_ns=view.arrived_at_ns,
            prompt_tokens=view.prompt_tokens,
            prompt_left=view.prompt_left,
            generated=view.generated,
            output_limit=view.output_limit,
            weight=view.weight,
            acceptance=list(view.acceptance),
        )
        self._lanes[view.index] = lane
        self._requests[lane] = view.index

    def select(self, now_ns: int, views: Sequence[RequestView]) -> Selection:
        """Dispatches one step and reports it."""
        scores = tuple((graph, score) for graph, _, score in self.scheduler.candidates(now_ns))
        step = self.scheduler.dispatch(now_ns)
        if isinstance(step, _core.StepPause):
            raise ConfigError("no graph of the catalog serves any live request; add one that does")
        self._frame = step.frame
        prompts = zip(step.prompt_lanes, step.prompt_tokens, strict=True)
        return Selection(
            step.graph,
            tuple((self._requests[lane], tokens) for lane, tokens in prompts),
            tuple(sorted(self._requests[lane] for lane in step.row_lanes)),
            step.score,
            REASONS[step.reason],
            scores,
        )

    def complete(self, completion: Completion) -> None:
        """Reports what was published, as the engine does."""
        published = completion.published
        self.scheduler.complete(
            self._frame,
            completion.ended_at_ns,
            device_ns=self.graphs[completion.selection.graph].duration_ns,
            lanes=[self._lanes[request] for request, _, _ in published],
            tokens=[tokens for _, tokens, _ in published],
            ended=[ended for _, _, ended in published],
        )


def _native_graph(graph: GraphSpec) -> _core.StepGraph:
    return _core.StepGraph(
        name=graph.name,
        prefill_tokens=graph.prefill_capacity,
        prompt_rows=graph.prompts if graph.prefill_capacity else 0,
        decode_rows=graph.decode_capacity,
        width=graph.width,
    )
