"""What replicas that fail, drag or stall, and clients that send poison, cost the others.

Question:  see each figure below; every one is printed beside its reference from the same run.
Workload:  simulated workers (18 ms + 0.022 ms a unit, 8 % jitter), one gateway, `headway loadtest`,
           open loop with random arrivals but for poison. Each run starts fleets of its own.
Machine:   two cores, which the load generator shares.
Command:   python -m bench.load.resilience [failing slow poison hedging saturated]
           [--seconds 20] [--runs 3]

failing    One of three replicas fails every batch after 2 ms. Reference: three that work.
           Target: at least 99.5 % of requests succeed.
slow       One of four replicas takes ten times as long. Reference: the fleet without it.
           Target: p99 at most 1.5 times.
poison     One of 32 clients sends input that fails every batch it is in.
           Target: the other 31 get all their answers.
hedging    One of four replicas stalls 1 % of its batches by 2 s. Reference: the same without
           hedges. Target: p99.9 at least five times lower, at most 5 % more device time.
saturated  The same beyond capacity, closed loop. Target: no throughput lost, next to no copies.
"""

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.load.live_fleet import LiveFleet, WorkerSpec, live_fleet
from headway.client import Client
from headway.errors import HeadwayError
from headway.v1 import inference_pb2, types_pb2

Figures = dict[str, float]
STALLS = {"slow": 0.01, "slow_ms": 2000}


def good(count: int) -> list[WorkerSpec]:
    return [WorkerSpec(f"good-{number}") for number in range(count)]


def open_loop(fleet: LiveFleet, rate: float, seconds: float) -> dict[str, Any]:
    return fleet.load(
        f"--rate={rate}", f"--seconds={seconds}", "--warmup=3", "--size=fixed:128",
        "--deadline-mix=5s",
    )  # fmt: skip


def failing(folder: Path, seconds: float) -> Figures:
    with live_fleet(folder / "reference", good(3)) as fleet:
        reference = open_loop(fleet, 150, seconds)
    bad = WorkerSpec("bad", failures={"fail_fast": 1})
    with live_fleet(folder / "failing", [*good(2), bad]) as fleet:
        # No warm-up: what happens before the breaker opens counts.
        report = fleet.load(
            "--rate=150", f"--seconds={seconds}", "--warmup=0", "--size=fixed:128",
            "--deadline-mix=5s",
        )  # fmt: skip
    return {
        "success_%": 100 * report["ok"] / report["offered"],
        "reference_success_%": 100 * reference["ok"] / reference["offered"],
        "p99_ms": report["latency_ms"]["p99"],
        "reference_p99_ms": reference["latency_ms"]["p99"],
    }


def slow(folder: Path, seconds: float) -> Figures:
    with live_fleet(folder / "reference", good(3)) as fleet:
        reference = open_loop(fleet, 100, seconds)
    with live_fleet(folder / "slow", [*good(3), WorkerSpec("slow", speed=0.1)]) as fleet:
        report = open_loop(fleet, 100, seconds)
    return {
        "p99_ms": report["latency_ms"]["p99"],
        "reference_p99_ms": reference["latency_ms"]["p99"],
        "p99_ratio": report["latency_ms"]["p99"] / reference["latency_ms"]["p99"],
        "slow_share_%": 100 * report["replicas"].get("slow", 0) / max(1, report["ok"]),
    }


