"""The command lines of the children, and those to try next."""

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.serve.settings import ReplicaSettings, ServeSettings

DEFAULT_ADDRESS = "127.0.0.1:50051"
DEFAULT_CONTROL_ADDRESS = "127.0.0.1:50052"
DECODER_MODEL = "smollm2"


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a gateway listens, as host:port."""

    data: str
    control: str
    http: str

    @classmethod
    def read(cls, path: Path) -> "Addresses | None":
        """Reads a gateway's address file; None while there is none."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return cls(found["data"], found["control"], found["http"])

    def reached_by(self, host: str) -> "Addresses":
        """The same ports on `host`, for listeners on all of a machine's addresses."""
        shown = f"[{host}]" if ":" in host else host
        ports = [one.rpartition(":")[2] for one in (self.data, self.control, self.http)]
        return Addresses(*(f"{shown}:{port}" for port in ports))


def gateway_command(
    settings: ServeSettings, config: Path | None, address_file: Path, bound: Addresses | None
) -> list[str]:
    """Starts the gateway. `bound`: where it listened before, to be found there again."""
    ports = (
        (settings.port, settings.control_port, settings.http_port)
        if bound is None
        else tuple(int(one.rpartition(":")[2]) for one in (bound.data, bound.control, bound.http))
    )
    command = [*_headway("gateway", config), "--insecure-no-auth"]
    command += ["--host", settings.host, "--port", str(ports[0])]
    command += ["--control-host", settings.host, "--control-port", str(ports[1])]
    command += ["--http-host", settings.host, "--http-port", str(ports[2])]
    command += ["--transport", settings.transport] if settings.transport else []
    return [*command, *_common(settings), "--address-file", str(address_file)]


def gateway_environment(
    settings: ServeSettings, configured: Mapping[str, Any]
) -> Mapping[str, str]:
    """Gives the gateway the fleet's traffic split and default model.

    `configured`: the gateway's table as configured elsewhere; what it has is left as it is.
    """
    environment = {}
    model = settings.model_name
    if settings.split is not None or not configured.get("models", {}).get(model, {}).get("split"):
        environment["HEADWAY_GATEWAY__MODELS"] = json.dumps({model: {"split": settings.shares}})
    if configured.get("default_model") is None:
        environment["HEADWAY_GATEWAY__DEFAULT_MODEL"] = model
    return environment


def decoder_command(
    settings: ServeSettings, config: Path | None, control: str, trace: Path
) -> list[str]:
    """Starts the worker that writes. `trace`: where it keeps its steps."""
    command = [*_headway("worker", config), "--id", "decoder-a", "--gateway", control]
    command += ["--model", DECODER_MODEL, "--runtime", "decoder", "--port", "0"]
    return [*command, "--trace-file", str(trace), *_common(settings)]


def fresh_store(directory: Path, configured: Mapping[str, Any]) -> Mapping[str, str]:
    """Gives the gateway a control store of its own, empty for this trial.

    It outlives a restart of the gateway, not the trial: what an operator set last time does not
    surprise anybody. `configured`: the gateway's table; a store that it names is left alone.
    """
    if "store" in configured:
        return {}
    file = directory / "control.db"
    for suffix in ("", "-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
    return {"HEADWAY_GATEWAY__STORE__URL": f"sqlite:///{file.absolute()}"}


def worker_command(
    settings: ServeSettings, config: Path | None, replica: ReplicaSettings, control: str
) -> list[str]:
    """Starts a replica that joins the gateway whose control port is `control`."""
    command = [*_headway("worker", config), "--id", replica.name, "--gateway", control]
    command += ["--model", settings.model_name, "--version", replica.version]
    command += ["--runtime", settings.runtime, "--speed", f"{replica.speed:g}", "--port", "0"]
    return [*command, *_common(settings)]


def to_try(settings: ServeSettings, addresses: Addresses) -> Sequence[str]:
    """Commands to try next, as they work from the current directory."""
    body = json.dumps({"input": {"text": "the tide turns"}})
    at = "" if addresses.data == DEFAULT_ADDRESS else f" --address {addresses.data}"
    operated = (
        "" if addresses.control == DEFAULT_CONTROL_ADDRESS else f" --address {addresses.control}"
    )
    stream = (
        [f"{program('headway')} infer{at} --model {DECODER_MODEL} --stream 'What is a tide?'"]
        if settings.starts_decoder
        else []
    )
    return (
        f"{program('grpcurl')} -plaintext -d '{body}' {addresses.data} "
        "headway.v1.InferenceService/Infer",
        f'{program("headway")} infer{at} "the tide turns"',
        f"{program('headway')} loadtest{at} --clients 32 --seconds 20",
        *stream,
        f"{program('headway')} status{operated}",
    )


def program(name: str) -> str:
    """How to call a program that is installed beside this Python, or on the PATH."""
    beside = Path(sys.executable).parent / name
    on_path = shutil.which(name)
    if not beside.exists() or (on_path and os.path.samefile(on_path, beside)):
        return name
    try:
        return str(beside.relative_to(Path.cwd()))
    except ValueError:
        return str(beside)


def _headway(subcommand: str, config: Path | None) -> list[str]:
    command = [sys.executable, "-m", "headway", subcommand, "--parent-pid", str(os.getpid())]
    return command + (["--config", str(config)] if config else [])


def _common(settings: ServeSettings) -> list[str]:
    return ["--log-format", "json", "--drain-seconds", f"{settings.drain_seconds:g}"]
