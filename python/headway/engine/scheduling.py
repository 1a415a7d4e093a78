"""The production selector over an executor's catalogue."""

from collections.abc import Sequence

from headway import _core
from headway.engine.frame import GraphShape
from headway.engine.selection import StepSelector


def make_selector(
    catalogue: Sequence[GraphShape], *, max_lanes: int, lifetime_ns: int | None = None
) -> StepSelector:
    """A `_core.StepScheduler` with its default prices; nothing is measured yet.

    `lifetime_ns`: age at which a measured cost is stale; None for the core's default.
    """
    graphs = [
        _core.StepGraph(
            name=graph.name,
            prefill_tokens=graph.prefill_tokens,
            prompt_rows=graph.prompt_rows,
            decode_rows=graph.decode_rows,
            width=graph.width,
            feedback=graph.feedback,
        )
        for graph in catalogue
    ]
    return _core.StepScheduler(graphs, max_lanes=max_lanes, lifetime_ns=lifetime_ns)
