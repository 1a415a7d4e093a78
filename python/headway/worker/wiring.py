"""The composition root: what a worker is made of, and the order in which it comes and goes."""

import asyncio
import contextlib
import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from headway.address_file import remove_address_file, write_address_file
from headway.clock import Clock, wall_ns
from headway.engine.sharing import DeviceShare
from headway.exposure import OpenPort, exposures
from headway.rng import SeedTree, fresh_root
from headway.rpc.channels import Connect, open_channel
from headway.rpc.decoding import Lenient
from headway.rpc.interceptors import Caller, guard
from headway.rpc.peers import PeerStreams
from headway.rpc.promptness import MessageBound
from headway.rpc.server import (
    Health,
    add_standard_services,
    bind,
    faces,
    make_server,
    port_metrics,
)
from headway.rpc.tls import ProcessTls
from headway.runtimes.generative_settings import GenerativeSettings
from headway.telemetry.http import HttpServer
from headway.telemetry.tls import TlsMetrics
from headway.telemetry.worker import WorkerGauges, WorkerMetrics
from headway.v1 import worker_pb2_grpc
from headway.worker.batch import HostedModel
from headway.worker.device import Device
from headway.worker.fleet import Membership
from headway.worker.generator import HostedGenerator, load_generator
from headway.worker.hosting import hosted, make_runtime
from headway.worker.patience import within
from headway.worker.servicer import SERVICE, WorkerServicer
from headway.worker.sessions import Sessions
from headway.worker.settings import ModelSettings, WorkerSettings
from headway.worker.state import WorkerState

_log = logging.getLogger(__name__)

NS_PER_S = 1_000_000_000
# Streams have ended by themselves when the server stops; what is left are health watches.
STOP_GRACE_SECONDS = 0.5
# Longest wait until all gateways have heard that the worker drains; they find out anyhow.
ANNOUNCE_NS = NS_PER_S // 2


