"""Composition root of a gateway. Read it top-down: it is the path of a request.

    data port -> guard -> InferenceServicer -> RequestPath -> Scheduler -> Dispatcher -> session
                                                                                           |
    answer <- pending.future <------------------- Dispatcher.on_result <-------------- worker

1. guard (rpc.interceptors): who calls; errors leave through one table.
2. path (gateway.path): the input is checked and weighed; one crossing, `offer`, does quota,
   version, feasibility and queue in Rust. A refusal says why, and when to come back.
3. scheduler (headway._core): `form_batch` when a replica is free; never earlier.
4. dispatcher (gateway.dispatch): the batch goes out on its worker's session; the result ends its
   members; a busy, failed or lost batch goes back to the queue within its members' deadlines.
5. timer (gateway.timer): whoever's deadline comes is answered at that moment.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from headway._core import Scheduler
from headway.clock import Clock
from headway.gateway import control_servicer, fleet_servicer, servicer
from headway.gateway.authentication import (
    ROLES,
    KeyAuthenticator,
    OpenAuthenticator,
    StoredKey,
)
from headway.gateway.catalog import Catalog, Pool
from headway.gateway.dispatch import Dispatcher
from headway.gateway.fleet import Fleet
from headway.gateway.path import RequestPath
from headway.gateway.pending import Pending
from headway.gateway.session import WorkerSession
from headway.gateway.settings import GatewaySettings, TenantSettings
from headway.gateway.state import StateReader
from headway.rng import SeedTree
from headway.rpc.interceptors import Authenticator, Caller, guard
from headway.rpc.server import Health
from headway.telemetry.gateway import GatewayMetrics
from headway.v1 import control_pb2_grpc, fleet_pb2_grpc, inference_pb2_grpc, worker_pb2

_NS_PER_S = 1_000_000_000
_NS_PER_MS = 1_000_000
ANONYMOUS = "anonymous"


@dataclass(slots=True, eq=False)
class Gateway:
    """The wired parts of a gateway, before any port is open."""

    settings: GatewaySettings
    gateway_id: str
    scheduler: Scheduler
    catalog: Catalog
    fleet: Fleet
    path: RequestPath
    dispatcher: Dispatcher
    metrics: GatewayMetrics
    state: StateReader
    health: Health
    registry: CollectorRegistry
    authenticate: Authenticator
    clock: Clock

    def add_data_services(self, server: Any) -> None:
        """Adds InferenceService and health."""
        inference = servicer.InferenceServicer(
            self.path, self.catalog, self.settings.max_inflight_per_stream
        )
        guard(
            inference,
            servicer.SERVICE,
            servicer.METHODS,
            self.authenticate,
            # pygrpc-native keeps names that begin with grpc- to itself (docs/adr/0004).
            pushback=self.settings.transport != "native",
        )
        inference_pb2_grpc.add_InferenceServiceServicer_to_server(inference, server)
        self.health.add_to(server)

    def add_control_services(self, server: Any) -> None:
        """Adds ControlService, FleetService and health.

        FleetService has no API keys: workers show the fleet's token, once, for a lease.
        """
        control = control_servicer.ControlServicer(self.state, self.fleet, self.catalog, self.clock)
        guard(control, control_servicer.SERVICE, control_servicer.METHODS, self.authenticate)
        control_pb2_grpc.add_ControlServiceServicer_to_server(control, server)
        token = self.settings.fleet_token
        fleet = fleet_servicer.FleetServicer(
            self.fleet,
            gateway_id=self.gateway_id,
            lease_ns=int(self.settings.lease_seconds * _NS_PER_S),
            token=None if token is None else token.get_secret_value(),
        )
        everyone = OpenAuthenticator(Caller("fleet", 0))
        guard(fleet, fleet_servicer.SERVICE, fleet_servicer.METHODS, everyone)
        fleet_pb2_grpc.add_FleetServiceServicer_to_server(fleet, server)
        self.health.add_to(server)


def wire(
    settings: GatewaySettings, clock: Clock, seeds: SeedTree, loop: asyncio.AbstractEventLoop
) -> Gateway:
    """Builds a gateway's parts and joins them."""
    gateway_id = settings.gateway_id or f"gateway-{seeds.stream('gateway id').next_u64():016x}"
    scheduler = Scheduler(
        seed=seeds.seed("scheduler"),
        max_live=settings.max_live_requests,
        max_attempts=settings.max_attempts,
    )
    metrics = GatewayMetrics(lambda: state.gauges())
    catalog = Catalog(settings, scheduler, metrics)
    token = settings.fleet_token
    fleet = Fleet(
        scheduler,
        catalog,
        clock,
        seeds.stream("fleet"),
        greeting=worker_pb2.GatewayGreeting(
            gateway_id=gateway_id, fleet_token="" if token is None else token.get_secret_value()
        ),
        lease_ns=int(settings.lease_seconds * _NS_PER_S),
        max_workers=settings.max_workers,
        max_message_bytes=settings.max_message_bytes,
    )
    live: dict[int, Pending] = {}
    dispatcher = Dispatcher(scheduler, clock, live, fleet.replicas.__getitem__, loop.call_soon)
    now_ns = clock.now_ns()
    path = RequestPath(
        scheduler,
        catalog,
        dispatcher,
        metrics,
        clock,
        live,
        loop=loop,
        id_prefix=f"{gateway_id[-8:]}",
        margin_ns=int(settings.transport_margin_ms * _NS_PER_MS),
        learning_until_ns=now_ns + int(2 * settings.lease_seconds * _NS_PER_S),
    )
    state = StateReader(
        scheduler,
        catalog,
        fleet,
        metrics,
        clock,
        gateway_id=gateway_id,
        transport=settings.transport,
    )
    health = Health()
    _join(fleet, dispatcher, state, health)
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    registry.register(metrics)
    return Gateway(
        settings=settings,
        gateway_id=gateway_id,
        scheduler=scheduler,
        catalog=catalog,
        fleet=fleet,
        path=path,
        dispatcher=dispatcher,
        metrics=metrics,
        state=state,
        health=health,
        registry=registry,
        authenticate=_authenticator(settings, scheduler, now_ns),
        clock=clock,
    )


