"""Servers: the two transports behind one small interface, and the standard services."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import grpc
from grpc import aio
from grpc_channelz.v1 import channelz, channelz_pb2_grpc
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from headway.errors import ConfigError, StartupError
from headway.limits import ConnectionLimits
from headway.rpc.decoding import calm_logs
from headway.rpc.health import NOT_SERVING, SERVING, HealthServicer
from headway.rpc.metadata import BoundedMetadata
from headway.rpc.peers import PeerStreams
from headway.rpc.promptness import MessageBound, Prompt
from headway.telemetry.ports import PortMetrics, PortSource

Transport = Literal["grpcio", "native"]
_PING_STRIKES = 2


class Server(Protocol):
    """What both transports offer."""

    def add_insecure_port(self, address: str) -> int:
        """Binds host:port and returns the port."""
        ...

    def add_secure_port(self, address: str, server_credentials: Any) -> int:
        """Binds host:port with TLS and returns the port."""
        ...

    async def start(self) -> None:
        """Accepts calls from here on."""
        ...

    async def stop(self, grace: float | None) -> None:
        """Refuses new calls, waits for old ones up to `grace` seconds, then cancels them."""
        ...


def server_options(max_message_bytes: int, limits: ConnectionLimits) -> list[tuple[str, int]]:
    """Options of both transports.

    A port is never shared: two processes on one port would each get half of the calls.
    """
    return [
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.max_concurrent_streams", limits.max_concurrent_streams),
        # The soft limit refuses some calls by chance; both are the same, so that none is.
        ("grpc.max_metadata_size", limits.max_metadata_bytes),
        ("grpc.absolute_max_metadata_size", limits.max_metadata_bytes),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.keepalive_time_ms", _ms(limits.keepalive_seconds)),
        ("grpc.keepalive_timeout_ms", _ms(limits.keepalive_timeout_seconds)),
    ]


def grpcio_options(limits: ConnectionLimits) -> list[tuple[str, int]]:
    """Options that grpcio has beyond those."""
    options = [
        ("grpc.enable_channelz", 1),
        ("grpc.max_allowed_incoming_connections", limits.max_connections),
        # The keepalive's timeout alone closes nothing: the core waits for a ping's own, a minute.
        ("grpc.http2.ping_timeout_ms", _ms(limits.keepalive_timeout_seconds)),
        # Until it has acknowledged the settings, a client may send 16 MiB of headers a call.
        ("grpc.http2.settings_timeout", _ms(limits.keepalive_timeout_seconds)),
        ("grpc.max_connection_idle_ms", _ms(limits.max_connection_idle_seconds)),
        ("grpc.http2.min_ping_interval_without_data_ms", _ms(limits.min_ping_interval_seconds)),
        ("grpc.http2.max_ping_strikes", _PING_STRIKES),
        ("grpc.http2.write_buffer_size", limits.write_buffer_bytes),
    ]
    if limits.max_connection_age_seconds is not None:
        options += [
            ("grpc.max_connection_age_ms", _ms(limits.max_connection_age_seconds)),
            ("grpc.max_connection_age_grace_ms", _ms(limits.max_connection_age_grace_seconds)),
        ]
    return options


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def make_server(
    transport: Transport,
    *,
    interceptors: Sequence[aio.ServerInterceptor] = (),
    max_message_bytes: int,
    limits: ConnectionLimits,
) -> Any:
    """A server of the transport, not bound yet.

    Raises:
      ConfigError: the transport's package is not installed.
    """
    calm_logs()
    options = server_options(max_message_bytes, limits)
    if transport == "grpcio":
        options += grpcio_options(limits)
        bounded = BoundedMetadata(limits.max_metadata_bytes)
        server = aio.server(handlers=(bounded,), interceptors=interceptors, options=options)
        return _found_by_name(server)
    try:
        from headway.rpc.native import NativeServer
    except ImportError as error:
        raise ConfigError(
            'gateway.transport is "native", but the package pygrpc-native is not installed; '
            'run pip install "headway[gateway]", or set gateway.transport = "grpcio"'
        ) from error
    return NativeServer(
        interceptors=interceptors,
        options=options,
        max_message_bytes=max_message_bytes,
        limits=limits,
    )


def _found_by_name(server: Any) -> Any:
    """Keeps methods from being registered with grpc's core; they are found by name all the same.

    grpc.aio waits for each registered method's next call with a task of its own, and goes through
    all of them whenever one has come: some 2 us a call for each method on the port. Registered
    methods would not meet `BoundedMetadata` either.
    """
    server.add_registered_method_handlers = lambda service, handlers: None
    return server


def bind(
    server: Server,
    host: str,
    port: int,
    what: str,
    credentials: grpc.ServerCredentials | None = None,
) -> str:
    """Binds and returns host:port as bound.

    Args:
      what: the setting that chose the port, for the message.
      credentials: of TLS; None for plaintext.

    Raises:
      StartupError: the port is taken or not allowed.
    """
    shown = f"[{host}]" if ":" in host else host
    try:
        address = f"{shown}:{port}"
        bound = (
            server.add_insecure_port(address)
            if credentials is None
            else server.add_secure_port(address, credentials)
        )
    except (RuntimeError, OSError, ValueError) as error:
        raise StartupError(_taken(shown, port, what)) from error
    if bound == 0:
        raise StartupError(_taken(shown, port, what))
    return f"{shown}:{bound}"


def _taken(host: str, port: int, what: str) -> str:
    return (
        f"cannot listen on {host}:{port} ({what}): the port is taken or not permitted; "
        f"stop what uses it, or choose another with {what} (0 takes any free one)"
    )


class Health:
    """grpc.health.v1, by service and by model."""

    def __init__(self) -> None:
        self._servicer = HealthServicer()
        self._known: dict[str, int] = {}

    def add_to(self, server: Any) -> None:
        """Adds the health service to a server."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    def set(self, service: str, serving: bool) -> None:
        """Sets a service's status; watchers hear of changes only."""
        status = SERVING if serving else NOT_SERVING
        if self._known.get(service) != status:
            self._known[service] = status
            self._servicer.set(service, status)

    def status(self, service: str) -> bool | None:
        """True if serving, None if unknown."""
        known = self._known.get(service)
        return None if known is None else known == SERVING

    def leave(self) -> None:
        """Turns everything to NOT_SERVING, for a drain."""
        for service in list(self._known):
            self.set(service, False)


