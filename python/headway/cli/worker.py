"""``headway worker``."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from headway.cli import options
from headway.cli.exits import command

EPILOG = """
[bold]Examples[/bold]

[dim]# The embedded model, for a gateway on this machine[/dim]
headway worker

[dim]# A second, slower one, on version v2[/dim]
headway worker --id worker-1 --version v2 --speed 0.6

[dim]# Your own model: a directory with model.onnx and tokenizer.json[/dim]
headway worker --model mine --model-path ./mine

[dim]# No model, a calibrated device[/dim]
headway worker --model simulated --runtime simulated

Several models, batch limits, failure drills and the like are settings: `headway config show`
lists them.
"""

DEFAULT_MODEL = "minilm"


@command
def worker(
    config: options.ConfigFile = None,
    worker_id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="NAME",
            help="Name, unique in the fleet and kept over restarts. [dim]Default: worker-0.[/dim]",
        ),
    ] = None,
    gateway: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Control port of a gateway to join; may be repeated. "
            "[dim]Default: 127.0.0.1:50052.[/dim]",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Name that clients ask for. [dim]Default: {DEFAULT_MODEL}.[/dim]",
            rich_help_panel="Model",
        ),
    ] = None,
    version: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Version of the model. [dim]Default: v1.[/dim]",
            rich_help_panel="Model",
        ),
    ] = None,
    runtime: Annotated[
        Literal["onnx", "simulated", "decoder", "llama", "simulated-decoder"] | None,
        typer.Option(
            help="onnx: a real model. simulated: a device of 18 ms + 0.022 ms a unit. Those that "
            "write: decoder (numpy), llama (llama.cpp), simulated-decoder. "
            "[dim]Default: onnx.[/dim]",
            rich_help_panel="Model",
        ),
    ] = None,
    model_path: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Directory with model.onnx and tokenizer.json, or a GGUF file for those that "
            "write. [dim]Default: the embedded model.[/dim]",
            rich_help_panel="Model",
        ),
    ] = None,
    trace_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where a model that writes keeps its steps, for headway engine trace. "
            "[dim]Default: nowhere.[/dim]",
            rich_help_panel="Model",
        ),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Relative speed; a real model can only be slowed (below 1). "
            "[dim]Default: 1.[/dim]",
            rich_help_panel="Model",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address to listen on. [dim]Default: 127.0.0.1.[/dim]",
            rich_help_panel=options.PORTS,
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Port to listen on. [dim]Default: 0, any free one.[/dim]",
            rich_help_panel=options.PORTS,
        ),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="How gateways reach it. [dim]Default: where it listens.[/dim]",
            rich_help_panel=options.PORTS,
        ),
    ] = None,
    http_port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="/metrics, /healthz, /readyz. 0: any. [dim]Default: off.[/dim]",
            rich_help_panel=options.PORTS,
        ),
    ] = None,
    insecure_no_auth: Annotated[
        bool,
        typer.Option(
            "--insecure-no-auth",
            help="Let anyone who reaches the port use the worker. For trials.",
        ),
    ] = False,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    tls_ca: options.TlsCa = None,
    address_file: options.AddressFile = None,
    drain_seconds: options.DrainSeconds = None,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
    seed: options.Seed = None,
    parent_pid: options.ParentPid = None,
) -> int:
    """Run a worker: it hosts models, joins gateways, and executes their batches.

    SIGTERM or Ctrl-C drains it: it takes no more work and finishes what it has.
    """
    from headway.cli.parent import end_with
    from headway.config import load_worker, read_layers
    from headway.worker.main import run

    if parent_pid is not None:
        end_with(parent_pid)
    flags: dict[str, Any] = {
        "worker_id": worker_id,
        "gateways": gateway or None,
        "host": host,
        "port": port,
        "advertise": advertise,
        "http_port": http_port,
        "insecure_no_auth": insecure_no_auth or None,
        "tls.cert_file": tls_cert,
        "tls.key_file": tls_key,
        "tls.ca_file": tls_ca,
        "address_file": address_file,
        "drain_seconds": drain_seconds,
        "log_level": log_level,
        "log_format": log_format,
        "seed": seed,
    }
    configured = read_layers(config).merged().get("worker", {}).get("models")
    flags["models"] = models_with_flags(
        configured, model=model, version=version, runtime=runtime, path=model_path, speed=speed,
        trace_file=trace_file,
    )  # fmt: skip
    layers = read_layers(
        config, {f"worker.{name}": value for name, value in flags.items()}, OPTION_NAMES
    )
    return run(load_worker(layers))


OPTION_NAMES = {
    "worker.worker_id": "--id",
    "worker.gateways": "--gateway",
    "worker.tls.cert_file": "--tls-cert",
    "worker.tls.key_file": "--tls-key",
    "worker.tls.ca_file": "--tls-ca",
    "worker.models[0].runtime": "--runtime",
    "worker.models[0].runtime.kind": "--runtime",
    "worker.models[0].runtime.path": "--model-path",
}


def models_with_flags(
    configured: Any,
    *,
    model: str | None,
    version: str | None,
    runtime: str | None,
    path: Path | None,
    speed: float | None,
    trace_file: Path | None = None,
) -> list[dict[str, Any]] | None:
    """The list of models, changed by the flags; None if none of them was given.

    The flags speak of one model. Raises ConfigError if the configuration lists several.
    """
    from headway.errors import ConfigError

    named = {"model": model, "version": version, "speed": speed}
    changes: dict[str, Any] = {key: value for key, value in named.items() if value is not None}
    if not changes and runtime is None and path is None and trace_file is None:
        return None
    if configured and len(configured) > 1:
        raise ConfigError(
            "--model, --version, --runtime, --model-path and --speed speak of one model, and "
            f"worker.models lists {len(configured)}; change the list instead"
        )
    one: dict[str, Any] = {**(configured[0] if configured else {"model": DEFAULT_MODEL}), **changes}
    kind = runtime or ("onnx" if path is not None else None)
    if kind is not None:
        kept = one.get("runtime", {})
        one["runtime"] = {**(kept if kept.get("kind") == kind else {}), "kind": kind}
    if path is not None:
        one["runtime"]["path"] = str(path)
    if trace_file is not None:
        one.setdefault("runtime", {"kind": "decoder"})["trace_file"] = str(trace_file)
    return [one]