def _join(fleet: Fleet, dispatcher: Dispatcher, state: StateReader, health: Health) -> None:
    def on_batch_message(session: WorkerSession, message: worker_pb2.SessionResponse) -> None:
        kind = message.WhichOneof("message")
        if kind == "result":
            dispatcher.on_result(session, message.result)
        elif kind == "busy":
            dispatcher.on_busy(session, message.busy)

    def on_readiness(pool: Pool) -> None:
        model = pool.model
        health.set(pool.name, pool.num_ready > 0)
        health.set(model.name, model.ready())
        ready = state.ready()
        health.set("", ready)
        health.set(servicer.SERVICE, ready)

    fleet.on_batch_message = on_batch_message
    fleet.on_batches_lost = dispatcher.on_lost
    fleet.on_capacity = dispatcher.kick
    fleet.on_readiness = on_readiness
    # Known from the start, so that a probe hears "not serving" rather than "never heard of it".
    health.set("", False)
    health.set(servicer.SERVICE, False)


def _authenticator(settings: GatewaySettings, scheduler: Scheduler, now_ns: int) -> Authenticator:
    if settings.insecure_no_auth:
        handle = scheduler.add_tenant(now_ns, units_per_s=float("inf"), burst_units=float("inf"))
        return OpenAuthenticator(Caller(ANONYMOUS, handle, role=ROLES["admin"]))
    keys = [
        key
        for name, tenant in sorted(settings.tenants.items())
        for key in _keys(name, tenant, scheduler, now_ns)
    ]
    return KeyAuthenticator(keys, control_servicer.REQUIRED_ROLE)


def _keys(
    name: str, tenant: TenantSettings, scheduler: Scheduler, now_ns: int
) -> Iterable[StoredKey]:
    rate = tenant.units_per_second or float("inf")
    burst = tenant.burst_units or 2 * rate
    handle = scheduler.add_tenant(now_ns, units_per_s=rate, burst_units=burst)
    for key in tenant.keys:
        caller = Caller(name, handle, role=ROLES[key.role], key_id=key.key_id)
        yield StoredKey(key.key_id, bytes.fromhex(key.sha256), caller)
