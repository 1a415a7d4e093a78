"""A baseline: every stream in every step, and prompts in chunks beside them."""

from collections.abc import Sequence

from headway.errors import ConfigError
from headway.lab.dispatch.catalog import GraphSpec
from headway.lab.dispatch.policy import Completion, Selection
from headway.lab.dispatch.request import RequestView


class DecodeFirstPolicy:
    """Chunked prefill in order of arrival, at most `chunk` tokens a step.

    Source: the scheduling rule of Sarathi-Serve (Agrawal et al., OSDI 2024), on prepared graphs.
    """

    def __init__(self, graphs: Sequence[GraphSpec], chunk: int) -> None:
        self.graphs = tuple(graphs)
        self.chunk = chunk

    @property
    def name(self) -> str:
        """For tables."""
        return f"decode-first-{self.chunk}"

    def arrive(self, now_ns: int, view: RequestView) -> None:
        """Keeps no history."""

    def complete(self, completion: Completion) -> None:
        """Keeps no history."""

    def select(self, now_ns: int, views: Sequence[RequestView]) -> Selection:
        """The graph that takes most rows, then most wanted prompt tokens, then the shortest."""
        streams = [view for view in views if view.prompt_left == 0]
        prompts = [view for view in views if view.prompt_left > 0]
        wanted = min(sum(view.prompt_left for view in prompts), self.chunk)

        def rank(index: int) -> tuple[int, int, int]:
            graph = self.graphs[index]
            tokens = min(graph.prefill_capacity, wanted)
            rows = min(graph.decode_capacity, len(streams))
            return rows, tokens, -graph.duration_ns

        allowed = [i for i, graph in enumerate(self.graphs) if graph.prefill_capacity <= self.chunk]
        best = max(allowed, key=rank, default=-1)
        if best < 0 or rank(best)[:2] == (0, 0):
            raise ConfigError("no graph of the catalog serves any live request; add one that does")
        graph = self.graphs[best]
        rows = tuple(view.index for view in streams[: graph.decode_capacity])
        return Selection(best, self._chunks(graph, prompts), rows, 0.0, "decode_first")

    def _chunks(
        self, graph: GraphSpec, prompts: Sequence[RequestView]
    ) -> tuple[tuple[int, int], ...]:
        left = graph.prefill_capacity
        chunks = []
        for view in prompts[: graph.prompts]:
            tokens = min(view.prompt_left, left)
            if tokens > 0:
                chunks.append((view.index, tokens))
                left -= tokens
        return tuple(chunks)
