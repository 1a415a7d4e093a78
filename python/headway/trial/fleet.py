"""Starts a gateway and workers as processes, and stops them."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

from headway.clock import Clock
from headway.errors import StartupError
from headway.serve.commands import Addresses
from headway.trial.scenario import BASELINE, CANARY, MODEL, Trial

_POLL_NS: Final = 50_000_000
_START_NS: Final = 60_000_000_000
_STOP_S: Final = 10.0


class Processes:
    """Child processes with their logs in a folder; they end with their parent."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    async def start_gateway(self, name: str = "gateway", store_url: str = "") -> Addresses:
        """Starts a gateway on free ports. Raises StartupError.

        `store_url`: default an SQLite file in the folder.
        """
        file = self._folder / f"{name}.json"
        store = store_url or f"sqlite:///{self._folder / 'control.db'}"
        self._start(
            name,
            ("gateway", "--port=0", "--control-port=0", "--http-port=0", "--insecure-no-auth",
             f"--address-file={file}"),
            {"HEADWAY_GATEWAY__STORE": json.dumps({"url": store}),
             "HEADWAY_GATEWAY__DRAIN_SECONDS": "2"},
        )  # fmt: skip
        give_up_ns = self._clock.now_ns() + _START_NS
        while (addresses := Addresses.read(file)) is None:
            if self._running[name].poll() is not None or self._clock.now_ns() > give_up_ns:
                raise StartupError(f"the gateway did not start; see {self._log(name)}")
            await self._clock.sleep(_POLL_NS)
        return addresses

    def start_worker(
        self, name: str, version: str, runtime: Mapping[str, Any], speed: float, *controls: str
    ) -> None:
        """Starts a worker that joins the gateways at `controls`."""
        model = {"model": MODEL, "version": version, "runtime": dict(runtime), "speed": speed}
        self._start(
            name,
            ("worker", f"--id={name}", *(f"--gateway={control}" for control in controls)),
            {"HEADWAY_WORKER__MODELS": json.dumps([model]), "HEADWAY_WORKER__DRAIN_SECONDS": "1"},
        )

    def kill(self, name: str) -> None:
        """Ends a process without warning."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    async def stop(self) -> None:
        """Stops all, workers first; kills what does not end."""
        for process in reversed(self._running.values()):
            process.terminate()
        for process in self._running.values():
            try:
                await asyncio.to_thread(process.wait, _STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                await asyncio.to_thread(process.wait)

    def _start(self, name: str, arguments: tuple[str, ...], environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "headway", *arguments, f"--parent-pid={os.getpid()}"]
        with self._log(name).open("wb") as log:
            self._running[name] = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, **environment}
            )

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


@contextlib.asynccontextmanager
async def trial_fleet(trial: Trial, folder: Path, clock: Clock) -> AsyncIterator[Addresses]:
    """The fleet of a trial, for as long as the context lasts."""
    processes = Processes(folder, clock)
    try:
        addresses = await processes.start_gateway()
        fleets = ((BASELINE, trial.speeds), (CANARY, trial.canary_speeds))
        for version, speeds in fleets:
            for index, speed in enumerate(speeds):
                name = f"{version}-{index}"
                runtime = trial.runtime(version)
                processes.start_worker(name, version, runtime, speed, addresses.control)
        yield addresses
    finally:
        await processes.stop()
