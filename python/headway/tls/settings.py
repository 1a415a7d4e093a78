"""Settings of TLS, the same for gateways and workers but for the ports."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

GatewayPort = Literal["data", "control", "http"]
WorkerPort = Literal["worker", "http"]


class TlsSettings(BaseModel):
    """What a process shows, and whom it trusts. PEM files, read again when they change."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cert_file: Path = Field(
        description="PEM file: the process's certificate, then intermediate ones. Shown to those "
        "who connect, and to gateways or workers that it connects to itself."
    )
    key_file: Path = Field(description="PEM file: the certificate's private key, not encrypted.")
    ca_file: Path | None = Field(
        default=None,
        description="PEM file: authorities whose certificates are trusted, of clients and of the "
        "fleet's other processes. Default: those that come with grpcio, for processes that it "
        "connects to; no client's.",
    )
    fleet_name: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$",
        description="DNS name that the certificates of all gateways and workers carry. Where it is "
        "set, they know each other by it rather than by address, and on ports that require client "
        "certificates only those with this name may act as a gateway or worker. Default: none; "
        "certificates are checked against the address dialled.",
    )


class GatewayTlsSettings(TlsSettings):
    """TLS of a gateway."""

    ports: tuple[GatewayPort, ...] = Field(
        default=("data", "control", "http"),
        min_length=1,
        description='Ports with TLS. Default: all. With "control" it speaks TLS to workers too.',
    )
    client_certs: tuple[GatewayPort, ...] = Field(
        default=(),
        description="Ports that take only clients whose certificate is of ca_file. Default: none; "
        "API keys and the fleet token say who calls.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "GatewayTlsSettings":
        check_ports(self.ports, self.client_certs, self.ca_file)
        return self

    @property
    def covers_fleet(self) -> bool:
        """True if traffic with workers is encrypted."""
        return "control" in self.ports

    @property
    def proves_workers(self) -> bool:
        """True if a worker's certificate shows that it is one."""
        return self.fleet_name is not None and "control" in self.client_certs


class WorkerTlsSettings(TlsSettings):
    """TLS of a worker."""

    ports: tuple[WorkerPort, ...] = Field(
        default=("worker", "http"),
        min_length=1,
        description='Ports with TLS. Default: all. With "worker" it speaks TLS to gateways too.',
    )
    client_certs: tuple[WorkerPort, ...] = Field(
        default=(),
        description="Ports that take only clients whose certificate is of ca_file. Default: none; "
        "the fleet token says who calls.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "WorkerTlsSettings":
        check_ports(self.ports, self.client_certs, self.ca_file)
        return self

    @property
    def covers_fleet(self) -> bool:
        """True if traffic with gateways is encrypted."""
        return "worker" in self.ports

    @property
    def proves_gateways(self) -> bool:
        """True if a gateway's certificate shows that it is one."""
        return self.fleet_name is not None and "worker" in self.client_certs


def check_ports(
    ports: tuple[str, ...], client_certs: tuple[str, ...], ca_file: Path | None
) -> None:
    """Raises ValueError if client certificates are asked for where they cannot be judged."""
    plain = sorted(set(client_certs) - set(ports))
    if plain:
        raise ValueError(
            f"client_certs names {', '.join(plain)}, which is not in ports; client certificates "
            "need TLS on the port"
        )
    if client_certs and ca_file is None:
        raise ValueError(
            "client_certs is set without ca_file; name the file with the authorities that sign "
            "clients' certificates"
        )
