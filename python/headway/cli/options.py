"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

CLIENT = "Client"
PORTS = "Ports"
PROCESS = "Process"
TLS = "TLS"


def group(text: str, epilog: str | None = None) -> typer.Typer:
    """A command that has commands of its own."""
    return typer.Typer(
        help=text,
        epilog=epilog,
        no_args_is_help=True,
        rich_markup_mode="rich",
        add_completion=False,
    )


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        envvar="HEADWAY_CONFIG",
        metavar="FILE",
        help="TOML file. The environment and flags win over it. [dim]Default: none.[/dim]",
    ),
]
Address = Annotated[
    str,
    typer.Option(
        "--address",
        envvar="HEADWAY_ADDRESS",
        metavar="HOST:PORT",
        help="Data port of the gateway.",
        rich_help_panel=CLIENT,
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        envvar="HEADWAY_API_KEY",
        metavar="KEY",
        help="hw_..., as made by `headway key new`. Prefer the variable: others can see a "
        "command line. [dim]Default: none.[/dim]",
        rich_help_panel=CLIENT,
        show_default=False,
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME",
        help="Model. [dim]Default: the gateway's default model.[/dim]",
        show_default=False,
    ),
]
Version = Annotated[
    str,
    typer.Option(
        "--version",
        metavar="NAME",
        help="Version of the model. [dim]Default: what the traffic split gives.[/dim]",
        show_default=False,
    ),
]
Priority = Annotated[
    Literal["critical", "standard", "sheddable"],
    typer.Option("--priority", help="What is shed first, when there is too much: sheddable."),
]
Lane = Annotated[
    Literal["interactive", "bulk"],
    typer.Option("--lane", help="Keeps background work and interactive work out of each other's "
                 "way."),
]  # fmt: skip
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="N",
        help="Data port: inference. 0: any free one. [dim]Default: 50051.[/dim]",
        rich_help_panel=PORTS,
    ),
]
ControlPort = Annotated[
    int | None,
    typer.Option(
        "--control-port",
        metavar="N",
        help="Control port: operators and workers. 0: any. [dim]Default: 50052.[/dim]",
        rich_help_panel=PORTS,
    ),
]
HttpPort = Annotated[
    int | None,
    typer.Option(
        "--http-port",
        metavar="N",
        help="/metrics, /healthz, /readyz. 0: any. [dim]Default: 9100.[/dim]",
        rich_help_panel=PORTS,
    ),
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"] | None,
    typer.Option("--log-level", help="[dim]Default: info.[/dim]", rich_help_panel=PROCESS),
]
LogFormat = Annotated[
    Literal["json", "text"] | None,
    typer.Option(
        "--log-format",
        help="json: one object a line. text: for people. [dim]Default: json.[/dim]",
        rich_help_panel=PROCESS,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        help="Root of all chance, to replay a run. [dim]Default: drawn, and logged.[/dim]",
        rich_help_panel=PROCESS,
    ),
]
AddressFile = Annotated[
    Path | None,
    typer.Option(
        "--address-file",
        metavar="FILE",
        help="Where to write the bound addresses, as JSON. [dim]Default: nowhere.[/dim]",
        rich_help_panel=PROCESS,
    ),
]
DrainSeconds = Annotated[
    float | None,
    typer.Option(
        "--drain-seconds",
        metavar="S",
        help="At SIGTERM, longest time for what is in flight. [dim]Default: 30 s.[/dim]",
        rich_help_panel=PROCESS,
    ),
]
TlsCert = Annotated[
    Path | None,
    typer.Option(
        "--tls-cert",
        metavar="FILE",
        help="PEM file with the process's certificate: TLS on all ports and in the fleet, "
        "rather than plaintext.",
        rich_help_panel=TLS,
        show_default=False,
    ),
]
TlsKey = Annotated[
    Path | None,
    typer.Option(
        "--tls-key",
        metavar="FILE",
        help="PEM file with its key.",
        rich_help_panel=TLS,
        show_default=False,
    ),
]
TlsCa = Annotated[
    Path | None,
    typer.Option(
        "--tls-ca",
        metavar="FILE",
        help="PEM file with the authorities trusted for the fleet's other processes, and for "
        "clients. The rest of TLS is settings.",
        rich_help_panel=TLS,
        show_default=False,
    ),
]
ParentPid = Annotated[
    int | None,
    typer.Option(
        "--parent-pid",
        min=1,
        hidden=True,
        help="End when this process, which must be the parent, does.",
    ),
]
