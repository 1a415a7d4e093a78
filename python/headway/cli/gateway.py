"""``headway gateway``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headway.cli import options
from headway.cli.exits import command

if TYPE_CHECKING:
    from headway.gateway.settings import GatewaySettings

EPILOG = """
[bold]Examples[/bold]

[dim]# A trial on loopback; no keys are asked for[/dim]
headway gateway --insecure-no-auth

[dim]# As configured, on other ports[/dim]
headway gateway --config headway.toml --port 6000 --control-port 6001

Every setting has a key: `headway config show` lists them with their values and where they come
from. A key gateway.port is HEADWAY_GATEWAY__PORT in the environment.
"""


@command
def gateway(
    config: options.ConfigFile = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of the data port. [dim]Default: 127.0.0.1.[/dim]",
            rich_help_panel=options.PORTS,
        ),
    ] = None,
    port: options.Port = None,
    control_host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of the control port. [dim]Default: 127.0.0.1.[/dim]",
            rich_help_panel=options.PORTS,
        ),
    ] = None,
    control_port: options.ControlPort = None,
    http_host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of the HTTP port. [dim]Default: 127.0.0.1.[/dim]",
            rich_help_panel=options.PORTS,
        ),
    ] = None,
    http_port: options.HttpPort = None,
    transport: Annotated[
        Literal["grpcio", "native"] | None,
        typer.Option(
            help="Server of the data port. [dim]Default: grpcio.[/dim]",
            rich_help_panel=options.PORTS,
        ),
    ] = None,
    insecure_no_auth: Annotated[
        bool,
        typer.Option(
            "--insecure-no-auth",
            help="Ask for no API keys and no fleet token. For trials on loopback.",
        ),
    ] = False,
    arrival_trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Record arrivals, without their inputs, for `headway lab replay`.",
        ),
    ] = None,
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
    """Run a gateway: it takes requests, schedules them, and sends them to workers.

    SIGTERM or Ctrl-C drains it: new requests are refused, old ones finish. SIGHUP reads the
    configuration again.
    """
    from headway.cli.parent import end_with
    from headway.config import load_gateway, read_layers
    from headway.gateway.main import run

    if parent_pid is not None:
        end_with(parent_pid)
    flags = {
        "host": host,
        "port": port,
        "control_host": control_host,
        "control_port": control_port,
        "http_host": http_host,
        "http_port": http_port,
        "transport": transport,
        "insecure_no_auth": insecure_no_auth or None,
        "arrival_trace.path": arrival_trace,
        "tls.cert_file": tls_cert,
        "tls.key_file": tls_key,
        "tls.ca_file": tls_ca,
        "address_file": address_file,
        "drain_seconds": drain_seconds,
        "log_level": log_level,
        "log_format": log_format,
        "seed": seed,
    }
    keyed = {f"gateway.{name}": value for name, value in flags.items()}

    def load() -> "GatewaySettings":
        return load_gateway(read_layers(config, keyed, OPTION_NAMES))

    return run(load(), load)


OPTION_NAMES = {
    "gateway.arrival_trace.path": "--arrival-trace",
    "gateway.tls.cert_file": "--tls-cert",
    "gateway.tls.key_file": "--tls-key",
    "gateway.tls.ca_file": "--tls-ca",
}
