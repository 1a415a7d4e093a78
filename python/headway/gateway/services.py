"""The parts of a gateway, and the services that its ports give."""

from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry

from headway._core import Scheduler
from headway.clock import Clock
from headway.gateway import control_servicer, fleet_servicer, servicer
from headway.gateway.authentication import OpenAuthenticator
from headway.gateway.catalog import Catalog
from headway.gateway.control_plane import ControlPlane
from headway.gateway.control_store import ControlStore
from headway.gateway.decisions import DecisionLog
from headway.gateway.directory import Directory
from headway.gateway.dispatch import Dispatcher
from headway.gateway.fleet import Fleet
from headway.gateway.path import RequestPath
from headway.gateway.recorder import TraceRecorder
from headway.gateway.reload import Reloader
from headway.gateway.rollouts.service import Rollouts
from headway.gateway.settings import GatewaySettings
from headway.gateway.state import StateReader
from headway.gateway.state_feed import StateFeed
from headway.gateway.streaming import StreamDispatcher
from headway.rpc.decoding import Lenient
from headway.rpc.interceptors import Authenticator, Caller, guard
from headway.rpc.peers import PeerStreams
from headway.rpc.server import Health
from headway.rpc.tls import ProcessTls
from headway.telemetry.gateway import GatewayMetrics
from headway.v1 import (
    control_pb2_grpc,
    fleet_pb2_grpc,
    inference_pb2_grpc,
)

_NS_PER_S = 1_000_000_000


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
    streams: StreamDispatcher
    metrics: GatewayMetrics
    state: StateReader
    health: Health
    registry: CollectorRegistry
    authenticate: Authenticator
    clock: Clock
    directory: Directory
    plane: ControlPlane
    store: ControlStore
    feed: StateFeed
    decisions: DecisionLog
    recorder: TraceRecorder
    reloader: Reloader
    rollouts: Rollouts
    tls: ProcessTls
    peer_streams: PeerStreams

    def add_data_services(self, server: Any, standing: Any = None) -> None:
        """Adds InferenceService and health.

        `standing`: where health is added, if not to `server` (`rpc.server.Faces`).
        """
        inference = servicer.InferenceServicer(
            self.path, self.catalog, self.settings.max_inflight_per_stream
        )
        guard(
            inference,
            servicer.SERVICE,
            servicer.METHODS,
            self.authenticate,
            streams=self.peer_streams,
            direct={"Infer": inference.begin_infer},
        )
        inference_pb2_grpc.add_InferenceServiceServicer_to_server(inference, Lenient(server))
        self.health.add_to(standing or server)

    def add_control_services(self, server: Any, standing: Any = None) -> None:
        """Adds ControlService, FleetService and health; `standing` as for the data port.

        FleetService has no API keys: workers show the fleet's token, once, for a lease.
        """
        control = control_servicer.ControlServicer(
            self.plane,
            self.state,
            self.feed,
            self.fleet,
            self.catalog,
            self.directory,
            self.decisions,
            self.reloader,
            self.rollouts,
            self.clock,
            gateway_id=self.gateway_id,
        )
        guard(
            control,
            control_servicer.SERVICE,
            control_servicer.METHODS,
            self.authenticate,
            streams=self.peer_streams,
        )
        control_pb2_grpc.add_ControlServiceServicer_to_server(control, Lenient(server))
        token = self.settings.fleet_token
        fleet = fleet_servicer.FleetServicer(
            self.fleet,
            gateway_id=self.gateway_id,
            lease_ns=int(self.settings.lease_seconds * _NS_PER_S),
            token=None if token is None else token.get_secret_value(),
            fleet_name=self.tls.fleet_name,
        )
        everyone = OpenAuthenticator(Caller("fleet", 0))
        # Not with the callers' streams: who takes those all shall not keep workers out.
        heartbeats = PeerStreams(self.settings.limits.max_streams_per_peer)
        guard(fleet, fleet_servicer.SERVICE, fleet_servicer.METHODS, everyone, streams=heartbeats)
        fleet_pb2_grpc.add_FleetServiceServicer_to_server(fleet, Lenient(server))
        self.health.add_to(standing or server)
