"""Dispatch by fixed values: prompt tokens and output tokens have a price, nothing else has."""

from collections.abc import Sequence
from dataclasses import dataclass

from headway.errors import ConfigError
from headway.lab.dispatch.catalog import GraphSpec
from headway.lab.dispatch.policy import Completion, Selection, better
from headway.lab.dispatch.request import RequestView, expected_tokens


@dataclass(frozen=True)
class Cohort:
    """Lanes of one graph with the value they earn."""

    prompts: tuple[tuple[int, int], ...]
    rows: tuple[int, ...]
    value: float


def prompt_value(view: RequestView, tokens: int, decode_value: float) -> float:
    """`w (P + beta [completes])`: the last prompt token publishes the first output token."""
    return view.weight * (tokens + decode_value * (tokens == view.prompt_left))


def row_value(view: RequestView, width: int, decode_value: float) -> float:
    """`w beta E[D]`."""
    return view.weight * decode_value * expected_tokens(view, width)


def best_cohort(
    graph: GraphSpec, views: Sequence[RequestView], decode_value: float
) -> Cohort | None:
    """The lanes of most value: top-valued rows, top-valued prompt. None if it serves nobody.

    Exact where one prompt has the graph's prefill to itself (`prompts` = 1), since rewards are
    additive and the duration is fixed; prompts that share it are taken by value a token.
    Ties go to the lower index.
    """
    streams = [view for view in views if view.prompt_left == 0]
    waiting = [view for view in views if view.prompt_left > 0]
    rows = sorted(
        streams, key=lambda view: (-row_value(view, graph.width, decode_value), view.index)
    )
    rows = rows[: graph.decode_capacity]
    prompts = _prompts(graph, waiting, decode_value)
    if not rows and not prompts:
        return None
    value = sum(row_value(view, graph.width, decode_value) for view in rows)
    value += sum(prompt_value(view, tokens, decode_value) for view, tokens in prompts)
    return Cohort(
        tuple((view.index, tokens) for view, tokens in prompts),
        tuple(sorted(view.index for view in rows)),
        value,
    )


def _prompts(
    graph: GraphSpec, waiting: Sequence[RequestView], decode_value: float
) -> list[tuple[RequestView, int]]:
    def gain(view: RequestView) -> float:
        tokens = min(view.prompt_left, graph.prefill_capacity)
        value = prompt_value(view, tokens, decode_value)
        return value if graph.prompts == 1 else value / tokens

    chosen: list[tuple[RequestView, int]] = []
    left = graph.prefill_capacity
    if left > 0:
        for view in sorted(waiting, key=lambda view: (-gain(view), view.index))[: graph.prompts]:
            tokens = min(view.prompt_left, left)
            if tokens > 0:
                chosen.append((view, tokens))
                left -= tokens
    return chosen


class FixedValuePolicy:
    """The largest `Σ w (P + beta D) / T` of any graph with its best cohort."""

    def __init__(self, graphs: Sequence[GraphSpec], decode_value: float) -> None:
        """`decode_value` beta: an output token's value in prompt tokens, above 0."""
        if not decode_value > 0:
            raise ConfigError(f"decode_value must be above 0, got {decode_value}")
        self.graphs = tuple(graphs)
        self.decode_value = decode_value

    @property
    def name(self) -> str:
        """For tables."""
        return f"fixed-{self.decode_value:g}"

    def arrive(self, now_ns: int, view: RequestView) -> None:
        """Keeps no history."""

    def select(self, now_ns: int, views: Sequence[RequestView]) -> Selection:
        """The graph of most value per second with its best cohort."""
        best: tuple[int, Cohort, float] | None = None
        scores = []
        for index, graph in enumerate(self.graphs):
            cohort = best_cohort(graph, views, self.decode_value)
            if cohort is None:
                continue
            score = cohort.value / graph.duration_ns * 1e9
            scores.append((index, score))
            if best is None or better(
                score, graph.duration_ns, best[2], self.graphs[best[0]].duration_ns
            ):
                best = (index, cohort, score)
        if best is None:
            raise ConfigError("no graph of the catalog serves any live request; add one that does")
        graph_index, cohort, score = best
        return Selection(graph_index, cohort.prompts, cohort.rows, score, "value", tuple(scores))

    def complete(self, completion: Completion) -> None:
        """Keeps no history."""
