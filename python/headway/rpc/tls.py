"""TLS on gRPC's and HTTP's sockets: credentials that follow their files, and who shows what."""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc

from headway.clock import Clock
from headway.errors import Unauthenticated
from headway.tls.identity import Identity, IdentityFiles, load_pair
from headway.tls.rotation import RotatingIdentity
from headway.tls.settings import GatewayTlsSettings, WorkerTlsSettings

_LOOK_EVERY_NS = 5_000_000_000

# gRPC's core calls back with a bare pointer to these, for handshakes that outlive the server too.
# One for each port a process opens.
_ALIVE: list[grpc.ServerCredentials] = []


def server_credentials(
    identity: RotatingIdentity, *, require_client_certs: bool
) -> grpc.ServerCredentials:
    """Credentials of a server; each handshake shows the certificate then in force.

    Connections that are open go on with the one they began with.
    """
    shown = identity.generation

    def changed() -> Any:
        nonlocal shown
        identity.current()
        # Before the identity itself: that may be a newer one, never an older one.
        generation = identity.generation
        if shown == generation:
            return None  # gRPC's word for "as before"
        shown = generation
        return _configuration(identity.current(), require_client_certs)

    made = grpc.dynamic_ssl_server_credentials(
        _configuration(identity.current(), require_client_certs),
        changed,
        require_client_authentication=require_client_certs,
    )
    _ALIVE.append(made)
    return made


def _configuration(identity: Identity, require_client_certs: bool) -> Any:
    return grpc.ssl_server_certificate_configuration(
        [(identity.key, identity.certificates)],
        root_certificates=identity.authorities if require_client_certs else None,
    )


def channel_credentials(identity: Identity) -> grpc.ChannelCredentials:
    """Credentials of a channel."""
    return grpc.ssl_channel_credentials(
        root_certificates=identity.authorities,
        private_key=identity.key or None,
        certificate_chain=identity.certificates or None,
    )


@dataclass(frozen=True, slots=True)
class ChannelTls:
    """TLS of the channels that a process opens; each takes the identity then in force.

    Attributes:
      server_name: name expected in the other side's certificate; None for its address.
    """

    identity: RotatingIdentity
    server_name: str | None = None


def http_context(identity: RotatingIdentity, *, require_client_certs: bool) -> ssl.SSLContext:
    """A context for an HTTP server; each handshake shows the certificate then in force."""
    generation = identity.generation
    front = present = _http_context(identity.current(), require_client_certs)

    def choose(connection: Any, _name: str | None, _context: ssl.SSLContext) -> None:
        nonlocal generation, present
        identity.current()
        if generation != identity.generation:
            generation = identity.generation
            present = _http_context(identity.current(), require_client_certs)
        connection.context = present

    front.sni_callback = choose
    return front


def _http_context(identity: Identity, require_client_certs: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, identity.certificates, identity.key)
    if require_client_certs and identity.authorities is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=identity.authorities.decode())
    return context


class FleetName:
    """Checks that whoever calls shows a certificate with the fleet's name."""

    def __init__(self, name: str | None) -> None:
        """`name`: None where certificates prove nothing; everyone passes then."""
        self._name = name

    def check(self, context: Any) -> None:
        """Raises Unauthenticated if the call's certificate does not carry the name."""
        if self._name is None or self._name in names_of(context):
            return
        raise Unauthenticated(
            f"the certificate shown is for {', '.join(sorted(names_of(context))) or 'no name'}; "
            f"this port takes the fleet's processes, whose certificates carry {self._name} "
            "(tls.fleet_name)"
        )


def names_of(context: Any) -> frozenset[str]:
    """Names in the certificate that the caller showed and gRPC verified; empty without one."""
    return frozenset(_names(context.auth_context()))


def _names(shown: Any) -> Iterator[str]:
    for key in ("x509_subject_alternative_name", "x509_common_name"):
        for value in shown.get(key, ()):
            yield value.decode(errors="replace")


class ProcessTls:
    """TLS of one process: its ports and the channels to the rest of the fleet share an identity.

    Attributes:
      identity: None where all is plaintext.
      channel: TLS of channels to gateways or workers; None for plaintext.
      fleet_name: judges who may act as a gateway or worker here.
    """

    def __init__(
        self,
        settings: GatewayTlsSettings | WorkerTlsSettings | None,
        section: str,
        wall_ns: Callable[[], int],
    ) -> None:
        """Reads the files. `section`: "gateway.tls", for messages.

        Raises:
          ConfigError: they cannot be used.
        """
        self._settings = settings
        self.identity: RotatingIdentity | None = None
        self.channel: ChannelTls | None = None
        self.fleet_name = FleetName(None)
        if settings is None:
            return
        files = IdentityFiles(section, settings.cert_file, settings.key_file, settings.ca_file)
        self.identity = RotatingIdentity(files, wall_ns)
        if settings.covers_fleet:
            self.channel = ChannelTls(self.identity, settings.fleet_name)
        if {"control", "worker"} & set(settings.client_certs):
            self.fleet_name = FleetName(settings.fleet_name)

    def covers(self, port: str) -> bool:
        """True if `port` ("data") has TLS."""
        return self._settings is not None and port in self._settings.ports

    def server(self, port: str) -> grpc.ServerCredentials | None:
        """Credentials of a gRPC port; None for plaintext."""
        if self._settings is None or self.identity is None or not self.covers(port):
            return None
        required = port in self._settings.client_certs
        return server_credentials(self.identity, require_client_certs=required)

    def http(self) -> ssl.SSLContext | None:
        """The HTTP port's context; None for plaintext."""
        settings = self._settings
        if settings is None or self.identity is None or not self.covers("http"):
            return None
        required = "http" in settings.client_certs
        return http_context(self.identity, require_client_certs=required)

    async def watch(self, clock: Clock) -> None:
        """Looks at the files now and then, so that bad ones are told though nobody connects.

        Runs until it is cancelled; returns at once without TLS.
        """
        if self.identity is None:
            return
        while True:
            await clock.sleep(_LOOK_EVERY_NS)
            await asyncio.to_thread(self.identity.current)
