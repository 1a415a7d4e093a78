"""Runs a gateway: ``python services/gateway [CONFIG.toml]``. The same as ``headway gateway``."""

import sys
from pathlib import Path

from headway.config import load_gateway, read_layers
from headway.errors import ConfigError
from headway.gateway.settings import GatewaySettings
from headway.telemetry.native_log import calm_grpc


def main() -> int:
    """Reads the configuration and runs; returns the exit code."""
    calm_grpc()
    from headway.gateway.main import EXIT_CONFIG, run

    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("gateway.toml")

    def load() -> GatewaySettings:
        return load_gateway(read_layers(path))

    try:
        settings = load()
    except ConfigError as error:
        print(f"headway gateway: {error}", file=sys.stderr)
        return EXIT_CONFIG
    return run(settings, load)


if __name__ == "__main__":
    sys.exit(main())
