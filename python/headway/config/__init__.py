"""Configuration: one TOML file, then the environment, then flags, each over the one before.

```toml
[gateway]                      # HEADWAY_GATEWAY__PORT=50051, or headway gateway --port 50051
port = 50051

[gateway.models.minilm]        # HEADWAY_GATEWAY__MODELS__MINILM__SPLIT='{"v1": 0.9, "v2": 0.1}'
split = { v1 = 0.9, v2 = 0.1 }
```

A process validates its own section before it opens a port. Unknown keys are refused with the
nearest valid name, and so are variables that begin with ``HEADWAY_`` and hold ``__``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from headway.config.layers import Layer, Layers, environment_layer, file_layer, flag_layer
from headway.config.problems import explain
from headway.errors import ConfigError
from headway.gateway.settings import GatewaySettings
from headway.serve.settings import ServeSettings
from headway.worker.settings import WorkerSettings

Section = Literal["gateway", "worker", "serve"]
"""A top-level table of the file; one for each kind of process."""

SECTIONS: Final[tuple[Section, ...]] = ("gateway", "worker", "serve")

ENVIRONMENT_PREFIX: Final = "HEADWAY_"
DELIMITER: Final = "__"


class Config(BaseSettings):
    """The whole configuration. A section that was not asked for, or is not there, is None."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix=ENVIRONMENT_PREFIX,
        env_nested_delimiter=DELIMITER,
    )

    gateway: GatewaySettings | None = None
    worker: WorkerSettings | None = None
    serve: ServeSettings | None = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Takes values from its arguments only; `read_layers` says where they come from."""
        return (init_settings,)


def read_layers(
    path: Path | None,
    flags: Mapping[str, Any] | None = None,
    option_names: Mapping[str, str] | None = None,
) -> Layers:
    """Collects what was set, without judging it.

    Args:
      path: the TOML file; None for none.
      flags: dotted key ("gateway.port") to value; None values were not given.
      option_names: option by key, where it is not the key's last part with dashes.

    Raises:
      ConfigError: the file cannot be read or is not TOML.
    """
    layers: list[Layer] = [file_layer(path)] if path is not None else []
    layers.append(environment_layer(Config, ENVIRONMENT_PREFIX, DELIMITER))
    layers.append(flag_layer(flags or {}, option_names or {}))
    return Layers(layers)


def validate(layers: Layers, sections: Sequence[Section]) -> Config:
    """The configuration of `sections`; the others are left None.

    Raises:
      ConfigError: naming the origin, key and value of everything that is wrong, and what is
        allowed.
    """
    data = layers.merged()
    wanted = {name: data.pop(name, {}) for name in sections}
    unknown = {name: value for name, value in data.items() if name not in SECTIONS}
    try:
        return Config(**wanted, **unknown)
    except ValidationError as error:
        raise ConfigError(explain(error, Config, layers)) from error


def settings_of(section: Section) -> type[BaseModel]:
    """The model of a section's settings."""
    known: dict[Section, type[BaseModel]] = {
        "gateway": GatewaySettings,
        "worker": WorkerSettings,
        "serve": ServeSettings,
    }
    return known[section]


def load_gateway(layers: Layers) -> GatewaySettings:
    """Settings for ``headway gateway``. Raises ConfigError."""
    gateway = validate(layers, ["gateway"]).gateway
    assert gateway is not None  # it was asked for
    return gateway


def load_worker(layers: Layers) -> WorkerSettings:
    """Settings for ``headway worker``. Raises ConfigError."""
    worker = validate(layers, ["worker"]).worker
    assert worker is not None  # it was asked for
    return worker


def load_serve(layers: Layers) -> ServeSettings:
    """Settings for ``headway serve``. Raises ConfigError."""
    serve = validate(layers, ["serve"]).serve
    assert serve is not None  # it was asked for
    return serve


__all__ = [
    "SECTIONS",
    "Config",
    "Section",
    "load_gateway",
    "load_serve",
    "load_worker",
    "read_layers",
    "settings_of",
    "validate",
]
