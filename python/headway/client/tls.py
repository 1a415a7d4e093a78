"""TLS of a client."""

from dataclasses import dataclass
from pathlib import Path

from headway.clock import wall_ns
from headway.rpc.tls import ChannelTls
from headway.tls.identity import IdentityFiles
from headway.tls.rotation import RotatingIdentity


@dataclass(frozen=True, slots=True)
class ClientTls:
    """Whom a client trusts, and what it shows.

    ```python
    Client("gateway.example:50051", tls=ClientTls(ca_file=Path("ca.pem")), api_key=key)
    ```

    Attributes:
      ca_file: PEM file with the authorities that are trusted. None: those that come with grpcio,
        or in the file that GRPC_DEFAULT_SSL_ROOTS_FILE_PATH names.
      cert_file, key_file: PEM files with a certificate and its key, for gateways that ask for
        one. Both or neither.
      server_name: name expected in the gateway's certificate. None: the address's host.
    """

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    server_name: str | None = None

    def channel(self) -> ChannelTls:
        """Reads the files.

        Raises:
          ConfigError: one is missing, unreadable, expired, or does not fit the others.
        """
        files = IdentityFiles("--tls", self.cert_file, self.key_file, self.ca_file)
        return ChannelTls(RotatingIdentity(files, wall_ns), self.server_name)


def channel_tls(tls: ClientTls | None) -> ChannelTls | None:
    """TLS of a client's channels; None for plaintext."""
    return None if tls is None else tls.channel()
