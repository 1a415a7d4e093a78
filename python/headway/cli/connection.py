"""How commands reach a gateway: one group of options for all of them."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from headway.cli import options

if TYPE_CHECKING:
    from headway.client.tls import ClientTls

Answer = TypeVar("Answer")


def _of_tls(kind: Any, flag: str, metavar: str, text: str) -> tuple[Any, None]:
    """An option of TLS and its default; its variable is named as it is."""
    option = typer.Option(
        flag,
        envvar=f"HEADWAY_{flag.removeprefix('--').replace('-', '_').upper()}",
        metavar=metavar,
        help=text,
        rich_help_panel=options.TLS,
        show_default=False,
    )
    return Annotated[kind, option], None


_OPTIONS: Final[Mapping[str, tuple[Any, Any]]] = {
    "api_key": (options.ApiKey, None),
    "tls": (
        Annotated[
            bool,
            typer.Option(
                "--tls",
                help="Speak TLS and trust the authorities that come with grpcio. "
                "[dim]Default: plaintext, unless another --tls option is given.[/dim]",
                rich_help_panel=options.TLS,
            ),
        ],
        False,
    ),
    "tls_ca": _of_tls(
        Path | None, "--tls-ca", "FILE", "PEM file with the authorities to trust instead."
    ),
    "tls_cert": _of_tls(
        Path | None,
        "--tls-cert",
        "FILE",
        "PEM file with a certificate to show, for gateways that ask for one.",
    ),
    "tls_key": _of_tls(Path | None, "--tls-key", "FILE", "PEM file with its key."),
    "tls_server_name": _of_tls(
        str | None,
        "--tls-server-name",
        "NAME",
        "Name in the gateway's certificate. [dim]Default: the address's host.[/dim]",
    ),
}


@dataclass(frozen=True, slots=True)
class Connection:
    """What the options say of the way to a gateway.

    Attributes:
      address: host:port.
      api_key: None for none.
      tls: True for TLS, as any of the others that begin with tls_ means.
    """

    address: str
    api_key: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_server_name: str | None = None

    @property
    def is_encrypted(self) -> bool:
        """True if TLS is spoken."""
        given = (self.tls_ca, self.tls_cert, self.tls_key, self.tls_server_name)
        return self.tls or any(each is not None for each in given)

    def client_options(self) -> dict[str, Any]:
        """Arguments for clients, beside the address."""
        return {"api_key": self.api_key, "tls": self._client_tls()}

    def _client_tls(self) -> "ClientTls | None":
        if not self.is_encrypted:
            return None
        from headway.client.tls import ClientTls

        return ClientTls(self.tls_ca, self.tls_cert, self.tls_key, self.tls_server_name)


BY_OPTIONS: Final = Connection("")
"""Default of a parameter `connection`, which `connected` fills from the options."""


def connected(
    address: Any, default: str
) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Gives a command the options of a connection in place of its parameter `connection`.

    Args:
      address: the option for the address, annotated.
      default: its default.
    """
    added = {"address": (address, default), **_OPTIONS}

    def expand(function: Callable[..., Answer]) -> Callable[..., Answer]:
        @functools.wraps(function)
        def run(**arguments: Any) -> Answer:
            parts = {name: arguments.pop(name) for name in added}
            return function(connection=Connection(**parts), **arguments)

        signature = inspect.signature(function)
        parameters: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            if parameter.name != "connection":
                parameters.append(parameter)
                continue
            parameters += [
                inspect.Parameter(name, parameter.kind, default=value, annotation=kind)
                for name, (kind, value) in added.items()
            ]
        shown: Any = run
        shown.__signature__ = signature.replace(parameters=parameters)
        shown.__annotations__ = {each.name: each.annotation for each in parameters} | {
            "return": signature.return_annotation
        }
        return run

    return expand


to_data = connected(options.Address, "127.0.0.1:50051")
"""For commands that call the data port."""
