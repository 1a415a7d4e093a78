"""A gateway process: ports, signals, drain."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from headway.address_file import remove_address_file, write_address_file
from headway.clock import SystemClock
from headway.errors import ConfigError, StartupError
from headway.exposure import OpenPort, exposures
from headway.gateway import control_servicer, fleet_servicer, servicer
from headway.gateway.reload import Load
from headway.gateway.services import Gateway
from headway.gateway.settings import GatewaySettings
from headway.gateway.wiring import wire
from headway.rng import SeedTree, fresh_root
from headway.rpc.promptness import MessageBound
from headway.rpc.server import add_standard_services, bind, faces, make_server, port_metrics
from headway.telemetry.http import HttpServer
from headway.telemetry.logging import configure

_log = logging.getLogger(__name__)

_FIRST_KEY = """
This gateway's store is new and nobody may operate it yet. Here is an admin key, shown only once:

  {key}

Keep it, and make others: HEADWAY_API_KEY=<key> headway tenant create acme
"""

_LAME_DUCK_NS = 100_000_000
# Net allocations between two collections of the youngest generation; 700 by default.
_COLLECT_AFTER = 50_000

EXIT_CONFIG = 64
EXIT_UNAVAILABLE = 69


def run(settings: GatewaySettings, load: Load | None = None) -> int:
    """Runs a gateway until SIGTERM or SIGINT. Returns the process's exit code.

    `load` reads the configuration anew, at SIGHUP and ReloadConfig. Exit codes: 0 after
    a clean drain; 64 for a configuration that cannot work; 69 if a port is taken.
    """
    import uvloop

    configure(level=settings.log_level, style=settings.log_format)
    try:
        return uvloop.run(_serve(settings, load))
    except (ConfigError, StartupError) as error:
        print(f"headway gateway: {error}", file=sys.stderr)
        return EXIT_CONFIG if isinstance(error, ConfigError) else EXIT_UNAVAILABLE


async def _serve(settings: GatewaySettings, load: Load | None) -> int:
    loop = asyncio.get_running_loop()
    seeds = SeedTree(fresh_root() if settings.seed is None else settings.seed)
    gateway = wire(settings, SystemClock(), seeds, loop, load=load)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, stopping)
    loop.add_signal_handler(signal.SIGHUP, gateway.reloader.on_signal)
    process = GatewayProcess(gateway)
    addresses = await process.start()
    if gateway.plane.bootstrap_key is not None:
        # Not through the log, which masks it, and which others may read.
        print(_FIRST_KEY.format(key=gateway.plane.bootstrap_key), file=sys.stderr, flush=True)
    _log.info(
        "gateway started",
        extra={"gateway": gateway.gateway_id, "seed": seeds.root, **addresses,
               "transport": settings.transport, "authentication": not settings.insecure_no_auth},
    )  # fmt: skip
    _calm_collector()
    await stopping.wait()
    await process.stop()
    _log.info("gateway stopped", extra={"gateway": gateway.gateway_id})
    return 0


def _calm_collector() -> None:
    """Makes cyclic garbage collection rare.

    Requests leave no cycles, so almost all of it is in vain; at its defaults it goes over the
    records of thousands of past requests many times a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 100)


def _on_signal(stopping: asyncio.Event) -> None:
    if stopping.is_set():
        os._exit(1)  # the second signal: whoever sends it does not want to wait
    stopping.set()


def _open_ports(settings: GatewaySettings) -> list[OpenPort]:
    encrypted = () if settings.tls is None else settings.tls.ports
    authenticated = not settings.insecure_no_auth
    hosts = {"data": settings.host, "control": settings.control_host}
    return [
        OpenPort(name, "gateway", host, name in encrypted, authenticated)
        for name, host in hosts.items()
    ]


