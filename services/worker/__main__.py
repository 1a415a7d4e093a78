"""Runs a worker: ``python services/worker [CONFIG.toml]``. The same as ``headway worker``."""

import sys
from pathlib import Path

from headway.config import load_worker, read_layers
from headway.errors import ConfigError
from headway.telemetry.native_log import calm_grpc


def main() -> int:
    """Reads the configuration and runs; returns the exit code."""
    calm_grpc()
    from headway.worker.main import EXIT_CONFIG, run

    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("worker.toml")
    try:
        settings = load_worker(read_layers(path))
    except ConfigError as error:
        print(f"headway worker: {error}", file=sys.stderr)
        return EXIT_CONFIG
    return run(settings)


if __name__ == "__main__":
    sys.exit(main())
