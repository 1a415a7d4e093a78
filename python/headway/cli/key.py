"""``headway key``."""

import hashlib
import json
import secrets
import string
from typing import Annotated, Final, Literal

import typer

from headway.cli import options
from headway.cli.exits import command, usage

BASE62: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
KEY_ID_LENGTH: Final = 8
SECRET_LENGTH: Final = 43
"""43 characters of 62 hold 256 bits."""

EPILOG = """
[bold]Example[/bold]

headway key new --tenant acme
"""

keys = typer.Typer(
    help="Make API keys.", no_args_is_help=True, rich_markup_mode="rich", add_completion=False
)


@keys.callback()
def _group() -> None:
    """Make API keys."""


def new_key() -> tuple[str, str]:
    """A fresh API key, and its id."""
    key_id = _draw(KEY_ID_LENGTH)
    return f"hw_{key_id}_{_draw(SECRET_LENGTH)}", key_id


def _draw(length: int) -> str:
    return "".join(secrets.choice(BASE62) for _ in range(length))


@keys.command(epilog=EPILOG)
@command
def new(
    tenant: Annotated[str, typer.Option(metavar="NAME", help="Who it is for.", show_default=False)],
    role: Annotated[
        Literal["none", "viewer", "operator", "admin"],
        typer.Option(help="Rights on ControlService."),
    ] = "none",
    as_json: options.AsJson = False,
) -> None:
    """Make a key. The secret is printed here, once; the gateway is given its hash.

    Nothing is stored: put the printed lines into the gateway's configuration.
    """
    import re

    if re.fullmatch(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?", tenant) is None:
        usage(
            f"--tenant {tenant!r} is not a name: lower-case letters, digits, . _ and -, "
            "at most 64, a letter or digit at both ends"
        )
    key, key_id = new_key()
    sha256 = hashlib.sha256(key.encode()).hexdigest()
    if as_json:
        print(json.dumps({"key": key, "key_id": key_id, "sha256": sha256, "role": role}))
        return
    print(f"API key, shown only this once:\n\n  {key}\n")
    print("For the gateway's configuration:\n")
    table = f'"{tenant}"' if "." in tenant else tenant
    print(f"[[gateway.tenants.{table}.keys]]")
    print(f'key_id = "{key_id}"\nsha256 = "{sha256}"\nrole = "{role}"')
