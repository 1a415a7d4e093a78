"""Whole workloads: who is served in time, under each step policy.

Question:  SLO goodput, output tokens a second and p99 time to the first token, by policy, from half
           the capacity to beyond it?
Workload:  the engine on simulated devices. chat: prompts lognormal (median 250, sigma 1.0), outputs
           (median 120, sigma 0.8), Poisson arrivals at a share of the capacity, which is
           1 / (E[prompt] / R_pre + E[output] / R_dec); long: prompts of median 2000, outputs 80;
           short: 30 and 60; drafts: chat at 1.1 with acceptance uniform in (0.2, 0.9) and widths
           1, 2, 4, 8; closed 32: 32 readers, each with its next request once the last has ended.
           Lanes: 32 CPU-like, 64 GPU-like; later arrivals wait in line. Good: first token within
           10 s and p95 gap within 1 s (CPU-like), 2 s and 200 ms (GPU-like). The first 15 % are
           left out; what has no first token at the end counts as not good. "headway slo" is told
           the objective. All policies in one run; costs do not go stale but in "refreshing".
Machine:   any; time is virtual.
Command:   python -m bench.engine.workloads [--surface cpu-like] [--workload chat.8] [--seeds 1]
           [--scale 1.0] [--json FILE]
"""

import argparse
import json
import math
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from headway._core import Rng
from headway.engine.request import Targets
from headway.engine.surface import CostSurface, CpuLikeSurface, GpuLikeSurface

from .drive import POLICIES, Reading, S, Simulation, Work, quantile

MS = 1_000_000
WIDTHS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Device:
    """A surface, its lanes, and what readers on it want."""

    surface: CostSurface
    drafting: CostSurface
    lanes: int
    seconds: float
    first_ns: int
    gap_ns: int
    decode_rate: float
    prefill_rate: float