class Worker:
    """One worker process, from `start` to `drain`."""

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        clock: Clock,
        seeds: SeedTree,
        connect: Connect | None = None,
        server: Any = None,
    ) -> None:
        """Needs a running event loop; opens nothing yet.

        Args:
          connect: opens channels to gateways; default over sockets.
          server: carries WorkerService, as a grpc.aio server does; default one on a socket.
        """
        self._settings = settings
        self._clock = clock
        # By name, so that workers that share a seed do not share their luck.
        self._seeds = SeedTree(seeds.seed(settings.worker_id))
        # Not from `seeds`: a restart with the same seed is another instance.
        self._instance_id = f"{fresh_root():016x}"
        self._device_thread = ThreadPoolExecutor(1, thread_name_prefix="device")
        self._models: tuple[HostedModel | HostedGenerator, ...] = ()
        self._device = Device(
            clock,
            max_batches=settings.max_outstanding_batches + settings.max_queued_batches,
        )
        self._sessions = Sessions(settings, self._instance_id, self._device, clock)
        self._state = WorkerState(settings, self._instance_id, self._device)
        self._health = Health()
        self._on_socket = server is None
        self._server = server or make_server(
            "grpcio",
            max_message_bytes=settings.max_batch_bytes,
            limits=settings.limits,
        )
        self._tls = ProcessTls(settings.tls, "worker.tls", wall_ns)
        self._metrics = WorkerMetrics(self._gauges)
        self._bound = MessageBound(settings.limits.max_message_seconds)
        registry = CollectorRegistry()
        registry.register(self._metrics)
        registry.register(port_metrics({"worker": self._server}, {"worker": self._bound}))
        if self._tls.identity is not None:
            registry.register(TlsMetrics(self._tls.identity))
        self._http = HttpServer(registry=registry, readiness=self._state.readiness)
        self._memberships = [
            Membership(
                address,
                registration=self._state.registration,
                heartbeat=self._state.heartbeat,
                clock=clock,
                rng=self._seeds.stream(f"fleet/{address}"),
                open_channel=connect or partial(open_channel, tls=self._tls.channel),
            )
            for address in settings.gateways
        ]
        self._background: list[asyncio.Task[None]] = []
        # host:port by purpose, "worker" and "http", once bound.
        self.addresses: dict[str, str] = {}

    async def start(self) -> None:
        """Returns once it would execute a batch. It joins its gateways from then on.

        Raises:
          StartupError: a port is taken, or a model cannot be loaded.
        """
        self._warn_of_exposure()
        await self._listen()
        await self._load()
        self._set_health(True)
        if self._settings.address_file is not None:
            write_address_file(self._settings.address_file, self.addresses)
        self._background = [
            asyncio.ensure_future(membership.run()) for membership in self._memberships
        ]
        self._background.append(asyncio.ensure_future(self._tls.watch(self._clock)))
        _log.info("ready", extra={**self.addresses, "worker_id": self._settings.worker_id})

    async def drain(self) -> None:
        """Takes no more work, finishes what is in hand within `drain_seconds`, and leaves."""
        self._health.leave()
        self._device.draining = True
        generations = [m.generation for m in self._models if isinstance(m, HostedGenerator)]
        for generation in generations:
            generation.draining = True
        self._sessions.tell_capacity()
        with contextlib.suppress(TimeoutError):
            await within(self._clock, ANNOUNCE_NS, self._announce())
        try:
            drain_ns = round(self._settings.drain_seconds * NS_PER_S)
            idle = [self._device.until_idle(), *(each.until_idle() for each in generations)]
            await within(self._clock, drain_ns, asyncio.gather(*idle))
        except TimeoutError:
            _log.warning("not finished within the drain time: %d batches", self._device.num_batches)
        await self.close()

    async def close(self) -> None:
        """Ends everything. Answers that are ready are sent first; work in hand is stopped."""
        async with contextlib.AsyncExitStack() as last_first:
            # Without addresses the port was another's, and so may the file be.
            if self.addresses and self._settings.address_file is not None:
                last_first.callback(
                    remove_address_file, self._settings.address_file, self.addresses
                )
            last_first.callback(self._device_thread.shutdown, wait=False, cancel_futures=True)
            for model in reversed(self._models):
                last_first.push_async_callback(model.close)
            last_first.push_async_callback(self._http.stop)
            for membership in self._memberships:
                last_first.push_async_callback(membership.close)
            last_first.push_async_callback(self._leave)
            # First, and whatever else fails: a server must not outlive its event loop.
            last_first.push_async_callback(self._server.stop, STOP_GRACE_SECONDS)
            self._sessions.finish()

    async def _leave(self) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await asyncio.gather(*(membership.leave() for membership in self._memberships))

    def _warn_of_exposure(self) -> None:
        settings = self._settings
        encrypted = self._tls.covers("worker")
        authenticated = not settings.insecure_no_auth
        port = OpenPort("worker", "worker", settings.host, encrypted, authenticated)
        for sentence in exposures([port]):
            _log.warning(sentence)

    async def _announce(self) -> None:
        await asyncio.gather(*(membership.announce() for membership in self._memberships))

    async def _listen(self) -> None:
        settings = self._settings
        servicer = WorkerServicer(self._sessions, self._tls.fleet_name)
        # Gateways show who they are in the session's greeting, not in the call's metadata.
        guard(servicer, SERVICE, ["Session"], lambda _metadata, _method: Caller("fleet", 0))
        worker_pb2_grpc.add_WorkerServiceServicer_to_server(servicer, Lenient(self._server))
        standing = self._standing()
        self._health.add_to(standing)
        add_standard_services(standing, [SERVICE])
        bound = bind(
            self._server, settings.host, settings.port, "worker.port", self._tls.server("worker")
        )
        self.addresses["worker"] = bound
        if settings.address_file is not None:
            # Of an earlier process: nobody shall take its addresses for ours while models load.
            settings.address_file.unlink(missing_ok=True)
        self._state.address = _advertised(settings.advertise, bound)
        self._set_health(False)
        await self._server.start()
        if settings.http_port is not None:
            bound = await self._http.start(settings.http_host, settings.http_port, self._tls.http())
            self.addresses["http"] = bound

    def _standing(self) -> Any:
        if not self._on_socket:
            return self._server
        streams = PeerStreams(self._settings.limits.max_streams_per_peer)
        return faces(self._server, "grpcio", self._bound, streams).standing

    async def _load(self) -> None:
        models: list[HostedModel | HostedGenerator] = []
        writers = [m for m in self._settings.models if isinstance(m.runtime, GenerativeSettings)]
        # One engine has the device to itself; several take turns.
        share = DeviceShare() if len(writers) > 1 else None
        for handle, settings in enumerate(self._settings.models):
            seeds = SeedTree(self._seeds.seed(settings.label))
            if isinstance(settings.runtime, GenerativeSettings):
                models.append(await self._load_generator(handle, settings, seeds, share))
                continue
            runtime = make_runtime(
                settings, clock=self._clock, seeds=seeds, device_thread=self._device_thread
            )
            await runtime.load()
            models.append(hosted(handle, settings, runtime, self._metrics))
            _log.info("loaded %s", settings.label)
        self._models = self._state.models = self._sessions.models = tuple(models)

    async def _load_generator(
        self, handle: int, settings: ModelSettings, seeds: SeedTree, share: DeviceShare | None
    ) -> HostedGenerator:
        loaded = await load_generator(
            handle,
            settings,
            clock=self._clock,
            seeds=seeds,
            device_thread=self._device_thread,
            share=share,
            metrics=self._metrics,
            changed=lambda: self._sessions.tell_capacity(),
        )
        _log.info("loaded %s", settings.label)
        return loaded

    def _set_health(self, serving: bool) -> None:
        self._health.set("", serving)
        self._health.set(SERVICE, serving)
        for model in self._settings.models:
            self._health.set(model.model, serving)
            self._health.set(model.label, serving)

    def _gauges(self) -> WorkerGauges:
        return WorkerGauges(
            outstanding_batches=self._device.num_batches,
            sessions=len(self._sessions),
            gateways_joined=sum(membership.joined for membership in self._memberships),
            draining=self._device.draining,
            idle_ns=self._device.idle_ns,
            lanes=[m.lanes() for m in self._models if isinstance(m, HostedGenerator)],
        )


def _advertised(advertise: str | None, bound: str) -> str:
    if advertise is None:
        return bound
    host, _, port = advertise.rpartition(":")
    return f"{host}:{bound.rpartition(':')[2]}" if int(port) == 0 else advertise
