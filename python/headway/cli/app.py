"""The command tree. Importing it loads no part of Headway that a command does not need."""

import sys
from typing import Annotated, NoReturn

import typer

from headway.cli import (
    drill,
    gateway,
    infer,
    key,
    lab,
    lab_dispatch,
    loadtest,
    operate,
    rollout,
    serve,
    tenant,
    verify_rollout,
    version,
    worker,
)
from headway.cli.config import config
from headway.cli.engine import engine
from headway.telemetry.native_log import calm_grpc

EPILOG = """
[bold]Start here[/bold]

headway serve
[dim]# and, elsewhere[/dim]
headway infer "the tide turns"
headway loadtest --clients 32 --seconds 20
"""

RUN = "Run"
USE = "Use"
OPERATE = "Operate"
SET_UP = "Set up"


def _print_version(wanted: bool) -> None:
    if wanted:
        from headway import __version__

        print(f"headway {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="headway",
    help="Serve machine-learning models to a deadline.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command(epilog=serve.EPILOG, rich_help_panel=RUN)(serve.serve)
app.command(epilog=gateway.EPILOG, rich_help_panel=RUN)(gateway.gateway)
app.command(epilog=worker.EPILOG, rich_help_panel=RUN)(worker.worker)
app.command(epilog=infer.EPILOG, rich_help_panel=USE)(infer.infer)
app.command(epilog=loadtest.EPILOG, rich_help_panel=USE)(loadtest.loadtest)
app.add_typer(engine, name="engine", rich_help_panel=USE)
app.command(epilog=operate.STATUS_EPILOG, rich_help_panel=OPERATE)(operate.status)
app.add_typer(operate.replicas, name="replicas", rich_help_panel=OPERATE)
app.add_typer(operate.split, name="split", rich_help_panel=OPERATE)
app.add_typer(tenant.tenants, name="tenant", rich_help_panel=OPERATE)
app.add_typer(tenant.quotas, name="quota", rich_help_panel=OPERATE)
app.command(epilog=operate.EXPLAIN_EPILOG, rich_help_panel=OPERATE)(operate.explain)
app.command("log-level", epilog=operate.LOG_LEVEL_EPILOG, rich_help_panel=OPERATE)(
    operate.log_level
)
app.command(epilog=operate.AUDIT_EPILOG, rich_help_panel=OPERATE)(operate.audit)
app.add_typer(rollout.rollouts, name="rollout", rich_help_panel=OPERATE)
app.command(name="verify-rollout", epilog=verify_rollout.EPILOG, rich_help_panel=OPERATE)(
    verify_rollout.verify_rollout
)
app.command(epilog=drill.EPILOG, rich_help_panel=OPERATE)(drill.drill)
lab_dispatch.register(lab.lab)
app.add_typer(lab.lab, name="lab", rich_help_panel=USE)
app.add_typer(config, name="config", rich_help_panel=SET_UP)
app.add_typer(key.keys, name="key", rich_help_panel=SET_UP)
app.command(rich_help_panel=SET_UP)(version.version)


@app.callback()
def _root(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Serve machine-learning models to a deadline."""


def main() -> NoReturn:
    """Runs the command line and ends the process."""
    calm_grpc()
    try:
        app()
    except KeyboardInterrupt:  # before a command had begun
        sys.exit(130)
    sys.exit(0)
