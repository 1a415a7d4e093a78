"""Settings of a worker. Every default says why it is what it is."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from headway.exposure import LOOPBACK_HOSTS
from headway.limits import ConnectionLimits
from headway.naming import Name
from headway.runtimes.generative_settings import GenerativeSettings
from headway.runtimes.settings import OnnxRuntimeSettings, RuntimeSettings
from headway.tls.settings import WorkerTlsSettings

MIB = 1 << 20

HostPort = Annotated[str, Field(pattern=r"^(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+):[0-9]{1,5}$")]
WILDCARD_HOSTS = frozenset({"", "0.0.0.0", "::"})


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelSettings(_Settings):
    """One model version to host."""

    model: Name = Field(description="Name that clients ask for.")
    version: Name = Field(
        default="v1", description="Version. Default v1: the first one of any model."
    )
    runtime: RuntimeSettings = Field(
        default=OnnxRuntimeSettings(),
        description='What executes it, told apart by `kind`: "onnx" or "simulated"; and for models '
        'that write, "decoder", "llama" or "simulated-decoder". Default: the embedded '
        "sentence-embedding model.",
    )
    speed: float = Field(
        default=1.0,
        gt=0,
        le=1000,
        description="Times are divided by this. Default 1: as fast as it is. A real runtime can "
        "only be slowed (< 1), by waiting: one machine then shows a fleet of unlike devices.",
    )
    default_deadline_ms: float | None = Field(
        default=None,
        gt=0,
        le=86_400_000,
        description="Deadline in ms of calls that carry none. Default: the gateway's.",
    )

    @property
    def label(self) -> str:
        """model/version, as the health service and logs have it."""
        return f"{self.model}/{self.version}"

    @model_validator(mode="after")
    def _real_runtimes_are_only_slowed(self) -> Self:
        if self.speed != 1 and isinstance(self.runtime, GenerativeSettings):
            raise ValueError(
                f"speed is {self.speed:g} for runtime {self.runtime.kind!r}, which runs as fast "
                "as it is; leave speed out"
            )
        if self.speed > 1 and self.runtime.kind != "simulated":
            raise ValueError(
                f"speed is {self.speed:g} for runtime {self.runtime.kind!r}, which can only be "
                "slowed; set speed to 1 or less"
            )
        return self


def _default_models() -> tuple[ModelSettings, ...]:
    return (ModelSettings(model="minilm"),)


class WorkerSettings(_Settings):
    """A worker process."""

    worker_id: Name = Field(
        default="worker-0",
        description="Name, unique in the fleet and kept over restarts. Default worker-0: for a "
        "fleet of one.",
    )
    host: str = Field(
        default="127.0.0.1",
        description="Address to listen on. Loopback by default: reachable from outside only when "
        "somebody says so.",
    )
    port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="Port of WorkerService. Default 0, any free one: gateways learn it when the "
        "worker registers.",
    )
    advertise: HostPort | None = Field(
        default=None,
        description="host:port by which gateways reach this worker, where it is not the address "
        "it listens on (behind a proxy, or with host 0.0.0.0). Port 0 stands for the bound one. "
        "Default: host and bound port.",
    )
    gateways: tuple[HostPort, ...] = Field(
        default=("127.0.0.1:50052",),
        max_length=64,
        description="Control addresses (host:port) of the gateways to join. Default: a gateway on "
        "this machine with its default control port. Empty: the worker joins none.",
    )
    fleet_token: SecretStr | None = Field(
        default=None,
        description="Secret that workers show to register and gateways show to workers. Required "
        "unless `host` is loopback, certificates prove who is a gateway (tls.fleet_name), or "
        "insecure_no_auth is set.",
    )
    tls: WorkerTlsSettings | None = Field(
        default=None,
        description="Certificates. Default: none, all ports and gateways are plaintext.",
    )
    insecure_no_auth: bool = Field(
        default=False,
        description="True: anyone who reaches the port may use the worker. For trials.",
    )
    models: tuple[ModelSettings, ...] = Field(
        default_factory=_default_models,
        max_length=256,
        description="Model versions to host. Default: the embedded model under the name minilm.",
    )
    max_outstanding_batches: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Batches that gateways may have here at once; one executes, others wait. "
        "Default 1: what waits here cannot be chosen anew.",
    )
    max_queued_batches: int = Field(
        default=0,
        ge=0,
        le=64,
        description="Batches taken beyond that rather than answered busy. Gateways are not told. "
        "Default 0: gateways are quicker to find another replica than to wait behind a batch.",
    )
    max_sessions: int = Field(
        default=64,
        ge=1,
        le=10_000,
        description="Gateways connected at once. Default 64: far above any fleet's gateways.",
    )
    max_message_bytes: int = Field(
        default=64 * MIB,
        ge=1024,
        le=2_000_000_000,
        description="Largest output of one request, in bytes; what is larger fails with a reason. "
        "Default 64 MiB: what gateways send to callers.",
    )
    max_batch_bytes: int = Field(
        default=512 * MIB,
        ge=1024,
        le=2_000_000_000,
        description="Largest batch taken from a gateway, and largest answer to one, in bytes. At "
        "least the gateways' max_message_bytes; 512 MiB: eight of their largest requests.",
    )
    limits: ConnectionLimits = Field(
        default=ConnectionLimits(), description="Bounds of connections to the worker's port."
    )
    labels: dict[Name, Annotated[str, Field(max_length=64)]] = Field(
        default_factory=dict,
        max_length=16,
        description='Labels for people ("zone": "a"). Default: none.',
    )
    http_host: str = Field(
        default="127.0.0.1", description="Address of the HTTP port. Loopback by default."
    )
    http_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="/metrics, /healthz and /readyz. 0: any free one. Default: off, since several "
        "workers share a machine.",
    )
    drain_seconds: float = Field(
        default=30,
        ge=0,
        le=3600,
        description="At SIGTERM, longest time for the batch in hand. Default 30: what Kubernetes "
        "allows.",
    )
    address_file: Path | None = Field(
        default=None,
        description='Where to write {"worker": "host:port", "http": "host:port"} once it is ready '
        "to accept. Default: nowhere.",
    )
    seed: int | None = Field(
        default=None,
        ge=0,
        lt=1 << 64,
        description="Root of all chance in the process. Default: from the operating system; "
        "logged.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="How much is logged. Default info: a few lines a restart."
    )
    log_format: Literal["json", "text"] = Field(
        default="json", description="json: one object a line, for machines. text: for people."
    )

    @model_validator(mode="after")
    def _models_are_named_apart(self) -> Self:
        # Not `min_length`: pydantic would report it beside every error inside a model.
        if not self.models:
            raise ValueError("models is empty; list at least one")
        seen = set()
        for model in self.models:
            name = (model.model, model.version)
            if name in seen:
                raise ValueError(
                    f"models lists {model.model} version {model.version} twice; give each a "
                    "version of its own"
                )
            seen.add(name)
        return self

    @model_validator(mode="after")
    def _closed_by_default(self) -> Self:
        if self.host in LOOPBACK_HOSTS or self.insecure_no_auth or self.fleet_token is not None:
            return self
        if self.tls is not None and self.tls.proves_gateways:
            return self
        raise ValueError(
            f"host is {self.host}, which others reach, and fleet_token is not set; set fleet_token "
            'to the gateways\' (HEADWAY_WORKER__FLEET_TOKEN), or tls.fleet_name with "worker" in '
            "tls.client_certs, or insecure_no_auth for a trial"
        )

    @model_validator(mode="after")
    def _can_be_reached(self) -> Self:
        if self.host in WILDCARD_HOSTS and self.gateways and self.advertise is None:
            raise ValueError(
                f"host is {self.host!r}, which is not an address that gateways could call; set "
                "advertise to host:port as they see it (HEADWAY_WORKER__ADVERTISE)"
            )
        return self
