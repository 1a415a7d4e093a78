"""Runs a gateway and its fleet: start, wait until served, keep running, drain."""

import asyncio
import contextlib
import fcntl
import os
import signal
from collections.abc import Coroutine, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.status import Status

from headway.clock import Clock
from headway.errors import StartupError
from headway.serve.announcement import announcement
from headway.serve.child import Child, Command
from headway.serve.commands import (
    Addresses,
    decoder_command,
    fresh_store,
    gateway_command,
    gateway_environment,
    worker_command,
)
from headway.serve.ports import check_ports
from headway.serve.readiness import wait_until_served
from headway.serve.settings import ServeSettings

POLL_NS: Final = 50_000_000
NS_PER_S: Final = 1_000_000_000
KILL_MARGIN_NS: Final = 3 * NS_PER_S
"""Time beyond the drain in which a process is expected to have ended."""


def run(
    settings: ServeSettings,
    *,
    config: Path | None,
    gateway_table: Mapping[str, Any],
    clock: Clock,
    console: Console,
) -> int:
    """Serves until SIGINT or SIGTERM; returns the exit code.

    0 after a clean stop, 1 if the gateway or the whole fleet had to be given up.

    Args:
      settings: what to run.
      config: file handed to gateway and workers, over which `settings` win.
      gateway_table: what file and environment set of the gateway.
      clock: time.
      console: where people look.

    Raises:
      StartupError: a port is taken, another one runs in the state directory, or nothing was
        served in time.
    """
    check_ports(settings)
    with state_directory(settings.state_dir) as directory:
        supervisor = Supervisor(settings, config, gateway_table, directory, clock, console)
        return asyncio.run(supervisor.serve())