@dataclass(frozen=True, slots=True)
class Faces:
    """A server as seen by those who add services.

    Attributes:
      guarded: for services whose methods have a guard.
      standing: for the standard ones, which anybody may call.
    """

    guarded: Any
    standing: Any


def faces(server: Any, transport: Transport, bound: MessageBound, streams: PeerStreams) -> Faces:
    """Bounds the time of messages; the native server does so itself for methods of one request.

    Args:
      server: as `make_server` returned it.
      bound: the time, and the count of what took longer.
      streams: counts calls of the standard services that have many answers, by address.
    """
    if transport == "native":
        return Faces(server, Prompt(server, bound, standing=streams, reads_one=True))
    return Faces(Prompt(server, bound), Prompt(server, bound, standing=streams))


def port_metrics(servers: Mapping[str, Any], bounds: Mapping[str, MessageBound]) -> PortMetrics:
    """What the ports count of their connections and messages, by the ports' names."""
    return PortMetrics({name: _source(server, bounds[name]) for name, server in servers.items()})


def _source(server: Any, bound: MessageBound) -> PortSource:
    return PortSource(lambda: bound.num_overdue, getattr(server, "connections", None))


def add_standard_services(server: Any, service_names: Sequence[str]) -> None:
    """Adds reflection for `service_names` and the standard services, and channelz.

    `server`: the `standing` face.
    """
    names = (
        *service_names,
        health.SERVICE_NAME,
        "grpc.channelz.v1.Channelz",
        reflection.SERVICE_NAME,
    )
    # grpcio's own helpers would take the face for a server of threads.
    reflected = reflection.aio.ReflectionServicer(names)
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflected, server)
    channelz_pb2_grpc.add_ChannelzServicer_to_server(channelz.aio.ChannelzServicer(), server)


def on_done(context: Any, callback: Callable[[], None]) -> None:
    """Calls back when the call is over, however it ended."""
    context.add_done_callback(lambda _: callback())
