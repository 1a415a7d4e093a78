"""Transcripts in a document: run again, compared with what is written, or written anew.

    python -m tests.support.transcripts docs/operations.md

A `console` block holds commands ("$ ...") and what they print; a `py` block is executed. Values
that differ from run to run (times, ports, keys, measured figures) are masked on both sides.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.operating import ADMIN, FLEET_TOKEN, configured_key
from tests.support.processes import FleetProcesses

_BLOCK = re.compile(r"^```(console|py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_KEY = re.compile(r"hw_([0-9A-Za-z]{8})_(?:[0-9A-Za-z]{43}|<secret>)")
_MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?"), "TIME"),
    (re.compile(r"\bkey [0-9A-Za-z]{8}\b"), "key KEY_ID"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r'"-?\d+(\.\d+)?s"'), '"DURATION"'),
    (re.compile(r"-?\d+\.\d+ (ms|s)\b"), "DURATION"),
    (re.compile(r"-?\d+(\.\d+)? % of the way"), "P of the way"),
    (re.compile(r"-?\d+\.\d\d+"), "X"),
    (re.compile(r"-?\d+(\.\d+)?e-?\d+"), "X"),
    (re.compile(r"[ \t]+"), " "),
)
CONFIG = """
[gateway]
gateway_id = "main"
fleet_token = "{token}"
seed = 1
store.url = "sqlite:///control.db"
default_deadline_ms = {deadline_ms}

[[gateway.tenants.ops.keys]]
key_id = "{key_id}"
sha256 = "{sha256}"
role = "admin"
"""
RUNTIME = "intercept_ms = 5\nslope_ms_per_unit = 0.1\njitter_ratio = 0"


@dataclass
class Block:
    """A block of the document, with the place of its body."""

    kind: str
    body: str
    span: tuple[int, int]


@dataclass
class Session:
    """A live fleet and what the commands so far have left behind."""

    folder: Path
    environment: dict[str, str]
    names: dict[str, Any] = field(default_factory=dict)

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        self._remember(done.stdout)
        return done.stdout

    def execute(self, code: str) -> None:
        for name in ("CONTROL", "DATA", "HEADWAY_API_KEY"):
            os.environ[name] = self.environment[name]
        exec(compile(code, "document", "exec"), self.names)

    def _remember(self, output: str) -> None:
        """KEY_ID, KEY and REQUEST_ID are the last ones shown."""
        for match in _KEY.finditer(output):
            self.environment |= {"KEY": match[0], "KEY_ID": match[1]}
        for match in re.finditer(r'"request_?[iI]d": "([^"]+)"', output):
            self.environment["REQUEST_ID"] = match[1]


def blocks(text: str) -> list[Block]:
    return [Block(m[1], m[2], m.span(2)) for m in _BLOCK.finditer(text)]


def commands(body: str) -> list[tuple[str, str]]:
    """Commands, continued lines joined as written, each with what it printed."""
    parts = re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]
    found = []
    for part in parts:
        lines = part.splitlines(keepends=True)
        size = 1
        while lines[size - 1].rstrip("\n").endswith("\\"):
            size += 1
        found.append(("".join(lines[:size]).rstrip("\n"), "".join(lines[size:])))
    return found


def masked(text: str, key_ids: set[str]) -> str:
    text = _KEY.sub("KEY", text)
    for key_id in key_ids:
        text = text.replace(key_id, "KEY_ID")
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


def key_ids(text: str) -> set[str]:
    return {match[1] for match in _KEY.finditer(text)}


@contextlib.contextmanager
def live_fleet(folder: Path) -> Iterator[Session]:
    """A closed gateway with a store, and workers of two versions."""
    key = configured_key(ADMIN, "admin")
    values = {"token": FLEET_TOKEN, "key_id": key["key_id"], "sha256": key["sha256"]}
    config = folder / "headway.toml"
    config.write_text(CONFIG.format(deadline_ms=10000, **values))
    fleet = FleetProcesses(folder)
    try:
        fleet.start_gateway(f"--config={config.name}", open_to_all=False)
        for worker_id, version in (("worker-1", "v1"), ("worker-2", "v2")):
            fleet.start_worker(worker_id, RUNTIME, version=version, fleet_token=FLEET_TOKEN)
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "CONTROL": f"127.0.0.1:{fleet.ports['control']}",
            "DATA": f"127.0.0.1:{fleet.ports['data']}",
            "HEADWAY_CONTROL_ADDRESS": f"127.0.0.1:{fleet.ports['control']}",
            "HEADWAY_ADDRESS": f"127.0.0.1:{fleet.ports['data']}",
            "HEADWAY_API_KEY": ADMIN,
            "COLUMNS": "110",
            "NO_COLOR": "1",
        }
        session = Session(folder, environment)
        until = (
            'until [ "$(headway replicas list --json | grep -c CONDITION_READY)" = 2 ]; do :; done'
        )
        session.run(until)
        yield session
    finally:
        fleet.stop_all()


def record(path: Path) -> None:
    """Runs the document and writes down what its commands print."""
    text = path.read_text()
    with tempfile.TemporaryDirectory() as folder, live_fleet(Path(folder)) as session:
        written, end = [], 0
        for block in blocks(text):
            if block.kind == "py":
                session.execute(block.body)
                continue
            fresh = ""
            for command, _ in commands(block.body):
                output = _KEY.sub(r"hw_\1_<secret>", session.run(command)).rstrip()
                lines = "\n".join(line.rstrip() for line in output.splitlines())
                fresh += f"$ {command}\n" + (f"{lines}\n" if lines else "")
            written += [text[end : block.span[0]], fresh]
            end = block.span[1]
        path.write_text("".join([*written, text[end:]]))


if __name__ == "__main__":
    record(Path(sys.argv[1]))
