"""One long prompt beside streams: what it costs them, and what they cost it.

Question:  with eight streams decoding, a 3000-token prompt comes: how much longer are their gaps
           than without it (p99), and its first token than by the best chunks alone?
Workload:  the engine on simulated devices, CPU-like and GPU-like, each graph run once before; the
           prompt comes while nothing else does. All policies in one run. "headway, refreshing"
           also measures graphs again once they are stale; the others of its rows never do.
Machine:   any; time is virtual.
Command:   python -m bench.engine.head_of_line [--json FILE]
"""

import argparse
import json
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from headway.engine.surface import CostSurface, CpuLikeSurface, GpuLikeSurface

from .drive import POLICIES, MakeSelector, Reading, S, Simulation, Work, quantile

PROMPT = 3000
STREAMS = 8
SURFACES: dict[str, CostSurface] = {
    "cpu-like": CpuLikeSurface(max_rows=16),
    "gpu-like": GpuLikeSurface(),
}


@dataclass
class Figure:
    """Both ratios; 1 is undisturbed."""

    surface: str
    policy: str
    first_token_ratio: float
    gap_ratio: float
    longest_gap_ratio: float
    first_token_s: float


def measure(surface: CostSurface, make: MakeSelector, name: str, policy: str) -> Figure:
    alone_ns = isolated_ns(surface)
    _, quiet, _ = run(surface, make, prompt=False)
    beside_ns, gaps, longest = run(surface, make)
    return Figure(
        name,
        policy,
        beside_ns / alone_ns,
        gaps / quiet,
        longest / quiet,
        beside_ns / S,
    )


def run(
    surface: CostSurface, make: MakeSelector, *, streams: int = STREAMS, prompt: bool = True
) -> tuple[float, float, float]:
    """(first token of the prompt, p99 gap of streams in its window, longest such gap), ns."""
    simulation = Simulation(surface, make, lanes=STREAMS + 1)
    learnt_ns = _learn(simulation)
    readings = [simulation.offer(Work(learnt_ns + index, 8, 10**6)) for index in range(streams)]
    simulation.run(learnt_ns + 10 * S)
    at_ns = simulation.timeline.now_ns()
    long = simulation.offer(Work(at_ns, PROMPT, 10**6)) if prompt else None
    # Until the streams have had a gap after the prompt; without one, for a while.
    end_ns = at_ns + 30 * S
    if long is not None:
        while long.first_token_ns is None:
            simulation.run(simulation.timeline.now_ns() + S)
        end_ns = at_ns + long.first_token_ns + S
    simulation.run(end_ns)
    first_ns = 0 if long is None or long.first_token_ns is None else long.first_token_ns
    end_ns = at_ns + (first_ns if prompt else 30 * S)
    gaps = [gap for reading in readings for gap in _gaps_within(reading, at_ns, end_ns)]
    return first_ns, quantile(gaps, 0.99), max(gaps, default=0)


def isolated_ns(surface: CostSurface) -> int:
    """The prompt alone on the device, by the best chunks: the exact cover, by recursion."""
    chunks = [graph for graph in surface.graphs if not graph.decode_rows]
    best = [0] * (PROMPT + 1)
    for left in range(1, PROMPT + 1):
        costs = []
        for graph in chunks:
            tokens = min(left, graph.prefill_tokens)
            costs.append(surface.cost_ns(graph, tokens, 0) + best[left - tokens])
        best[left] = min(costs)
    return best[PROMPT]


def _learn(simulation: Simulation) -> int:
    """A second of service."""
    simulation.offer(Work(0, 8, 8))
    simulation.run(10 * S)
    return 10 * S


def _gaps_within(reading: Reading, start_ns: int, end_ns: int) -> list[int]:
    times = [at for at, _ in reading.delivered]
    return [
        later - earlier
        for earlier, later in pairwise(times)
        if later > start_ns and earlier < end_ns
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = []
    for name, surface in SURFACES.items():
        print(f"\n{name:18} {'first token':>12} {'p99 gap':>9} {'longest':>9}")
        for policy, make in POLICIES.items():
            figure = measure(surface, make, name, policy)
            figures.append(figure)
            print(
                f"{policy:18} {figure.first_token_ratio:>11.2f}x {figure.gap_ratio:>8.2f}x "
                f"{figure.longest_gap_ratio:>8.2f}x"
            )
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(each) for each in figures], indent=2) + "\n")


if __name__ == "__main__":
    main()
