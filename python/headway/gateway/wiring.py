"""Composition root of a gateway. Read it top-down: it is the path of a request.

    data port -> guard -> InferenceServicer -> RequestPath -> Scheduler -> Dispatcher -> session
                                                                                           |
    answer <- pending.future <------------------- Dispatcher.on_result <-------------- worker

1. guard (rpc.interceptors): who calls; errors leave through one table.
2. path (gateway.path): the input is checked and weighed; one crossing, `admit`, does quota,
   version, limit, feasibility and queue in Rust. A refusal says why, and when to come back.
3. scheduler (headway._core): `form_batch` when a replica is free; never earlier.
4. dispatcher (gateway.dispatch): the batch goes out on its worker's session; the result ends its
   members; a busy, failed or lost batch goes back to the queue within its members' deadlines.
5. streams (gateway.streaming): requests of generative models leave the path here; each goes to a
   free lane by itself, and its parts come back as they are written.
6. timer (gateway.timer): whoever's deadline comes is answered at that moment.

Beside the path, and never on it: ControlServicer -> ControlPlane -> Store, which a Follower brings
back into Directory (tenants, keys), Catalog (splits) and Fleet (drains), here and in every other
gateway of the store. Rollouts: a tap counts how requests of an active rollout end (in `Pending`),
the loop in gateway.rollouts judges them, and its splits take the way of all changes.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from headway._core import Scheduler
from headway.admission.policy import AdmissionPolicy
from headway.clock import Clock, wall_ns
from headway.errors import InvalidRequest
from headway.gateway import control_servicer, servicer
from headway.gateway.authentication import ROLES, KeyAuthenticator, OpenAuthenticator
from headway.gateway.catalog import Catalog, Pool
from headway.gateway.control_plane import ControlPlane
from headway.gateway.control_store import ControlStore, url_of
from headway.gateway.decisions import DecisionLog
from headway.gateway.directory import Directory
from headway.gateway.dispatch import Dispatcher
from headway.gateway.fleet import Fleet
from headway.gateway.path import RequestPath
from headway.gateway.pending import Pending
from headway.gateway.recorder import TraceRecorder
from headway.gateway.reload import Load, Reloader
from headway.gateway.rollouts.ledger import Ledger
from headway.gateway.rollouts.service import Rollouts
from headway.gateway.services import Gateway
from headway.gateway.session import WorkerSession
from headway.gateway.settings import GatewaySettings, ResilienceSettings
from headway.gateway.state import StateReader
from headway.gateway.state_feed import StateFeed
from headway.gateway.stream_request import PendingStream
from headway.gateway.streaming import StreamDispatcher
from headway.rng import SeedTree
from headway.rpc.channels import Connect, open_channel
from headway.rpc.interceptors import Authenticator
from headway.rpc.peers import PeerStreams
from headway.rpc.server import Health
from headway.rpc.tls import ProcessTls
from headway.store.backlog import Backlog
from headway.store.election import Election, leader_lock
from headway.store.engine import parse
from headway.store.follow import Follower
from headway.store.store import Store
from headway.telemetry.gateway import GatewayMetrics, Gauges
from headway.telemetry.logging import set_level
from headway.telemetry.tls import TlsMetrics
from headway.v1 import (
    inference_pb2,
    worker_pb2,
)

_NS_PER_S = 1_000_000_000
_NS_PER_MS = 1_000_000
ANONYMOUS = "anonymous"
# What an answer and a batch carry beside their inputs and outputs.
ENVELOPE_BYTES = 512


def wire(
    settings: GatewaySettings,
    clock: Clock,
    seeds: SeedTree,
    loop: asyncio.AbstractEventLoop,
    *,
    load: Load | None = None,
    connect: Connect | None = None,
) -> Gateway:
    """Builds a gateway's parts and joins them.

    Args:
      load: reads the configuration anew, for a reload.
      connect: opens channels to workers; default over sockets.

    Raises:
      ConfigError: the store's URL or package, or the certificates.
    """
    tls = ProcessTls(settings.tls, "gateway.tls", wall_ns)
    gateway_id = settings.gateway_id or f"gateway-{seeds.stream('gateway id').next_u64():016x}"
    scheduler = Scheduler(
        seed=seeds.seed("scheduler"),
        max_live=settings.max_live_requests,
        max_attempts=settings.max_attempts,
        max_tenants=settings.admission.max_active_tenants,
    )
    set_resilience(scheduler, settings.resilience)
    directory = Directory(scheduler, clock)
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
        open_channel=connect
        or partial(open_channel, tls=tls.channel, max_message_bytes=settings.max_batch_bytes),
    )
    live: dict[int, Pending] = {}
    decisions = DecisionLog(settings.explained_requests)
    recorder = TraceRecorder(clock, seeds.seed("tenants in traces"), settings.arrival_trace)
    dispatcher = Dispatcher(
        scheduler,
        clock,
        live,
        fleet.replicas.__getitem__,
        loop.call_soon,
        max_batch_bytes=settings.max_batch_bytes - ENVELOPE_BYTES,
        max_message_bytes=settings.max_message_bytes - ENVELOPE_BYTES,
    )
    streams = StreamDispatcher(
        scheduler,
        clock,
        seeds.stream("streams"),
        loop,
        max_attempts=settings.max_attempts,
        renew=directory.renew,
    )
    now_ns = clock.now_ns()
    path = RequestPath(
        scheduler,
        catalog,
        dispatcher,
        streams,
        metrics,
        clock,
        live,
        decisions,
        recorder,
        loop=loop,
        id_prefix=f"{gateway_id[-8:]}",
        margin_ns=int(settings.transport_margin_ms * _NS_PER_MS),
        learning_until_ns=now_ns + int(2 * settings.lease_seconds * _NS_PER_S),
        renew=directory.renew,
    )
    directory.set_policy(AdmissionPolicy(settings.admission))
    directory.configure(settings.tenants)
    store = Store(parse(url_of(settings.store)), timeout_s=settings.store.timeout_seconds)
    backlog = Backlog(store, settings.store.max_waiting_entries)
    plane = ControlPlane(
        store,
        directory,
        catalog,
        fleet,
        backlog,
        gateway_id=gateway_id,
        wants_first_key=not settings.insecure_no_auth and not settings.tenants,
    )

    def divide_quotas(num_gateways: int) -> None:
        directory.set_policy(AdmissionPolicy(directory.policy.settings, num_gateways))

    control_store = _control_store(store, plane, backlog, clock, gateway_id, divide_quotas)
    fleet.on_joined = control_store.on_joined
    shadow = directory.unlimited("shadow")
    recorder.ignored = shadow

    def submit_copy(request: inference_pb2.InferRequest, remaining_s: float) -> Pending:
        copied = path.submit(request, shadow, remaining_s)
        if isinstance(copied, PendingStream):
            # What writes as it goes has no one answer to compare.
            path.cancel(copied)
            raise InvalidRequest("a generative version takes no shadow traffic", field="version")
        return copied

    rollouts = Rollouts(
        catalog,
        Ledger(
            store,
            backlog,
            catch_up=plane.follower.catch_up,
            leads=control_store.election.leads,
            revision=lambda: plane.follower.revision,
        ),
        clock,
        submit_copy,
        gateway_id=gateway_id,
    )

    def apply(fresh: GatewaySettings) -> None:
        recorder.configure(fresh.arrival_trace)
        directory.set_policy(AdmissionPolicy(fresh.admission, directory.policy.num_gateways))
        directory.configure(fresh.tenants)
        catalog.configure(fresh)
        path.configure(margin_ns=int(fresh.transport_margin_ms * _NS_PER_MS))
        set_resilience(scheduler, fresh.resilience)
        set_level(fresh.log_level)

    reloader = Reloader(settings, load, apply)

    def fill_gauges(read: Gauges) -> None:
        store_state = control_store.describe()
        read.store_up, read.store_waiting = store_state.up, store_state.waiting_entries
        read.reloads_refused = reloader.num_refused
        read.arrivals_unrecorded = recorder.num_dropped
        read.watchers = feed.num_watchers
        read.rollouts = [
            (record.model, record.canary_version, record.canary_share)
            for record, _ in rollouts.active()
        ]

    state = StateReader(
        scheduler,
        catalog,
        fleet,
        metrics,
        clock,
        gateway_id=gateway_id,
        transport=settings.transport,
        generation=lambda: reloader.generation,
        store=control_store.describe,
        rollouts=rollouts.active,
        fill_gauges=fill_gauges,
        streams=streams.describe,
        num_streams=lambda: len(streams.live),
        num_gateways=lambda: directory.policy.num_gateways,
    )
    feed = StateFeed(state.read, clock, max_watchers=settings.max_watchers)
    health = Health()
    _join(fleet, dispatcher, streams, state, health)
    for name in catalog.models:
        health.set(name, False)
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    registry.register(metrics)
    if tls.identity is not None:
        registry.register(TlsMetrics(tls.identity))
    return Gateway(
        settings=settings,
        gateway_id=gateway_id,
        scheduler=scheduler,
        catalog=catalog,
        fleet=fleet,
        path=path,
        dispatcher=dispatcher,
        streams=streams,
        metrics=metrics,
        state=state,
        health=health,
        registry=registry,
        authenticate=_authenticator(settings, clock, directory, control_store),
        clock=clock,
        directory=directory,
        plane=plane,
        store=control_store,
        feed=feed,
        decisions=decisions,
        recorder=recorder,
        reloader=reloader,
        rollouts=rollouts,
        tls=tls,
        peer_streams=PeerStreams(settings.limits.max_streams_per_peer),
    )


def set_resilience(scheduler: Scheduler, settings: ResilienceSettings) -> None:
    """Puts settings of breakers, retries, copies and pipelining in force."""
    scheduler.set_resilience(
        max_ejected_share=settings.max_ejected_share,
        retry_share=settings.retry_share,
        hedge_share=settings.hedge_share,
        pipelined=settings.pipelined_dispatch,
    )


def _control_store(
    store: Store,
    plane: ControlPlane,
    backlog: Backlog,
    clock: Clock,
    gateway_id: str,
    on_census: Callable[[int], None],
) -> ControlStore:
    async def on_up() -> None:
        await backlog.flush()

    follower = Follower(store, clock, prepare=plane.prepare, apply=plane.apply, on_up=on_up)
    plane.follower = follower
    election = Election(leader_lock(store.address), clock)
    return ControlStore(
        store,
        plane,
        follower,
        election,
        backlog,
        clock,
        gateway_id=gateway_id,
        on_census=on_census,
    )


def _join(
    fleet: Fleet,
    dispatcher: Dispatcher,
    streams: StreamDispatcher,
    state: StateReader,
    health: Health,
) -> None:
    def on_batch_message(session: WorkerSession, message: worker_pb2.SessionResponse) -> None:
        kind = message.WhichOneof("message")
        if kind == "capacity" and message.capacity.free_slots > 0:
            fleet.on_free(session, message.capacity.free_in_ns)
        if streams.on_message(session, message):
            return
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

    def on_lost(session: WorkerSession) -> None:
        dispatcher.on_lost(session)
        streams.on_lost(session)

    def on_capacity(pool: int) -> None:
        dispatcher.kick(pool)
        streams.kick(pool)

    fleet.on_batches_lost = on_lost
    fleet.on_capacity = on_capacity
    fleet.on_condition = streams.on_condition
    fleet.on_watch = dispatcher.give_up_overdue
    fleet.on_greeting = streams.on_greeting
    fleet.on_readiness = on_readiness
    # Known from the start, so that a probe hears "not serving" rather than "never heard of it".
    health.set("", False)
    health.set(servicer.SERVICE, False)


def _authenticator(
    settings: GatewaySettings,
    clock: Clock,
    directory: Directory,
    store: ControlStore,
) -> Authenticator:
    if settings.insecure_no_auth:
        return OpenAuthenticator(directory.unlimited(ANONYMOUS, role=ROLES["admin"]))
    return KeyAuthenticator(
        directory.valid, control_servicer.REQUIRED_ROLE, clock, complete=store.complete
    )
