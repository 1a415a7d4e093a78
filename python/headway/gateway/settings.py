"""Settings of a gateway. Every default says why it is what it is."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from headway.admission.settings import (
    LARGEST_WEIGHT,
    LEAST_RATE,
    LEAST_WEIGHT,
    MOST_QUEUED,
    AdmissionSettings,
)
from headway.gateway.policy_settings import (
    ArrivalTraceSettings,
    ModelSchedulingSettings,
    SchedulingSettings,
)
from headway.limits import ConnectionLimits, check_transport
from headway.naming import NAME_PATTERN, Name
from headway.tls.settings import GatewayTlsSettings

MIB = 1 << 20


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KeySettings(_Settings):
    """One API key, by the hash of its secret."""

    key_id: str = Field(
        pattern=r"^[0-9A-Za-z]{8}$",
        description="The 8 characters between hw_ and the second underscore of the key.",
    )
    sha256: str = Field(
        pattern=r"^[0-9a-f]{64}$",
        description="SHA-256 of the whole key, in hexadecimal. `headway key new` prints both.",
    )
    role: Literal["none", "viewer", "operator", "admin"] = Field(
        default="none",
        description="Rights on ControlService. Default none: a key to infer cannot operate.",
    )


class StoreSettings(_Settings):
    """Where tenants, keys, splits and rollouts are kept. Not needed to serve requests."""

    url: SecretStr | None = Field(
        default=None,
        description="sqlite:///path/to/control.db for one gateway or several on one machine, "
        "postgresql://user:password@host:5432/database for a fleet, sqlite:// to keep nothing "
        "beyond the process. Default: SQLite at headway/control.db in the user's XDG state "
        "directory, so that what an operator does outlives a restart.",
    )
    timeout_seconds: float = Field(
        default=5,
        gt=0,
        le=60,
        description="Longest time for one operation. Five: far beyond a healthy store's "
        "milliseconds, and short of a person's patience.",
    )
    max_waiting_entries: int = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="Verdicts and audit entries kept while the store is away; the oldest go "
        "first. About 1 KiB each.",
    )


class ResilienceSettings(_Settings):
    """What is done about replicas that fail, stall, or are about to be free."""

    max_ejected_share: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Most of a version's ready replicas that breakers may shut out at once; never "
        "the last one. Half: when more than that fail, it is rarely the replicas.",
    )
    retry_share: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Retries that each request earns, beside 10 a second. A tenth: enough for "
        "single failures, too little to make an outage worse.",
    )
    hedge_share: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Device time for second copies of late batches, as a share of all; 0 sends "
        "none. They only go to replicas with nothing else to do.",
    )
    pipelined_dispatch: bool = Field(
        default=True,
        description="Whether a replica's next batch leaves just before it is free, so that the "
        "device does not wait for it. False: when it is free.",
    )


class TenantSettings(_Settings):
    """Who may call, and how much."""

    keys: tuple[KeySettings, ...] = Field(default=(), max_length=64)
    units_per_second: float | None = Field(
        default=None,
        ge=LEAST_RATE,
        description="Work units per second, prompt and output. Default: no limit.",
    )
    burst_units: float | None = Field(
        default=None,
        ge=LEAST_RATE,
        description="Most work units at once. Default: two seconds' worth of units_per_second.",
    )
    weight: float = Field(
        default=1,
        ge=LEAST_WEIGHT,
        le=LARGEST_WEIGHT,
        description="Its part of the device time relative to other tenants', when there is too "
        "much.",
    )
    max_priority: Literal["critical", "standard", "sheddable"] = Field(
        default="critical",
        description="Highest priority its requests may have. Default critical: no ceiling.",
    )
    models: tuple[Name, ...] = Field(
        default=(), max_length=1024, description="Models it may use. Default: all."
    )
    disabled: bool = Field(default=False, description="True: it is refused everything.")


class ModelSettings(_Settings):
    """What the gateway knows of a model beforehand."""

    split: dict[Name, Annotated[float, Field(ge=0, le=1)]] = Field(
        default_factory=dict,
        description="Share of unpinned traffic for each version; they add up to 1. The first also "
        "takes the traffic of a version without replicas. Default: all to the lowest version that "
        "is registered, so that a canary never gets traffic by registering first.",
    )
    default_deadline_ms: float | None = Field(
        default=None,
        gt=0,
        le=86_400_000,
        description="Deadline in ms of calls without one. Default: the worker's, else the "
        "gateway's.",
    )
    max_queued_requests: int | None = Field(
        default=None,
        ge=1,
        le=MOST_QUEUED,
        description="Default: the gateway's max_queued_requests.",
    )
    scheduling: ModelSchedulingSettings = ModelSchedulingSettings()

    @field_validator("split")
    @classmethod
    def _adds_up(cls, split: dict[str, float]) -> dict[str, float]:
        if split and abs(sum(split.values()) - 1) > 1e-6:
            raise ValueError(f"shares add up to {sum(split.values()):g}; they must add up to 1")
        return split


class GatewaySettings(_Settings):
    """A gateway process."""

    host: str = Field(
        default="127.0.0.1",
        description="Address of the data port. Loopback by default: reachable from outside only "
        "when somebody says so.",
    )
    port: int = Field(
        default=50051, ge=0, le=65535, description="Data port: InferenceService. 0: any free one."
    )
    control_host: str = Field(
        default="127.0.0.1",
        description="Address of the control port. Workers on other machines register there, so a "
        "fleet needs it on a private network.",
    )
    control_port: int = Field(
        default=50052, ge=0, le=65535, description="ControlService and FleetService. 0: any."
    )
    http_host: str = Field(default="127.0.0.1", description="Address of the HTTP port.")
    http_port: int | None = Field(
        default=9100,
        ge=0,
        le=65535,
        description="/metrics, /healthz and /readyz. 0: any free one.",
    )
    transport: Literal["native", "grpcio"] = Field(
        default="grpcio",
        description="Server of the data port. grpcio keeps every promise of the wire API. native "
        "(HTTP/2 in Rust) costs a fraction of its CPU a call, but has no TLS and no limit on a "
        "client's pings; docs/adr/0004 has the figures.",
    )
    gateway_id: str | None = Field(
        default=None,
        pattern=NAME_PATTERN,
        description="Name of the process. Default: made up at the start.",
    )
    insecure_no_auth: bool = Field(
        default=False,
        description="True: no API keys and no fleet token are asked for. For trials on loopback.",
    )
    fleet_token: SecretStr | None = Field(
        default=None,
        description="Secret that workers show to register and gateways show to workers. Required "
        "unless certificates prove who is a worker (tls.fleet_name) or insecure_no_auth is set.",
    )
    tls: GatewayTlsSettings | None = Field(
        default=None,
        description="Certificates. Default: none, all ports speak plaintext.",
    )
    store: StoreSettings = StoreSettings()
    max_watchers: int = Field(
        default=1000,
        ge=1,
        le=100_000,
        description="WatchState streams at once. A thousand cost some 8 % of a core at their "
        "default interval.",
    )
    explained_requests: int = Field(
        default=10_000,
        ge=0,
        le=10_000_000,
        description="Requests whose decisions are kept for ExplainRequest, the newest ones; 0 "
        "keeps none. About 1 KiB each, without their inputs.",
    )
    admission: AdmissionSettings = AdmissionSettings()
    tenants: dict[Name, TenantSettings] = Field(default_factory=dict, max_length=100_000)
    models: dict[Name, ModelSettings] = Field(default_factory=dict, max_length=1024)
    scheduling: SchedulingSettings = SchedulingSettings()
    arrival_trace: ArrivalTraceSettings = ArrivalTraceSettings()
    default_model: Name | None = Field(
        default=None,
        description="Model of requests that name none. Default: the only model, if there is one.",
    )
    default_deadline_ms: float = Field(
        default=10_000,
        gt=0,
        le=86_400_000,
        description="Deadline in ms of calls that carry none. Ten seconds: long for a one-shot "
        "model, and short enough that nothing waits for ever.",
    )
    transport_margin_ms: float = Field(
        default=2,
        ge=0,
        le=1000,
        description="The answer leaves this much before the client's deadline, in ms, so that it "
        "arrives in time. Two: a loopback or rack round trip with a busy event loop.",
    )
    max_live_requests: int = Field(
        default=65_536,
        ge=1,
        le=4_000_000,
        description="Requests queued and executing at once. About 1 KiB of memory each, beside "
        "their inputs.",
    )
    max_queued_requests: int = Field(
        default=20_000,
        ge=1,
        le=4_000_000,
        description="Requests queued for one model version.",
    )
    max_queued_units: int = Field(
        default=50_000_000,
        ge=1,
        le=MOST_QUEUED,
        description="Work units queued for one model version.",
    )
    max_attempts: int = Field(
        default=3,
        ge=1,
        le=10,
        description="Executions begun for one request, where workers fail or vanish.",
    )
    resilience: ResilienceSettings = Field(
        default=ResilienceSettings(),
        description="Breakers, retries, second copies and pipelined dispatch.",
    )
    max_message_bytes: int = Field(
        default=64 * MIB,
        ge=1024,
        le=2_000_000_000,
        description="Largest message taken from or sent to callers. 64 MiB holds a batch of "
        "images; gRPC's own default of 4 MiB does not.",
    )
    max_batch_bytes: int = Field(
        default=512 * MIB,
        ge=1024,
        le=2_000_000_000,
        description="Largest batch sent to a worker, or answer taken from one. At least "
        "max_message_bytes; 512 MiB: eight of the largest requests.",
    )
    limits: ConnectionLimits = Field(
        default=ConnectionLimits(), description="Bounds of connections, on data and control port."
    )
    max_inflight_per_stream: int = Field(
        default=1024,
        ge=1,
        le=100_000,
        description="Requests in flight on one InferMany stream; the stream is not read beyond.",
    )
    lease_seconds: float = Field(
        default=3.0,
        ge=0.2,
        le=300,
        description="A worker silent for this long is taken for gone. Three missed heartbeats.",
    )
    max_workers: int = Field(
        default=10_000, ge=1, le=1_000_000, description="Workers registered at once."
    )
    drain_seconds: float = Field(
        default=30,
        ge=0,
        le=3600,
        description="At SIGTERM, longest time for requests in flight. Kubernetes allows 30.",
    )
    address_file: Path | None = Field(
        default=None,
        description='Where to write {"data": ..., "control": ..., "http": ...} once bound.',
    )
    seed: int | None = Field(
        default=None,
        ge=0,
        lt=1 << 64,
        description="Root of all chance in the process. Default: from the operating system; "
        "logged.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "text"] = "json"

    @model_validator(mode="after")
    def _closed_by_default(self) -> "GatewaySettings":
        if self.insecure_no_auth:
            return self
        if self.fleet_token is None and not (self.tls and self.tls.proves_workers):
            raise ValueError(
                "fleet_token is not set: workers could not register; set fleet_token "
                '(HEADWAY_GATEWAY__FLEET_TOKEN), or tls.fleet_name with "control" in '
                "tls.client_certs, or insecure_no_auth for a trial on loopback"
            )
        return self

    @model_validator(mode="after")
    def _transport_can_do_it(self) -> "GatewaySettings":
        if self.transport == "native" and self.tls is not None and "data" in self.tls.ports:
            raise ValueError(
                'transport is "native", which has no TLS; set transport = "grpcio", or leave '
                '"data" out of tls.ports and end TLS in front of the data port'
            )
        check_transport(self.transport, self.limits)
        return self

    @model_validator(mode="after")
    def _batches_hold_a_request(self) -> "GatewaySettings":
        if self.max_batch_bytes < self.max_message_bytes:
            raise ValueError(
                f"max_batch_bytes is {self.max_batch_bytes}, less than max_message_bytes "
                f"({self.max_message_bytes}): the largest request would fit into no batch"
            )
        return self
