"""``headway version``."""

import platform

from headway.cli import options
from headway.cli.exits import command


@command
def version(as_json: options.AsJson = False) -> None:
    """Print the versions of Headway and of what it runs on."""
    import importlib.metadata
    import json

    import headway

    versions = {"headway": headway.__version__, "python": platform.python_version()}
    for package in ("grpcio", "pygrpc-native", "onnxruntime"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    if as_json:
        print(json.dumps(versions))
    else:
        print("\n".join(f"{name:<14} {number}" for name, number in versions.items()))
