"""A worker process: signals, logs, exit codes."""

import asyncio
import logging
import os
import signal
import sys

import uvloop

from headway.clock import SystemClock
from headway.errors import ConfigError, StartupError
from headway.rng import SeedTree, fresh_root
from headway.telemetry import logging as logs
from headway.worker.settings import WorkerSettings
from headway.worker.wiring import Worker

_log = logging.getLogger(__name__)

# From sysexits.h: EX_USAGE for bad configuration, EX_UNAVAILABLE for what is missing or taken.
EXIT_OK = 0
EXIT_CONFIG = 64
EXIT_UNAVAILABLE = 69


def run(settings: WorkerSettings) -> int:
    """Runs a worker until SIGTERM or SIGINT; returns the exit code.

    0 after a drain, 64 for bad configuration, 69 if it could not start. A second signal ends the
    process at once, with 128 + the signal's number.
    """
    logs.configure(level=settings.log_level, style=settings.log_format)
    seed = fresh_root() if settings.seed is None else settings.seed
    _log.info("starting", extra={"worker_id": settings.worker_id, "seed": seed})
    try:
        uvloop.run(_serve(settings, SeedTree(seed)))
    except (ConfigError, StartupError) as error:
        print(f"headway worker: {error}", file=sys.stderr)
        return EXIT_CONFIG if isinstance(error, ConfigError) else EXIT_UNAVAILABLE
    return EXIT_OK


async def _serve(settings: WorkerSettings, seeds: SeedTree) -> None:
    stop = asyncio.Event()
    _on_signals(stop)
    worker = Worker(settings, clock=SystemClock(), seeds=seeds)
    starting = asyncio.ensure_future(worker.start())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if starting.done() and starting.exception() is None:
        await stopping
        await worker.drain()
        return
    # It failed to start, or was told to stop before it had.
    starting.cancel()
    await asyncio.wait((starting,))
    await worker.close()
    if not starting.cancelled():
        starting.result()


def _on_signals(stop: asyncio.Event) -> None:
    def handle(number: signal.Signals) -> None:
        if stop.is_set():
            _log.warning("a second %s: ending at once", number.name)
            # Not sys.exit: an execution in native code would hold the process up.
            os._exit(128 + number)
        _log.info("%s: draining", number.name)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, handle, number)
