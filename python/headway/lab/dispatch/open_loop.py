"""Arrivals for twenty minutes on a CPU-like machine: who waits, and how long.

Question:  what the bound on waiting (`patience`) buys long prompts, and what it costs.
Workload:  Poisson arrivals at a share of the capacity 1/(E[P]/R_pre + E[O]/R_dec), log-normal
           prompts (sigma 1) and outputs (sigma 0.8), 32 slots, the first 15 % of arrivals left out.
Command:   python -m headway.lab.dispatch.open_loop
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headway.lab.dispatch.catalog import GraphSpec
from headway.lab.dispatch.decode_first import DecodeFirstPolicy
from headway.lab.dispatch.head_of_line import cpu_catalog
from headway.lab.dispatch.policy import Policy
from headway.lab.dispatch.production import ProductionPolicy
from headway.lab.dispatch.request import RequestSpec
from headway.lab.dispatch.service import Reference, ServicePrices
from headway.lab.dispatch.simulator import Run, Simulation

SLOTS = 32
_FIRST_TOKEN_S, _GAP_S = 10.0, 1.0


@dataclass(frozen=True)
class Waits:
    """Times to first token and gaps in s; unfinished prompts count up to the end of the run."""

    median_first_token: float
    p99_first_token: float
    p99_first_token_of_long: float
    p99_gap: float
    output_tokens_per_s: float
    on_time_share: float


def arrivals(
    graphs: Sequence[GraphSpec],
    *,
    load: float,
    mean_prompt: int,
    mean_output: int,
    seconds: int,
    seed: int,
) -> tuple[RequestSpec, ...]:
    """Requests in order of arrival; the same for the same arguments."""
    rng = np.random.default_rng(seed)
    reference = Reference(graphs)
    work_s = mean_prompt / reference.prefill_rate + mean_output / reference.decode_rate
    specs: list[RequestSpec] = []
    now_s = float(rng.exponential(work_s / load))
    while now_s < seconds:
        prompt = rng.lognormal(np.log(mean_prompt) - 0.5, 1.0)
        output = rng.lognormal(np.log(mean_output) - 0.32, 0.8)
        name, at_ns = f"request-{len(specs)}", int(now_s * 1e9)
        tokens = int(np.clip(prompt, 1, 8000)), int(np.clip(output, 1, 2000))
        specs.append(RequestSpec(name, *tokens, output_limit=2000, arrives_at_ns=at_ns))
        now_s += float(rng.exponential(work_s / load))
    return tuple(specs)


def waits(run: Run, seconds: int) -> Waits:
    """What the requests of a run waited."""
    counted = [p for p in run.requests if p.spec.arrives_at_ns >= 0.15e9 * seconds]
    first = np.array(
        [((p.first_token_at_ns or run.ended_at_ns) - p.spec.arrives_at_ns) / 1e9 for p in counted]
    )
    lengths = np.array([p.spec.prompt_tokens for p in counted])
    gaps = [np.array(p.gaps_ns or [0]) / 1e9 for p in counted]
    on_time = [
        bool(wait <= _FIRST_TOKEN_S and np.percentile(gap, 95) <= _GAP_S and p.ended_at_ns)
        for wait, gap, p in zip(first, gaps, counted, strict=True)
    ]
    return Waits(
        float(np.median(first)),
        float(np.percentile(first, 99)),
        float(np.percentile(first[lengths >= np.quantile(lengths, 0.9)], 99)),
        float(np.percentile(np.concatenate(gaps), 99)),
        sum(p.generated for p in run.requests) / (run.ended_at_ns / 1e9),
        float(np.mean(on_time)),
    )


def policies(graphs: Sequence[GraphSpec]) -> dict[str, Callable[[], Policy]]:
    """The product with several bounds, and decode-first chunking."""
    makers: dict[str, Callable[[], Policy]] = {}
    for patience in (0.0, 2.0, 3.0, 4.0):
        prices = ServicePrices(patience=patience)
        makers[f"patience {patience:g}"] = lambda prices=prices: ProductionPolicy(  # type: ignore[misc]
            graphs, prices
        )
    makers["decode-first-256"] = lambda: DecodeFirstPolicy(graphs, 256)
    return makers


def main(seconds: int = 1200, seed: int = 21) -> None:
    """Prints a line a workload and policy."""
    graphs = cpu_catalog()
    print(f"{'workload':10} {'policy':18} TTFT p50    p99  long p99  gap p99  tok/s  on time")
    for name, mean_prompt in (("chat", 350), ("long", 3000)):
        specs = arrivals(
            graphs, load=0.8, mean_prompt=mean_prompt, mean_output=150, seconds=seconds, seed=seed
        )
        for policy, make in policies(graphs).items():
            run = Simulation(graphs, specs, make(), slots=SLOTS).run(seconds * 1_000_000_000)
            row = waits(run, seconds)
            print(
                f"{name:10} {policy:18} {row.median_first_token:8.2f} {row.p99_first_token:6.1f} "
                f"{row.p99_first_token_of_long:9.1f} {row.p99_gap:8.2f} "
                f"{row.output_tokens_per_s:6.1f} {row.on_time_share:8.0%}"
            )


if __name__ == "__main__":
    main()
