"""How long a busy device waits between batches, with and without pipelined dispatch.

Question:  what share of the time is a worker's device idle while requests are queued for it?
Workload:  one simulated worker (18 ms + 0.022 ms a unit, 8 % jitter), 64 requests of 128 units in
           flight (closed loop): something is always queued. Idle and device time are the worker's
           own, headway_worker_idle_seconds and headway_worker_batch_device_seconds.
Machine:   two cores, which the load generator shares.
Command:   python -m bench.load.idle_share [--seconds 20] [--runs 3] [--workers 1]
Target:    with it, at most a quarter of the share without it.
"""

import argparse
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.load.live_fleet import LiveFleet, WorkerSpec, live_fleet

IDLE = "headway_worker_idle_seconds_total"
DEVICE = "headway_worker_batch_device_seconds_sum"
SETTLE_S = 3.0
"""Load before and after the measured part."""
START_S = 1.5
"""Until the load generator, a process of its own, has begun."""


def totals(fleet: LiveFleet) -> tuple[float, float]:
    names = list(fleet.worker_http)
    return (
        sum(fleet.worker_metric(name, IDLE) for name in names),
        sum(fleet.worker_metric(name, DEVICE) for name in names),
    )


def measure(folder: Path, pipelined: bool, options: argparse.Namespace) -> tuple[float, float]:
    """(idle share, requests a second)."""
    specs = [WorkerSpec(f"w{number}") for number in range(options.workers)]
    resilience = {"pipelined_dispatch": pipelined}
    load = (f"--clients={options.clients}", "--size=fixed:128", "--deadline-mix=5s", "--warmup=0")
    with live_fleet(folder, specs, resilience=resilience) as fleet, ThreadPoolExecutor() as thread:
        # Read twice while the load goes on: before it and after it nobody asks for anything.
        seconds = SETTLE_S + options.seconds + SETTLE_S
        load_run = thread.submit(fleet.load, f"--seconds={seconds}", *load)
        # Measures over a stretch of real time, with real processes.
        time.sleep(SETTLE_S + START_S)
        before = totals(fleet)
        time.sleep(options.seconds)
        after = totals(fleet)
        report = load_run.result()
    idle, device = after[0] - before[0], after[1] - before[1]
    return idle / (idle + device), report["throughput_per_s"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--clients", type=int, default=64)
    options = parser.parse_args()
    shares: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for _ in range(options.runs):
        for pipelined in shares:
            with tempfile.TemporaryDirectory() as folder:
                shares[pipelined].append(measure(Path(folder), pipelined, options))
    medians = {}
    for pipelined, runs in shares.items():
        idle = statistics.median(run[0] for run in runs)
        rate = statistics.median(run[1] for run in runs)
        medians[pipelined] = idle
        name = "pipelined" if pipelined else "when free"
        print(f"{name:<12} idle {100 * idle:6.2f} %   {rate:7.1f} requests/s", flush=True)
    print(f"ratio        {medians[True] / max(1e-9, medians[False]):.2f} (target 0.25)")


if __name__ == "__main__":
    main()