async def poison_clients(address: str, seconds: float, poison: int) -> tuple[int, int]:
    """32 clients, each with one request at a time; (requests, answers) of those without poison."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    sent = answered = 0

    async def one(client: Client, number: int) -> None:
        nonlocal sent, answered
        text = "poison" if number < poison else f"client {number} sends plain text"
        request = inference_pb2.InferRequest(model="sim", input=types_pb2.Input(text=text))
        while loop.time() < end:
            ok = True
            try:
                await client.infer(request, timeout_s=5)
            except HeadwayError:
                ok = False
            if number >= poison:
                sent, answered = sent + 1, answered + ok

    async with Client(address) as client:
        await asyncio.gather(*(one(client, number) for number in range(32)))
    return sent, answered


def poison(folder: Path, seconds: float) -> Figures:
    failures = {"poison": {"marker": "poison", "spoils": "batch"}}
    specs = [WorkerSpec(f"w{number}", failures=failures) for number in range(3)]
    figures: Figures = {}
    for name, count in (("reference", 0), ("poison", 1)):
        with live_fleet(folder / name, specs) as fleet:
            sent, answered = asyncio.run(poison_clients(fleet.data, seconds, count))
            prefix = "reference_" if name == "reference" else ""
            figures[f"{prefix}success_%"] = 100 * answered / max(1, sent)
            figures[f"{prefix}per_s"] = answered / seconds
            ejected = fleet.gateway_metric("headway_replicas") - 3
            figures[f"{prefix}ejected"] = ejected
    return figures


def hedging(folder: Path, seconds: float) -> Figures:
    specs = [*good(3), WorkerSpec("stalls", failures=STALLS)]
    figures: Figures = {}
    for name, share in (("reference", 0.0), ("hedged", 0.05)):
        with live_fleet(folder / name, specs, resilience={"hedge_share": share}) as fleet:
            report = open_loop(fleet, 160, seconds)
            prefix = "reference_" if name == "reference" else ""
            figures[f"{prefix}mean_ms"] = report["latency_ms"]["mean"]
            figures[f"{prefix}stalling_share_%"] = (
                100 * report["replicas"].get("stalls", 0) / max(1, report["ok"])
            )
            figures[f"{prefix}p99_ms"] = report["latency_ms"]["p99"]
            figures[f"{prefix}p99.9_ms"] = report["latency_ms"]["p99.9"]
            if share:
                device = fleet.gateway_metric("headway_batch_device_seconds_sum")
                copies = fleet.gateway_metric("headway_hedge_device_seconds_total")
                figures["copies"] = fleet.gateway_metric("headway_hedges_sent_total")
                figures["extra_device_%"] = 100 * copies / max(1e-9, device - copies)
    figures["p99.9_cut"] = figures["reference_p99.9_ms"] / figures["p99.9_ms"]
    return figures


def saturated(folder: Path, seconds: float) -> Figures:
    specs = [*good(3), WorkerSpec("stalls", failures=STALLS)]
    figures: Figures = {}
    for name, share in (("reference", 0.0), ("hedged", 0.05)):
        with live_fleet(folder / name, specs, resilience={"hedge_share": share}) as fleet:
            report = fleet.load(
                "--clients=256", f"--seconds={seconds}", "--warmup=3", "--size=fixed:128",
                "--deadline-mix=5s",
            )  # fmt: skip
            prefix = "reference_" if name == "reference" else ""
            figures[f"{prefix}per_s"] = report["throughput_per_s"]
            if share:
                figures["copies"] = fleet.gateway_metric("headway_hedges_sent_total")
    figures["throughput_ratio"] = figures["per_s"] / figures["reference_per_s"]
    return figures


SCENARIOS: dict[str, Callable[[Path, float], Figures]] = {
    "failing": failing,
    "slow": slow,
    "poison": poison,
    "hedging": hedging,
    "saturated": saturated,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenarios", nargs="*", metavar="figure", help="default: all of them")
    parser.add_argument("--seconds", type=float, default=20, help="measured part of each run")
    parser.add_argument("--runs", type=int, default=3, help="the median of so many is printed")
    options = parser.parse_args()
    unknown = set(options.scenarios) - set(SCENARIOS)
    if unknown:
        parser.error(f"no figure {', '.join(sorted(unknown))}; there are: {', '.join(SCENARIOS)}")
    for name in options.scenarios or SCENARIOS:
        runs = []
        for _ in range(options.runs):
            with tempfile.TemporaryDirectory() as folder:
                runs.append(SCENARIOS[name](Path(folder), options.seconds))
        print(f"{name} (median of {len(runs)}, {options.seconds:g} s each)")
        for figure in runs[0]:
            values = [run[figure] for run in runs]
            spread = f"{min(values):.2f} to {max(values):.2f}"
            print(f"  {figure:<22}{statistics.median(values):>10.2f}   {spread}", flush=True)


if __name__ == "__main__":
    main()
