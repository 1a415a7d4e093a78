"""Where a process says which ports it got, for whoever started it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path


def write_address_file(path: Path, addresses: Mapping[str, str]) -> None:
    """Writes port names and host:port as a JSON object, in one step, with folders as needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    scratch.write_text(json.dumps(dict(addresses)))
    scratch.replace(path)


def remove_address_file(path: Path, addresses: Mapping[str, str]) -> None:
    """Removes the file, unless another process has put its own addresses there since."""
    try:
        if json.loads(path.read_text()) == dict(addresses):
            path.unlink()
    except (FileNotFoundError, ValueError):
        return
