"""Real gateway and worker processes, started as a user would and stopped by id."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headway.v1 import inference_pb2, inference_pb2_grpc, types_pb2

ROOT = Path(__file__).parents[2]


@dataclass
class FleetProcesses:
    """One gateway and its workers, each a process of its own, in a folder of their own."""

    folder: Path
    transport: str = "grpcio"
    ports: dict[str, int] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start_gateway(self, *flags: str, open_to_all: bool = True) -> None:
        """Starts the gateway; the second time on the ports of the first."""
        access = ["--insecure-no-auth"] if open_to_all else []
        address_file = self.folder / "gateway.json"
        address_file.unlink(missing_ok=True)
        chosen = [f"--{name}={port}" for name, port in self._ports().items()]
        self._start(
            "gateway", "gateway", *chosen, f"--transport={self.transport}", *access,
            f"--address-file={address_file}", *flags,
        )  # fmt: skip
        addresses = self._wait_for(address_file, "gateway")
        self.ports = {name: int(address.rsplit(":", 1)[1]) for name, address in addresses.items()}

    def start_worker(
        self, worker_id: str, runtime: str = "", *, version: str = "v1", fleet_token: str = ""
    ) -> None:
        """Starts a worker with one simulated model "sim"; `runtime`: its TOML lines."""
        config = self.folder / f"{worker_id}.toml"
        address_file = self.folder / f"{worker_id}.json"
        address_file.unlink(missing_ok=True)
        config.write_text(
            f'[worker]\nworker_id = "{worker_id}"\n'
            f'gateways = ["127.0.0.1:{self.ports["control"]}"]\n'
            f'address_file = "{address_file}"\n'
            + (f'fleet_token = "{fleet_token}"\n' if fleet_token else "")
            + f'[[worker.models]]\nmodel = "sim"\nversion = "{version}"\n'
            f'[worker.models.runtime]\nkind = "simulated"\n{runtime}\n'
        )
        self._start(worker_id, "worker", f"--config={config}")

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        """Sends a signal to a process that was started here and returns its exit code."""
        process = self.running.pop(name)
        process.send_signal(number)
        return process.wait(30)

    def stop_all(self) -> None:
        for name in sorted(self.running, key=lambda name: name == "gateway"):
            self.kill(name)

    def log(self, name: str) -> str:
        """What a process has printed so far."""
        return (self.folder / f"{name}.log").read_text()

    @contextlib.contextmanager
    def channel(self) -> Iterator[grpc.aio.Channel]:
        yield grpc.aio.insecure_channel(f"127.0.0.1:{self.ports['data']}")

    def _ports(self) -> dict[str, int]:
        names = {"port": "data", "control-port": "control", "http-port": "http"}
        return {flag: self.ports.get(name, 0) for flag, name in names.items()}

    def _start(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "headway", *arguments],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, "NO_COLOR": "1"},
            )

    def _wait_for(self, path: Path, name: str) -> dict[str, str]:
        process = self.running[name]
        while not path.exists():
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(0.02)
                raise AssertionError(f"{name} ended with {code}: {self.log(name)}")
        return dict(json.loads(path.read_text()))


@contextlib.asynccontextmanager
async def fleet_processes(
    folder: Path, *workers: str, transport: str = "grpcio", runtime: str = ""
) -> AsyncIterator[FleetProcesses]:
    """A gateway and some workers, ready; whatever still runs at the end is killed."""
    fleet = FleetProcesses(folder, transport)
    try:
        await asyncio.to_thread(fleet.start_gateway)
        for worker in workers:
            fleet.start_worker(worker, runtime)
        await until_serving(fleet)
        yield fleet
    finally:
        await asyncio.to_thread(fleet.stop_all)


async def until_serving(fleet: FleetProcesses, model: str = "sim") -> None:
    """Returns when the gateway's health service says the model is served.

    The channel waits for the gateway to be there at all, however often it is restarted.
    """
    serving = health_pb2.HealthCheckResponse.SERVING
    while True:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{fleet.ports['data']}") as channel:
            call = health_pb2_grpc.HealthStub(channel).Watch(
                health_pb2.HealthCheckRequest(service=model), wait_for_ready=True
            )
            with contextlib.suppress(grpc.aio.AioRpcError):
                async for answer in call:
                    if answer.status == serving:
                        return


async def infer(
    channel: grpc.aio.Channel, text: str = "the tide turns", timeout: float = 10
) -> Any:
    """One request; the answer, or the error as a value."""
    request = inference_pb2.InferRequest(model="sim", input=types_pb2.Input(text=text))
    try:
        stub = inference_pb2_grpc.InferenceServiceStub(channel)
        return await stub.Infer(request, timeout=timeout)
    except grpc.aio.AioRpcError as error:
        return error
