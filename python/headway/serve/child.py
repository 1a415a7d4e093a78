"""One child process: started, watched, restarted with backoff, stopped."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from headway.clock import Clock
from headway.serve.logfile import BoundedLog, LineSplitter, loud

FIRST_DELAY_NS: Final = 500_000_000
LONGEST_DELAY_NS: Final = 10_000_000_000
RECOVERED_NS: Final = 60_000_000_000
"""A process that lived this long had recovered: its restarts are counted anew."""

ECHO_WINDOW_NS: Final = 5_000_000_000
MOST_ECHOES: Final = 10
"""Lines of one process shown on the terminal within a window; the file has them all."""

HOPELESS_CODES: Final = frozenset({64, 69})
"""Exit codes that a restart will not change, before the process has ever been ready."""

Command = Callable[[], Sequence[str]]
Say = Callable[[str, str], None]
"""Tells people what `name` did."""


class Child:
    """A process that is kept running until `stop`.

    It has a session of its own, so that Ctrl-C reaches the supervisor alone, which stops
    processes in order.

    Attributes:
      been_ready: set by the supervisor once everything has been served.
      quiet: set by the supervisor to show no more of its log on the terminal.
      is_given_up: True once it will not be started again.
    """

    def __init__(
        self,
        name: str,
        command: Command,
        *,
        environment: dict[str, str],
        log_path: Path,
        log_bytes: int,
        max_restarts: int,
        clock: Clock,
        say: Say,
    ) -> None:
        """`command`: asked for at each start."""
        self.name = name
        self.log_path = log_path
        self.been_ready = False
        self.is_given_up = False
        self._command = command
        self._environment = environment
        self._log = BoundedLog(log_path, log_bytes)
        self._max_restarts = max_restarts
        self._clock = clock
        self._say = say
        self._process: asyncio.subprocess.Process | None = None
        self.quiet = False
        self._stopping = False
        self._num_failures = 0
        self._echoes = _EchoBudget(clock)

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if running and self._process else None

    async def keep_running(self) -> None:
        """Runs the process, again and again. Returns once it is stopped or given up."""
        while not self._stopping:
            started_ns = self._clock.now_ns()
            code = await self._run_once()
            if self._stopping:
                return
            if self._clock.now_ns() - started_ns >= RECOVERED_NS:
                self._num_failures = 0
            self._num_failures += 1
            hopeless = code in HOPELESS_CODES and not self.been_ready
            if hopeless or self._num_failures > self._max_restarts:
                self._say(self.name, f"{_ended(code)}; given up, its log is {self.log_path}")
                self.is_given_up = True
                return
            delay_ns = min(FIRST_DELAY_NS << (self._num_failures - 1), LONGEST_DELAY_NS)
            self._say(
                self.name,
                f"{_ended(code)}; starting it again in {delay_ns / 1e9:g} s "
                f"({self._num_failures} of {self._max_restarts})",
            )
            await self._clock.sleep(delay_ns)

    async def stop(self, grace_ns: int) -> None:
        """Sends SIGTERM, and SIGKILL if it has not ended within `grace_ns`."""
        self._stopping = True
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        ended = asyncio.ensure_future(process.wait())
        grace = asyncio.ensure_future(self._clock.sleep(grace_ns))
        await asyncio.wait([ended, grace], return_when=asyncio.FIRST_COMPLETED)
        grace.cancel()
        if not ended.done():
            self._say(self.name, f"did not end within {grace_ns / 1e9:g} s; killed")
            self.kill()
        await ended

    def kill(self) -> None:
        """Sends SIGKILL, if it runs."""
        self._stopping = True
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    def close(self) -> None:
        """Closes the log."""
        self._log.close()

    async def _run_once(self) -> int:
        process = await asyncio.create_subprocess_exec(
            *self._command(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **self._environment},
            start_new_session=True,
        )
        self._process = process
        assert process.stdout is not None  # it is piped
        await self._pump(process.stdout)
        return await process.wait()

    async def _pump(self, output: asyncio.StreamReader) -> None:
        lines = LineSplitter()
        while data := await output.read(1 << 16):
            self._log.write(data)
            for line in lines.feed(data):
                text = None if self.quiet else loud(line)
                if text is not None and self._echoes.take():
                    self._say(self.name, text)


class _EchoBudget:
    """Keeps a process in trouble from flooding the terminal."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._window_ends_ns = 0
        self._left = 0

    def take(self) -> bool:
        """True if one more line may be shown."""
        now_ns = self._clock.now_ns()
        if now_ns >= self._window_ends_ns:
            self._window_ends_ns = now_ns + ECHO_WINDOW_NS
            self._left = MOST_ECHOES
        self._left -= 1
        return self._left >= 0


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
