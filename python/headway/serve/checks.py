"""Judges what the children of ``headway serve`` will be given, before any of them starts."""

from pathlib import Path

from headway.config import load_gateway, load_worker, read_layers
from headway.errors import ConfigError
from headway.serve.settings import ServeSettings


def check_children(settings: ServeSettings, config: Path | None) -> None:
    """Reads the configuration as gateway and workers will.

    Raises:
      ConfigError: one of them would not take it, or it asks for what a trial does not do.
    """
    gateway = load_gateway(
        read_layers(
            config, {"gateway.insecure_no_auth": True, "gateway.transport": settings.transport}
        )
    )
    layers = read_layers(config)
    listed = layers.merged().get("worker", {}).get("models")
    if listed and len(listed) > 1:
        raise ConfigError(
            f"worker.models lists {len(listed)} models and `headway serve` runs one; run "
            "`headway worker` for each, or leave the list out"
        )
    worker = load_worker(layers)
    for section, tls in (("gateway", gateway.tls), ("worker", worker.tls)):
        if tls is not None:
            raise ConfigError(
                f"{section}.tls is set and `headway serve` is a trial in plaintext; run "
                "`headway gateway` and `headway worker`, or leave it out"
            )
