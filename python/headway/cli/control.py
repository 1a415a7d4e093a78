"""What the operating commands share: how they reach a gateway and show its answer."""

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headway.cli import options
from headway.cli.connection import Connection, connected
from headway.cli.exits import code_of, error_as_json, tell

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headway.client import ControlClient

DEFAULT_ADDRESS: Final = "127.0.0.1:50052"
ROLE_HELP: Final = "[dim]Reading takes a key of the role viewer, changing operator or admin.[/dim]"

Address = Annotated[
    str,
    typer.Option(
        "--address",
        envvar="HEADWAY_CONTROL_ADDRESS",
        metavar="HOST:PORT",
        help="Control port of the gateway.",
        rich_help_panel=options.CLIENT,
    ),
]

to_control = connected(Address, DEFAULT_ADDRESS)
"""For commands that call the control port."""

_COMPLETION_TIMEOUT_S: Final = 0.5


def ask(
    act: "Callable[[ControlClient], Awaitable[Any]]",
    show: "Callable[[Any], RenderableType]",
    connection: Connection,
    *,
    as_json: bool,
) -> int:
    """Does something with a gateway's control port and shows what comes of it."""
    import asyncio

    from rich.console import Console

    from headway.errors import HeadwayError

    try:
        answer = asyncio.run(_ask(act, connection, timeout_s=10.0))
    except HeadwayError as error:
        print(error_as_json(error)) if as_json else tell(error)
        return code_of(error)
    if as_json:
        print(json.dumps(plain(answer), indent=2))
    else:
        Console(highlight=False, soft_wrap=True).print(show(answer))
    return 0


async def _ask(
    act: "Callable[[ControlClient], Awaitable[Any]]",
    connection: Connection,
    *,
    timeout_s: float,
) -> Any:
    from headway.client import ControlClient

    settings = connection.client_options()
    async with ControlClient(connection.address, timeout_s=timeout_s, **settings) as control:
        return await act(control)


def plain(answer: Any) -> Any:
    """JSON of messages, with the names that the protos have."""
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import Message

    if isinstance(answer, Message):
        return MessageToDict(
            answer, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
    if isinstance(answer, str | int | float | None):
        return answer
    return [plain(each) for each in answer]


def table(*columns: str, rows: Sequence[Sequence[str]], empty: str) -> "RenderableType":
    """A table for people, or `empty` without rows."""
    from rich.table import Table

    if not rows:
        return f"[dim]{empty}[/dim]"
    made = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        made.add_row(*row)
    return made


def ms(duration: Any) -> str:
    """A Duration in milliseconds."""
    return f"{duration.ToNanoseconds() / 1e6:.1f} ms"


def instant(timestamp: Any) -> str:
    """A Timestamp, to the second, UTC."""
    return str(timestamp.ToJsonString())[:19].replace("T", " ")


def share(value: float) -> str:
    """A share in per cent."""
    return f"{100 * value:.4g} %"


def completer(
    names: "Callable[[ControlClient], Awaitable[Sequence[str]]]",
) -> Callable[[typer.Context, str], list[str]]:
    """Completes what the gateway of the environment knows; nothing if it does not answer."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        import asyncio

        try:
            found = asyncio.run(_ask(names, _of_environment(), timeout_s=_COMPLETION_TIMEOUT_S))
        except Exception:
            return []  # a completion must never disturb the command line
        return sorted(name for name in found if name.startswith(incomplete))

    return complete


def _of_environment() -> Connection:
    import os

    def path(name: str) -> Path | None:
        value = os.environ.get(name)
        return Path(value) if value else None

    return Connection(
        os.environ.get("HEADWAY_CONTROL_ADDRESS", DEFAULT_ADDRESS),
        os.environ.get("HEADWAY_API_KEY"),
        tls_ca=path("HEADWAY_TLS_CA"),
        tls_cert=path("HEADWAY_TLS_CERT"),
        tls_key=path("HEADWAY_TLS_KEY"),
        tls_server_name=os.environ.get("HEADWAY_TLS_SERVER_NAME"),
    )


async def _workers(control: "ControlClient") -> Sequence[str]:
    return sorted({replica.worker_id for replica in await control.replicas()})


async def _models(control: "ControlClient") -> Sequence[str]:
    return [split.model for split in (await control.state()).splits]


async def _tenants(control: "ControlClient") -> Sequence[str]:
    return [tenant.tenant for tenant in await control.tenants()]


async def _keys(control: "ControlClient") -> Sequence[str]:
    return [key.key_id for key in await control.keys()]


Worker = Annotated[
    str,
    typer.Argument(
        metavar="WORKER", help="Name of the worker.", autocompletion=completer(_workers)
    ),
]
Model = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="Name of the model.", autocompletion=completer(_models)),
]
Tenant = Annotated[
    str,
    typer.Argument(
        metavar="TENANT", help="Name of the tenant.", autocompletion=completer(_tenants)
    ),
]
KeyId = Annotated[
    str,
    typer.Argument(
        metavar="KEY_ID",
        help="The 8 characters between hw_ and the second underscore.",
        autocompletion=completer(_keys),
    ),
]
