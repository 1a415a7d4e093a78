"""What a process tells of ports that others reach without encryption or without a key."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class OpenPort:
    """One port, as it was set.

    Attributes:
      name: "data"; `section` is where its settings are: "gateway".
      encrypted: it speaks TLS.
      authenticated: who calls must show a key, token or certificate.
    """

    name: str
    section: str
    host: str
    encrypted: bool
    authenticated: bool


def exposures(ports: Iterable[OpenPort]) -> Sequence[str]:
    """One sentence for each port beyond loopback that is not guarded."""
    return [sentence for port in ports for sentence in _exposures(port)]


def _exposures(port: OpenPort) -> Iterable[str]:
    if port.host in LOOPBACK_HOSTS:
        return
    where = f"the {port.name} port is open on {port.host or 'all addresses'}"
    if not port.authenticated:
        yield (
            f"{where} and asks nobody for a key ({port.section}.insecure_no_auth): whoever reaches "
            "it may use it"
        )
    if not port.encrypted:
        yield (
            f"{where} without TLS: what is sent, keys too, can be read on the way; set "
            f"{port.section}.tls, or end TLS in front of it"
        )
