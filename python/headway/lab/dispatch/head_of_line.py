"""One long prompt beside decoding streams: what each pays for the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headway.lab.dispatch.catalog import NS_PER_MS, GraphSpec, check_unique
from headway.lab.dispatch.policy import Policy
from headway.lab.dispatch.request import RequestSpec
from headway.lab.dispatch.simulator import Progress, Simulation

_ARRIVES_NS = 2_000 * NS_PER_MS
_MANY = 1_000_000


@dataclass(frozen=True)
class HeadOfLine:
    """Time to first token over that alone, and the streams' gaps over those without the prompt."""

    first_token: float
    p99_gap: float
    max_gap: float


def cpu_catalog() -> tuple[GraphSpec, ...]:
    """A CPU-like machine: decode 70 ms + 4.8 ms a row, prefill 47 ms + 3.4 ms a token.

    A mixed graph takes its decode time and 3.4 ms a prompt token. Prefills are shared by prompts.
    """
    rows, chunks = (1, 2, 4, 8, 16, 32), (16, 32, 64, 128, 256)
    decode_ns = {count: 70 * NS_PER_MS + count * 4_800_000 for count in rows}
    graphs = [GraphSpec(f"d{count}", decode_ns[count], 0, count) for count in rows]
    for tokens in chunks:
        work_ns = tokens * 3_400_000
        graphs.append(GraphSpec(f"p{tokens}", 47 * NS_PER_MS + work_ns, tokens, 0, 1, 8))
        graphs += [
            GraphSpec(f"m{tokens}d{count}", decode_ns[count] + work_ns, tokens, count, 1, 8)
            for count in rows
        ]
    return check_unique(graphs)


def head_of_line(
    graphs: Sequence[GraphSpec],
    make_policy: Callable[[], Policy],
    *,
    streams: int = 8,
    prompt_tokens: int = 3000,
) -> HeadOfLine:
    """Runs the prompt alone, the streams alone, and both; gaps count while the prompt waits."""
    decoding = tuple(RequestSpec(f"stream-{i}", 0, _MANY, _MANY) for i in range(streams))
    prompt = RequestSpec("prompt-0", prompt_tokens, 1, 1, arrives_at_ns=_ARRIVES_NS)

    def run(requests: tuple[RequestSpec, ...], seconds: int) -> list[Progress]:
        horizon_ns = seconds * 1_000 * NS_PER_MS
        return Simulation(graphs, requests, make_policy()).run(horizon_ns).requests

    alone_ns = _first_token_ns(run((prompt,), 1_000)[0])
    quiet_ns = [gap for progress in run(decoding, 20) for gap in progress.gaps_ns]
    *served, waiting = run((*decoding, prompt), 120)
    first_token_ns = _first_token_ns(waiting)
    gaps_ns = [
        gap
        for progress in served
        for gap in _gaps_within(progress, _ARRIVES_NS, _ARRIVES_NS + first_token_ns)
    ]
    quiet = float(np.percentile(quiet_ns, 99))
    return HeadOfLine(
        first_token_ns / alone_ns, float(np.percentile(gaps_ns, 99)) / quiet, max(gaps_ns) / quiet
    )


def _first_token_ns(progress: Progress) -> int:
    if progress.first_token_at_ns is None:
        raise ValueError("the prompt had no first token within the horizon; it was starved")
    return progress.first_token_at_ns - progress.spec.arrives_at_ns


def _gaps_within(progress: Progress, start_ns: int, end_ns: int) -> list[int]:
    instants = [at_ns for at_ns, _ in progress.deliveries]
    return [
        after - before
        for before, after in pairwise(instants)
        if after > start_ns and before < end_ns
    ]