DEVICES = {
    "cpu-like": Device(
        CpuLikeSurface(), CpuLikeSurface(widths=WIDTHS), 32, 600, 10 * S, S,
        32 / 0.2236, 1 / 0.0034,
    ),
    "gpu-like": Device(
        GpuLikeSurface(), GpuLikeSurface(widths=WIDTHS), 64, 60, 2 * S, 200 * MS,
        64 / 0.028, 4096 / (0.75 * 0.0766),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """Medians and spreads of prompts and outputs, and the load."""

    prompt: float
    prompt_sigma: float
    output: float
    output_sigma: float
    load: float  # 0: closed
    drafts: bool = False


WORKLOADS = {
    "chat.5": Workload(250, 1.0, 120, 0.8, 0.5),
    "chat.8": Workload(250, 1.0, 120, 0.8, 0.8),
    "chat.95": Workload(250, 1.0, 120, 0.8, 0.95),
    "chat1.1": Workload(250, 1.0, 120, 0.8, 1.1),
    "long": Workload(2000, 0.5, 80, 0.5, 0.8),
    "short": Workload(30, 0.5, 60, 0.5, 0.8),
    "drafts": Workload(250, 1.0, 120, 0.8, 1.1, drafts=True),
    "closed 32": Workload(250, 1.0, 120, 0.8, 0.0),
}


@dataclass
class Row:
    """One policy on one workload; means over seeds."""

    surface: str
    workload: str
    policy: str
    goodput: float
    tokens_per_s: float
    first_p50_s: float
    first_p99_s: float
    gap_p99_ms: float


def lognormal(rng: Rng, median: float, sigma: float) -> int:
    radius = math.sqrt(-2 * math.log(1 - rng.uniform()))
    normal = radius * math.cos(2 * math.pi * rng.uniform())
    return max(1, min(8000, round(median * math.exp(sigma * normal))))


def works(device: Device, workload: Workload, seed: int) -> Callable[[int], Work]:
    """Draws request after request; the argument is its instant."""
    rng = Rng(seed)

    def draw(at_ns: int) -> Work:
        acceptance = 0.2 + 0.7 * rng.uniform() if workload.drafts else 0.0
        return Work(
            at_ns,
            lognormal(rng, workload.prompt, workload.prompt_sigma),
            lognormal(rng, workload.output, workload.output_sigma),
            acceptance,
        )

    return draw


def capacity(device: Device, workload: Workload) -> float:
    prompt = workload.prompt * math.exp(workload.prompt_sigma**2 / 2)
    output = workload.output * math.exp(workload.output_sigma**2 / 2)
    return 1 / (prompt / device.prefill_rate + output / device.decode_rate)


def run(device: Device, workload: Workload, policy: str, seed: int, scale: float) -> list[Reading]:
    told = policy == "headway slo"
    simulation = Simulation(
        device.drafting if workload.drafts else device.surface,
        POLICIES["headway" if told else policy],
        lanes=device.lanes,
        seed=seed,
    )
    draw = works(device, workload, seed)
    end_ns = round(device.seconds * scale * S)

    def offer(at_ns: int) -> Reading:
        work = draw(at_ns)
        if told:
            work.targets = Targets(first_token_at_ns=at_ns + device.first_ns, gap_ns=device.gap_ns)
        return simulation.offer(work)

    if workload.load:
        gaps = Rng(seed + 1000)
        mean_ns = S / (workload.load * capacity(device, workload))
        at_ns = 0
        while (at_ns := at_ns + round(-mean_ns * math.log(1 - gaps.uniform()))) < end_ns:
            offer(at_ns)
    else:
        for _ in range(32):
            _keep_offering(simulation, offer)
    simulation.run(end_ns)
    return [r for r in simulation.readings if r.work.at_ns > 0.15 * end_ns]


def _keep_offering(simulation: Simulation, offer: Callable[[int], Reading]) -> None:
    reading = offer(simulation.timeline.now_ns())
    reading.on_end = lambda: _keep_offering(simulation, offer)


def measure(
    name: str, device: Device, label: str, workload: Workload, policy: str, seeds: int, scale: float
) -> Row:
    end_ns = device.seconds * scale * S
    parts = []
    for seed in range(21, 21 + seeds):
        readings = run(device, workload, policy, seed, scale)
        # Without a first token yet: at least as late as the end.
        firsts = [
            r.first_token_ns if r.first_token_ns is not None else end_ns - r.work.at_ns
            for r in readings
        ]
        settled = [r for r in readings if r.ending or end_ns - r.work.at_ns > device.first_ns]
        good = [r for r in settled if _is_good(r, device)]
        tokens = sum(n for r in readings for at, n in r.delivered if at > 0.15 * end_ns)
        gaps = [gap for r in readings for gap in r.gaps_ns]
        parts.append(
            (
                len(good) / max(1, len(settled)),
                tokens / (0.85 * end_ns / S),
                quantile(firsts, 0.5) / S,
                quantile(firsts, 0.99) / S,
                quantile(gaps, 0.99) / MS,
            )
        )
    return Row(name, label, policy, *(statistics.mean(p[i] for p in parts) for i in range(5)))


def _is_good(reading: Reading, device: Device) -> bool:
    first_ns = reading.first_token_ns
    if first_ns is None or first_ns > device.first_ns:
        return False
    return quantile(reading.gaps_ns, 0.95) <= device.gap_ns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--surface", choices=sorted(DEVICES))
    parser.add_argument("--workload", choices=sorted(WORKLOADS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="of the simulated time")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    policies = [*POLICIES, "headway slo"]
    rows = []
    for name, device in DEVICES.items():
        if arguments.surface not in (None, name):
            continue
        for label, workload in WORKLOADS.items():
            if arguments.workload not in (None, label):
                continue
            print(f"\n{name} {label:12} good %   tok/s   first p50/p99 s   gap p99 ms", flush=True)
            for policy in policies:
                row = measure(
                    name, device, label, workload, policy, arguments.seeds, arguments.scale
                )
                rows.append(row)
                print(
                    f"  {policy:20} {100 * row.goodput:6.1f} {row.tokens_per_s:8.1f}"
                    f" {row.first_p50_s:8.2f} {row.first_p99_s:8.2f} {row.gap_p99_ms:10.0f}",
                    flush=True,
                )
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


if __name__ == "__main__":
    main()
