"""A gateway and simulated workers as processes, and load on them; for the scripts beside it."""

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

START_S = 60.0


@dataclass(frozen=True)
class WorkerSpec:
    """One simulated worker.

    Attributes:
      speed: its device's times are divided by this.
      failures: drills of the simulated runtime, as in the worker's configuration.
    """

    name: str
    speed: float = 1.0
    failures: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class LiveFleet:
    """A fleet that runs: its addresses, and how to ask it."""

    data: str
    gateway_http: str
    worker_http: Mapping[str, str]

    def gateway_metric(self, name: str) -> float:
        """Sum of a metric over its labels."""
        return _metric(self.gateway_http, name)

    def worker_metric(self, worker: str, name: str) -> float:
        """Sum of a worker's metric over its labels."""
        return _metric(self.worker_http[worker], name)

    def load(self, *options: str) -> dict[str, Any]:
        """Runs `headway loadtest` and returns its report."""
        command = [sys.executable, "-m", "headway", "loadtest", "--address", self.data, *options]
        finished = subprocess.run(
            [*command, "--json", "-"], text=True, capture_output=True, check=False
        )
        if not finished.stdout:
            raise SystemExit(f"the load generator failed: {finished.stderr[-2000:]}")
        return dict(json.loads(finished.stdout))


@contextlib.contextmanager
def live_fleet(
    folder: Path,
    workers: Sequence[WorkerSpec],
    *,
    device: Mapping[str, Any] | None = None,
    resilience: Mapping[str, Any] | None = None,
) -> Iterator[LiveFleet]:
    """Starts a fleet; returns once every worker answers.

    Args:
      device: settings of the simulated runtime; default the reference device.
      resilience: settings of the gateway, [gateway.resilience].
    """
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        gateway = _start(
            stack,
            folder,
            "gateway",
            ("gateway", "--port=0", "--control-port=0", "--http-port=0", "--insecure-no-auth"),
            {
                "HEADWAY_GATEWAY__STORE": json.dumps({"url": "sqlite://"}),
                "HEADWAY_GATEWAY__RESILIENCE": json.dumps(dict(resilience or {})),
            },
        )
        started = {
            spec.name: _start(
                stack,
                folder,
                spec.name,
                (
                    "worker",
                    f"--id={spec.name}",
                    f"--gateway={gateway['control']}",
                    "--http-port=0",
                ),
                {"HEADWAY_WORKER__MODELS": json.dumps([_model(spec, device or {})])},
            )
            for spec in workers
        }
        fleet = LiveFleet(
            gateway["data"],
            gateway["http"],
            {name: addresses["http"] for name, addresses in started.items()},
        )
        _until_ready(fleet, len(workers))
        yield fleet


def _model(spec: WorkerSpec, device: Mapping[str, Any]) -> dict[str, Any]:
    runtime = {"kind": "simulated", **device, "failures": dict(spec.failures)}
    return {"model": "sim", "version": "v1", "speed": spec.speed, "runtime": runtime}


def _start(
    stack: contextlib.ExitStack,
    folder: Path,
    name: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
) -> dict[str, str]:
    kind = arguments[0].upper()
    file = folder / f"{name}.json"
    file.unlink(missing_ok=True)
    log = stack.enter_context((folder / f"{name}.log").open("wb"))
    process = subprocess.Popen(
        [sys.executable, "-m", "headway", *arguments],
        stdout=log,
        stderr=log,
        env={
            **os.environ,
            **environment,
            f"HEADWAY_{kind}__ADDRESS_FILE": str(file),
            f"HEADWAY_{kind}__DRAIN_SECONDS": "1",
            f"HEADWAY_{kind}__LOG_LEVEL": "warning",
        },
    )
    stack.callback(_stop, process)
    give_up = time.monotonic() + START_S
    while not file.exists():
        if process.poll() is not None or time.monotonic() > give_up:
            raise SystemExit(f"{name} did not start; see {folder / name}.log")
        time.sleep(0.05)
    return dict(json.loads(file.read_text()))


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _until_ready(fleet: LiveFleet, workers: int) -> None:
    give_up = time.monotonic() + START_S
    while _metric(fleet.gateway_http, "headway_replicas", 'state="ready"') < workers:
        if time.monotonic() > give_up:
            raise SystemExit("the workers did not join")
        time.sleep(0.05)


def _metric(address: str, name: str, label: str = "") -> float:
    """Sum over the samples of that name whose labels hold `label`."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as response:
        lines = response.read().decode().splitlines()
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in lines
        if line.split("{")[0].split(" ")[0] == name and label in line
    )