@contextlib.contextmanager
def state_directory(configured: Path | None) -> Iterator[Path]:
    """Makes and locks the directory for logs and addresses.

    Raises StartupError if another process holds it, or it cannot be made.
    """
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    directory = configured or Path(home) / "headway" / "serve"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "lock").open("w")
    except OSError as error:
        raise StartupError(
            f"cannot keep state in {directory}: {error.strerror}; choose another --state-dir"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StartupError(
                f"another `headway serve` keeps its state in {directory}; stop it, or choose "
                "another --state-dir"
            ) from error
        yield directory


class Supervisor:
    """The processes of one `headway serve`."""

    def __init__(
        self,
        settings: ServeSettings,
        config: Path | None,
        gateway_table: Mapping[str, Any],
        directory: Path,
        clock: Clock,
        console: Console,
    ) -> None:
        self._settings = settings
        self._config = config
        self._directory = directory
        self._clock = clock
        self._console = console
        self._status: Status | None = None
        self._progress = ""
        self._addresses: Addresses | None = None
        self._address_file = directory / "gateway.json"
        self._address_file.unlink(missing_ok=True)
        environment = dict(gateway_environment(settings, gateway_table))
        environment |= fresh_store(directory, gateway_table)
        self._gateway = self._child("gateway", self._gateway_command, environment)
        self._workers: list[Child] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._child_ended = asyncio.Event()
        self._served = False

    async def serve(self) -> int:
        """Runs everything until a signal, or until it cannot go on."""
        stop = self._stop_on_signals()
        try:
            with self._progress_shown():
                await _first(stop.wait(), self._start())
            if stop.is_set():
                return 0
            self._console_lines(announcement(self._settings, self._bound(), self._directory))
            await _first(stop.wait(), self._lost())
            if stop.is_set():
                return 0
            self._say("headway serve", "cannot go on; stopping what is left")
            return 1
        finally:
            await self._stop()

    async def _start(self) -> None:
        """Starts everything. Raises StartupError if that fails, or takes too long."""
        seconds = self._settings.ready_seconds
        await _first(self._start_all(), self._any_given_up(), self._wait_seconds(seconds))
        if not self._served:
            names = [child.name for child in self._children if child.is_given_up]
            what = (
                f"{', '.join(names)} could not be started"
                if names
                else f"no request was served within {seconds:g} s ({self._progress})"
            )
            raise StartupError(f"{what}; the logs are in {self._directory}")
        for child in self._children:
            child.been_ready = True

    async def _start_all(self) -> None:
        settings = self._settings
        self._run(self._gateway)
        self._tell_progress("the gateway starts")
        while (addresses := Addresses.read(self._address_file)) is None:
            await self._clock.sleep(POLL_NS)
        self._addresses = addresses
        for replica in settings.fleet:
            control = addresses.reached_by(settings.reachable_host).control
            command = partial(worker_command, settings, self._config, replica, control)
            self._workers.append(self._child(replica.name, command, {}))
            self._run(self._workers[-1])
        data = addresses.reached_by(settings.reachable_host).data
        await wait_until_served(settings, data, self._clock, self._tell_progress)
        self._served = True
        if settings.starts_decoder:
            # Last: reading its weights would hold up the first answer.
            trace = self._directory / "decoder-a.trace"
            control = addresses.reached_by(settings.reachable_host).control
            write = partial(decoder_command, settings, self._config, control, trace)
            self._workers.append(self._child("decoder-a", write, {}))
            self._run(self._workers[-1])

    async def _any_given_up(self) -> None:
        while not any(child.is_given_up for child in self._children):
            self._child_ended.clear()
            await self._child_ended.wait()

    async def _lost(self) -> None:
        """Returns once the gateway or the last worker has been given up."""
        while not (
            self._gateway.is_given_up or all(worker.is_given_up for worker in self._workers)
        ):
            self._child_ended.clear()
            await self._child_ended.wait()

    async def _wait_seconds(self, seconds: float) -> None:
        await self._clock.sleep(int(seconds * NS_PER_S))

    async def _stop(self) -> None:
        """The gateway first: it refuses new requests and has the fleet finish the old ones."""
        for child in self._children:
            child.quiet = True  # that the others go is expected now
        grace_ns = int(self._settings.drain_seconds * NS_PER_S) + KILL_MARGIN_NS
        await self._gateway.stop(grace_ns)
        await asyncio.gather(*(worker.stop(grace_ns) for worker in self._workers))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for child in self._children:
            child.close()

    @property
    def _children(self) -> list[Child]:
        return [self._gateway, *self._workers]

    def _run(self, child: Child) -> None:
        task = asyncio.ensure_future(child.keep_running())
        task.add_done_callback(lambda _: self._child_ended.set())
        self._tasks.append(task)

    def _gateway_command(self) -> list[str]:
        return gateway_command(self._settings, self._config, self._address_file, self._addresses)

    def _child(self, name: str, command: Command, environment: dict[str, str]) -> Child:
        return Child(
            name,
            command,
            environment=environment,
            log_path=self._directory / f"{name}.log",
            log_bytes=self._settings.log_bytes,
            max_restarts=self._settings.max_restarts,
            clock=self._clock,
            say=self._say,
        )

    def _bound(self) -> Addresses:
        assert self._addresses is not None  # the gateway has started
        return self._addresses

    def _stop_on_signals(self) -> asyncio.Event:
        stop = asyncio.Event()

        def on_signal() -> None:
            if stop.is_set():  # whoever asks twice does not want to wait
                for child in self._children:
                    child.kill()
                return
            self._console_lines(["", "stopping: requests in flight are finished first"])
            stop.set()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, on_signal)
        return stop

    @contextlib.contextmanager
    def _progress_shown(self) -> Iterator[None]:
        if not self._console.is_terminal:
            yield
            return
        with self._console.status("starting") as self._status:
            yield
        self._status = None

    def _tell_progress(self, what: str) -> None:
        self._progress = what
        if self._status is not None:
            self._status.update(what)

    def _say(self, name: str, what: str) -> None:
        self._console_lines([f"[{name}] {what}"])

    def _console_lines(self, lines: list[str]) -> None:
        for line in lines:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


async def _first(*works: Coroutine[Any, Any, Any]) -> None:
    """Returns, or raises, as the first of `works` does; the others are cancelled by then."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
