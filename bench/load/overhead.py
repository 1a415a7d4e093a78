"""What a request costs: CPU of gateway and worker, beside a bare echo server.

Question:  how much CPU does Headway spend on a request whose model takes no time?
Workload:  32 requests in flight (closed loop, unary, 64 bytes of text), one gateway, instant
           workers (null model), then a bare server of the same transport whose handler returns at
           once. CPU is user + system time of the processes, from /proc, over the measured time.
Machine:   two cores, which the load generator shares.
Command:   python -m bench.load.overhead [--seconds 10] [--workers 1] [--runs 3] [--json FILE]
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass
class Sample:
    """One run of one server."""

    transport: str
    server: str
    requests: int
    requests_per_s: float
    gateway_us: float
    worker_us: float
    total_us: float
    mean_batch: float


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


@contextlib.contextmanager
def process(*arguments: str, **options: object) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen([sys.executable, *arguments], text=True, **options)  # type: ignore[call-overload]
    try:
        yield started
    finally:
        started.terminate()
        started.wait(20)


def wait_for(path: Path, owner: subprocess.Popen[str]) -> dict[str, str]:
    while not path.exists():
        if owner.poll() is not None:
            raise SystemExit(f"a server ended early: {owner.args}")
        time.sleep(0.02)
    return dict(json.loads(path.read_text()))


@contextlib.contextmanager
def fleet(transport: str, workers: int, folder: Path) -> Iterator[tuple[str, int, list[int]]]:
    """A gateway and instant workers; yields the data address and the process ids."""
    config = folder / "headway.toml"
    with contextlib.ExitStack() as stack:
        gateway_file = folder / "gateway.json"
        gateway = stack.enter_context(
            process(
                "-m",
                "headway",
                "gateway",
                "--port",
                "0",
                "--control-port",
                "0",
                "--http-port",
                "0",
                "--transport",
                transport,
                "--insecure-no-auth",
                "--log-level",
                "warning",
                "--address-file",
                str(gateway_file),
                # A store of its own, rather than the one of whoever runs this.
                env={**os.environ, "XDG_STATE_HOME": str(folder)},
            )
        )
        addresses = wait_for(gateway_file, gateway)
        pids = []
        for number in range(workers):
            config = folder / f"worker-{number}.toml"
            config.write_text(
                f'[worker]\nworker_id = "w{number}"\ngateways = ["{addresses["control"]}"]\n'
                'log_level = "warning"\n[[worker.models]]\nmodel = "null"\n'
                "[worker.models.runtime]\n"
                'kind = "simulated"\nintercept_ms = 0\nslope_ms_per_unit = 0\n'
            )
            worker = stack.enter_context(
                process("-m", "headway", "worker", "--config", str(config))
            )
            pids.append(worker.pid)
        yield addresses["data"], gateway.pid, pids


def load(address: str, seconds: float, clients: int) -> dict[str, object]:
    command = [
        sys.executable,
        "-m",
        "headway",
        "loadtest",
        "--address",
        address,
        "--clients",
        str(clients),
        "--seconds",
        str(seconds),
        "--size",
        "fixed:16",
        "--json",
        "-",
    ]
    finished = subprocess.run(command, text=True, capture_output=True, check=False)
    if finished.returncode != 0:
        raise SystemExit(f"the load generator failed: {finished.stderr[-2000:]}")
    return dict(json.loads(finished.stdout))


def wait_ready(address: str, api_key: str = "") -> None:
    command = [sys.executable, "-m", "headway", "infer", "--address", address, "ready"]
    environment = {**os.environ, "HEADWAY_API_KEY": api_key} if api_key else None
    for _ in range(100):
        ended = subprocess.run(command, capture_output=True, check=False, env=environment)
        if ended.returncode == 0:
            return
        time.sleep(0.1)
    raise SystemExit("the fleet was not ready within ten seconds")


def measure(
    transport: str, server: str, address: str, gateway: int, workers: list[int], options: object
) -> Sample:
    load(address, 1, options.clients)  # type: ignore[attr-defined]
    before = cpu_seconds(gateway), sum(map(cpu_seconds, workers))
    result = load(address, options.seconds, options.clients)  # type: ignore[attr-defined]
    after = cpu_seconds(gateway), sum(map(cpu_seconds, workers))
    requests = int(result["ok"])  # type: ignore[call-overload]
    gateway_us = (after[0] - before[0]) / requests * 1e6
    worker_us = (after[1] - before[1]) / requests * 1e6
    return Sample(
        transport,
        server,
        requests,
        float(result["throughput_per_s"]),  # type: ignore[arg-type]
        gateway_us,
        worker_us,
        gateway_us + worker_us,
        float(result["mean_batch"] or 0),  # type: ignore[arg-type]
    )


def run_once(transport: str, options: argparse.Namespace) -> list[Sample]:
    samples = []
    with tempfile.TemporaryDirectory() as folder:
        with fleet(transport, options.workers, Path(folder)) as (address, gateway, workers):
            wait_ready(address)
            samples.append(measure(transport, "headway", address, gateway, workers, options))
    with process("-m", "bench.load.echo", transport, stdout=subprocess.PIPE) as echo:
        assert echo.stdout is not None
        address = echo.stdout.readline().strip()
        samples.append(measure(transport, "echo", address, echo.pid, [], options))
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--transport", choices=["native", "grpcio", "both"], default="both")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    transports = ["native", "grpcio"] if options.transport == "both" else [options.transport]
    samples: list[Sample] = []
    for _ in range(options.runs):
        for transport in transports:
            samples += run_once(transport, options)
    print(
        f"{'transport':<10}{'server':<9}{'req/s':>8}{'gateway us':>12}{'worker us':>11}"
        f"{'total us':>10}{'/ echo':>8}{'batch':>7}"
    )
    for transport in transports:
        rows = {}
        for server in ("headway", "echo"):
            chosen = [s for s in samples if (s.transport, s.server) == (transport, server)]
            rows[server] = {
                name: statistics.median(getattr(sample, name) for sample in chosen)
                for name in ("requests_per_s", "gateway_us", "worker_us", "total_us", "mean_batch")
            }
        for server, row in rows.items():
            ratio = row["total_us"] / rows["echo"]["total_us"]
            print(
                f"{transport:<10}{server:<9}{row['requests_per_s']:>8.0f}{row['gateway_us']:>12.1f}"
                f"{row['worker_us']:>11.1f}{row['total_us']:>10.1f}{ratio:>8.2f}"
                f"{row['mean_batch']:>7.1f}"
            )
    if options.json:
        options.json.write_text(json.dumps([asdict(sample) for sample in samples], indent=1))


if __name__ == "__main__":
    main()
