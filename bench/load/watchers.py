"""What watchers cost the data path.

Question:  how much longer is the 99th percentile of latency with 500 WatchState streams open?
Workload:  open loop, Poisson arrivals at --rate, 16 units each, on a gateway with two simulated
           workers (18 ms + 0.022 ms a unit, no jitter). Rounds without and with watchers (default
           interval, in a process of their own) take turns, so that both see the same neighbours;
           a second round without watchers in each turn is the null baseline: its ratio is noise.
Machine:   two cores, which load generator, watchers and workers share.
Command:   python -m bench.load.watchers [--watchers 500] [--seconds 60] [--rounds 3] [--rate 60]
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.load.overhead import cpu_seconds, process, wait_for
from headway.client import ControlClient

WORKER = """
[worker]
worker_id = "w{number}"
gateways = ["{control}"]
log_level = "warning"
[[worker.models]]
model = "sim"
[worker.models.runtime]
kind = "simulated"
jitter_ratio = 0
"""


@contextlib.contextmanager
def fleet(folder: Path) -> Iterator[tuple[dict[str, str], int]]:
    """A gateway and two workers; yields addresses and the gateway's process id."""
    with contextlib.ExitStack() as stack:
        file = folder / "gateway.json"
        flags = ["--port=0", "--control-port=0", "--http-port=0", "--insecure-no-auth",
                 "--log-level=warning", f"--address-file={file}"]  # fmt: skip
        gateway = stack.enter_context(process("-m", "headway", "gateway", *flags))
        addresses = wait_for(file, gateway)
        for number in range(2):
            config = folder / f"w{number}.toml"
            config.write_text(WORKER.format(number=number, control=addresses["control"]))
            stack.enter_context(process("-m", "headway", "worker", f"--config={config}"))
        yield addresses, gateway.pid


def load(address: str, rate: float, seconds: float) -> dict[str, object]:
    command = [sys.executable, "-m", "headway", "loadtest", f"--address={address}",
               f"--rate={rate}", f"--seconds={seconds}", "--warmup=2", "--size=fixed:16",
               "--seed=1", "--json=-"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


async def watch(address: str, count: int) -> None:
    """Opens streams over a few connections, prints "ready", and reads until the end."""
    ready = asyncio.Semaphore(0)

    async def one(client: ControlClient) -> None:
        async for message in client.watch():
            if message.snapshot:
                ready.release()

    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(ControlClient(address)) for _ in range(5)]
        tasks = [asyncio.ensure_future(one(clients[n % 5])) for n in range(count)]
        for _ in range(count):
            await ready.acquire()
        print("ready", flush=True)
        await asyncio.gather(*tasks)


@contextlib.contextmanager
def watchers(address: str, count: int) -> Iterator[None]:
    arguments = ["-m", "bench.load.watchers", "--watch", address, "--watchers", str(count)]
    with process(*arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        yield


def p99_ms(report: dict[str, object]) -> float:
    latency = report["latency_ms"]
    assert isinstance(latency, dict)
    return float(latency["p99"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--watchers", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=60)
    parser.add_argument("--watch", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.watch:
        asyncio.run(watch(options.watch, options.watchers))
        return
    rows: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory() as folder, fleet(Path(folder)) as (addresses, pid):

        def round_() -> tuple[float, float]:
            before = cpu_seconds(pid)
            value = p99_ms(load(addresses["data"], options.rate, options.seconds))
            return value, (cpu_seconds(pid) - before) / (options.seconds + 2)

        round_()
        for number in range(options.rounds):
            plain, plain_cpu = round_()
            with watchers(addresses["control"], options.watchers):
                watched, watched_cpu = round_()
            null, _ = round_()
            rows.append((plain, watched, null))
            print(f"round {number + 1}: p99 {plain:.2f} ms without, {watched:.2f} ms with "
                  f"{options.watchers} watchers, {null:.2f} ms without again; gateway CPU "
                  f"{plain_cpu:.3f} -> {watched_cpu:.3f} cores", flush=True)  # fmt: skip
    ratio = statistics.median(2 * watched / (plain + null) for plain, watched, null in rows)
    noise = statistics.median(null / plain for plain, _, null in rows)
    print(f"p99 with / without: {ratio:.3f}; without / without: {noise:.3f}")


if __name__ == "__main__":
    main()
