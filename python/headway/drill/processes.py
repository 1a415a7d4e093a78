"""Starts gateways and workers as processes, sends them signals, and stops them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from headway.clock import Clock
from headway.errors import StartupError
from headway.serve.commands import Addresses

MODEL: Final = "drill"
WRITER: Final = "writer"
_POLL_NS: Final = 20_000_000
_START_NS: Final = 60_000_000_000
_STOP_NS: Final = 15_000_000_000
_MIB: Final = 1 << 20


class Processes:
    """Child processes by name, with their logs in a folder. They end with their parent.

    Each has a session of its own, so that Ctrl-C reaches the parent alone, which stops them.
    """

    def __init__(self, folder: Path, clock: Clock, transport: str) -> None:
        self.folder = folder
        self.addresses: dict[str, Addresses] = {}
        self._clock = clock
        self._transport = transport
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    async def start_gateway(
        self,
        name: str,
        settings: Mapping[str, Any],
        *,
        wrapper: Sequence[str] = ("headway",),
        open_to_all: bool = True,
    ) -> Addresses:
        """Starts a gateway; one that was started before gets its ports again.

        Args:
          settings: of the gateway, by name.
          wrapper: the module that runs the command, and its arguments.
          open_to_all: whether it asks for no keys.

        Raises:
          StartupError: it did not start.
        """
        file = self.folder / f"{name}.json"
        file.unlink(missing_ok=True)
        before = self.addresses.get(name)
        ports = ("0", "0", "0")
        if before is not None:
            ports = tuple(
                each.rpartition(":")[2] for each in (before.data, before.control, before.http)
            )  # type: ignore[assignment]  # three of three
        access = ("--insecure-no-auth",) if open_to_all else ()
        values = {"store": {"url": f"sqlite:///{self.folder / 'control.db'}"}, **settings}
        self._start(
            name,
            (*wrapper, "gateway", f"--port={ports[0]}", f"--control-port={ports[1]}",
             f"--http-port={ports[2]}", f"--transport={self._transport}", *access,
             f"--address-file={file}"),
            {f"HEADWAY_GATEWAY__{key.upper()}": _text(value) for key, value in values.items()},
        )  # fmt: skip
        give_up_ns = self._clock.now_ns() + _START_NS
        while (addresses := Addresses.read(file)) is None:
            self._check_alive(name, give_up_ns)
            await self._clock.sleep(_POLL_NS)
        self.addresses[name] = addresses
        return addresses

    def start_worker(
        self,
        name: str,
        models: Sequence[Mapping[str, Any]],
        *,
        wrapper: Sequence[str] = ("headway",),
        **settings: Any,
    ) -> None:
        """Starts a worker that joins all gateways there are; it is ready when they say so."""
        joined = (f"--gateway={each.control}" for each in self.addresses.values())
        values = {"models": list(models), "drain_seconds": 5, **settings}
        self._start(
            name,
            (*wrapper, "worker", f"--id={name}", *joined),
            {f"HEADWAY_WORKER__{key.upper()}": _text(value) for key, value in values.items()},
        )

    def start_module(self, name: str, module: str, *arguments: str) -> "subprocess.Popen[bytes]":
        """Starts a program of this package; its output goes to its log."""
        self._start(name, (f"headway.drill.{module}", *arguments), {}, with_parent=False)
        return self._running[name]

    def signal(self, name: str, number: int) -> None:
        """Sends a signal."""
        self._running[name].send_signal(number)

    async def kill(self, name: str) -> None:
        """Ends a process without warning."""
        process = self._running.pop(name)
        process.kill()
        await asyncio.to_thread(process.wait)

    async def terminate(self, name: str) -> int:
        """Asks a process to drain and end; returns its exit code. Kills it after 15 s."""
        process = self._running.pop(name)
        process.terminate()
        return await self._ended(process)

    def rss_mib(self, name: str) -> float:
        """Resident memory of a process, in MiB."""
        with Path(f"/proc/{self._running[name].pid}/statm").open() as file:
            pages = int(file.read().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / _MIB

    def log(self, name: str) -> Path:
        """Where a process writes."""
        return self.folder / f"{name}.log"

    async def stop(self) -> None:
        """Stops all, gateways first; kills what does not end."""
        running, self._running = self._running, {}
        for process in running.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        await asyncio.gather(*(self._ended(process) for process in running.values()))

    async def _ended(self, process: "subprocess.Popen[bytes]") -> int:
        give_up_ns = self._clock.now_ns() + _STOP_NS
        while process.poll() is None:
            if self._clock.now_ns() > give_up_ns:
                process.kill()
            await self._clock.sleep(_POLL_NS)
        return process.returncode

    def _check_alive(self, name: str, give_up_ns: int) -> None:
        if self._running[name].poll() is not None or self._clock.now_ns() > give_up_ns:
            raise StartupError(f"{name} did not start; its log says: {self._last_line(name)}")

    def _last_line(self, name: str) -> str:
        lines = self.log(name).read_text(errors="replace").splitlines()
        return lines[-1] if lines else "nothing"

    def _start(
        self,
        name: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        with_parent: bool = True,
    ) -> None:
        parent = (f"--parent-pid={os.getpid()}",) if with_parent else ()
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", *arguments, *parent],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "NO_COLOR": "1", **environment}, start_new_session=True,
            )  # fmt: skip


def simulated(version: str = "v1", speed: float = 1.0, **runtime: Any) -> dict[str, Any]:
    """A model on a simulated device: 10 ms a batch of up to 8, unless said otherwise."""
    device = {
        "kind": "simulated", "intercept_ms": 10, "slope_ms_per_unit": 0, "max_requests": 8,
        **runtime,
    }  # fmt: skip
    return {"model": MODEL, "version": version, "runtime": device, "speed": speed}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
