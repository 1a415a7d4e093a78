"""``headway serve``."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from headway.cli import options
from headway.cli.exits import command, usage

FLEET = "Fleet"

EPILOG = """
[bold]Examples[/bold]

[dim]# The embedded model on three unlike replicas[/dim]
headway serve

[dim]# No model: three calibrated devices, 18 ms + 0.022 ms a unit, the last one slower[/dim]
headway serve --simulated

[dim]# Four replicas of v1, one of v2 at half the speed, on free ports[/dim]
headway serve --replicas v1,v1,v1,v1,v2@0.5 --port 0 --control-port 0 --http-port 0
"""


@command
def serve(
    config: options.ConfigFile = None,
    port: options.Port = None,
    control_port: options.ControlPort = None,
    http_port: options.HttpPort = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of all ports. [dim]Default: 127.0.0.1.[/dim]",
            rich_help_panel=options.PORTS,
        ),
    ] = None,
    transport: Annotated[
        Literal["grpcio", "native"] | None,
        typer.Option(
            help="Server of the data port. [dim]Default: the gateway's.[/dim]",
            rich_help_panel=options.PORTS,
        ),
    ] = None,
    simulated: Annotated[
        bool,
        typer.Option(
            "--simulated",
            help="Simulated devices instead of the embedded model.",
            rich_help_panel=FLEET,
        ),
    ] = False,
    replicas: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION@SPEED,...",
            help="The fleet. [dim]Default: v1,v1@0.6,v2; with --simulated v1,v1,v1@0.6.[/dim]",
            rich_help_panel=FLEET,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the model. [dim]Default: minilm, or simulated.[/dim]",
            rich_help_panel=FLEET,
        ),
    ] = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="For logs and addresses. [dim]Default: headway/serve in the XDG state "
            "directory.[/dim]",
        ),
    ] = None,
) -> int:
    """Run a gateway and a small fleet on this machine, to try Headway.

    Prints [bold]ready[/bold] once a request has been served. Ctrl-C stops everything.
    """
    from rich.console import Console

    from headway.clock import SystemClock
    from headway.config import load_serve, read_layers
    from headway.serve.checks import check_children
    from headway.serve.settings import parse_replicas
    from headway.serve.supervisor import run

    try:
        fleet = None if replicas is None else parse_replicas(replicas)
    except ValueError as error:
        usage(f"--replicas: {error}")
    flags: dict[str, Any] = {
        "port": port,
        "control_port": control_port,
        "http_port": http_port,
        "host": host,
        "transport": transport,
        "runtime": "simulated" if simulated else None,
        "replicas": fleet,
        "model": model,
        "state_dir": state_dir,
    }
    keyed = {f"serve.{name}": value for name, value in flags.items()}
    layers = read_layers(config, keyed, OPTION_NAMES)
    settings = load_serve(layers)
    check_children(settings, config)
    return run(
        settings,
        config=config,
        gateway_table=layers.merged().get("gateway", {}),
        clock=SystemClock(),
        console=Console(),
    )


OPTION_NAMES = {"serve.replicas": "--replicas", "serve.runtime": "--simulated"}