class GatewayProcess:
    """The ports of a gateway and their life."""

    def __init__(self, gateway: Gateway) -> None:
        settings = gateway.settings
        self._gateway = gateway
        self._settings = settings
        self._data = make_server(
            settings.transport,
            max_message_bytes=settings.max_message_bytes,
            limits=settings.limits,
        )
        self._control = make_server(
            "grpcio",
            max_message_bytes=settings.max_message_bytes,
            limits=settings.limits,
        )
        seconds = settings.limits.max_message_seconds
        self._bounds = {"data": MessageBound(seconds), "control": MessageBound(seconds)}
        servers = {"data": self._data, "control": self._control}
        gateway.registry.register(port_metrics(servers, self._bounds))
        self._http = HttpServer(registry=gateway.registry, readiness=self._readiness)
        self._is_closed = False
        self._addresses: dict[str, str] = {}
        self._leases: asyncio.Task[None] | None = None
        self._rollouts: asyncio.Task[None] | None = None
        self._recording: asyncio.Task[None] | None = None
        self._certificates: asyncio.Task[None] | None = None

    async def start(self) -> dict[str, str]:
        """Opens the ports; returns their addresses as host:port. What fails leaves none open.

        Raises:
          StartupError: a port is taken.
        """
        try:
            return await self._open()
        except BaseException:
            await self._close()
            raise

    async def _open(self) -> dict[str, str]:
        settings, gateway = self._settings, self._gateway
        for sentence in exposures(_open_ports(settings)):
            _log.warning(sentence)
        await gateway.store.start()
        streams, bounds = gateway.peer_streams, self._bounds
        data = faces(self._data, settings.transport, bounds["data"], streams)
        gateway.add_data_services(data.guarded, data.standing)
        add_standard_services(data.standing, (servicer.SERVICE,))
        control = faces(self._control, "grpcio", bounds["control"], streams)
        gateway.add_control_services(control.guarded, control.standing)
        names = (control_servicer.SERVICE, fleet_servicer.SERVICE)
        add_standard_services(control.standing, names)
        addresses = {
            "data": bind(
                self._data, settings.host, settings.port, "--port", gateway.tls.server("data")
            ),
            "control": bind(
                self._control, settings.control_host, settings.control_port, "--control-port",
                gateway.tls.server("control"),
            ),
        }  # fmt: skip
        if settings.http_port is not None:
            addresses["http"] = await self._http.start(
                settings.http_host, settings.http_port, gateway.tls.http()
            )
        await self._data.start()
        await self._control.start()
        self._leases = asyncio.ensure_future(gateway.fleet.watch_leases())
        self._rollouts = asyncio.ensure_future(gateway.rollouts.run())
        self._recording = asyncio.ensure_future(gateway.recorder.run())
        self._certificates = asyncio.ensure_future(gateway.tls.watch(gateway.clock))
        if settings.address_file is not None:
            write_address_file(settings.address_file, addresses)
        self._addresses = addresses
        return addresses

    async def stop(self) -> None:
        """Drains: not serving, refuse new requests, finish old ones, then close.

        Requests that are still live after drain_seconds end with an error by then. Repeating it
        changes nothing.
        """
        if self._is_closed:
            return
        gateway, grace = self._gateway, self._gateway.reloader.settings.drain_seconds
        try:
            gateway.health.leave()
            try:
                await asyncio.wait_for(gateway.path.drain(), grace)
            except TimeoutError:
                unfinished = gateway.scheduler.num_live()
                _log.warning("drain ended early", extra={"unfinished": unfinished})
                gateway.path.abandon_all()
            # Calls that are on their way still hear DRAINING; a closing port would cut them off.
            await gateway.clock.sleep(_LAME_DUCK_NS)
        finally:
            await self._close()

    async def _close(self) -> None:
        """Closes everything, each part even if one before it failed.

        A server that outlives its event loop would take the process down: grpc's core writes the
        next call into memory that is another's by then.
        """
        if self._is_closed:
            return
        self._is_closed = True
        gateway, settings = self._gateway, self._settings
        async with contextlib.AsyncExitStack() as last_first:
            if settings.address_file is not None and self._addresses:
                last_first.callback(remove_address_file, settings.address_file, self._addresses)
            if settings.http_port is not None:
                last_first.push_async_callback(self._http.stop)
            last_first.push_async_callback(gateway.store.stop)
            last_first.push_async_callback(self._control.stop, 1.0)
            last_first.push_async_callback(gateway.fleet.close)
            last_first.push_async_callback(gateway.recorder.close)
            last_first.push_async_callback(self._end_tasks)
            # The answers have been given to the server; a second is for their way out.
            last_first.push_async_callback(self._data.stop, 1.0)

    async def _end_tasks(self) -> None:
        tasks = (self._leases, self._rollouts, self._recording, self._certificates)
        running = [task for task in tasks if task is not None]
        for task in running:
            task.cancel()
        # Its last operation ends before the store's connections do.
        await asyncio.gather(*running, return_exceptions=True)

    def _readiness(self) -> tuple[bool, Mapping[str, Any]]:
        gateway = self._gateway
        ready = gateway.state.ready() and not gateway.path.draining
        models = {name: model.ready() for name, model in sorted(gateway.catalog.models.items())}
        return ready, {"draining": gateway.path.draining, "models": models}
