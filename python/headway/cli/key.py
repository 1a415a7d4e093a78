"""``headway key``."""

import json
from typing import Annotated, Literal

import typer

from headway.apikey import digest_of, new_key
from headway.cli import options
from headway.cli.exits import command, usage

EPILOG = """
[bold]Example[/bold]

headway key new --tenant acme
"""

keys = options.group("Make, list, rotate and revoke API keys.")


@keys.callback()
def _group() -> None:
    """Make, list, rotate and revoke API keys."""


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
    """Make a key for a configuration file. Its secret is printed here, once.

    Nothing is stored: put the printed lines into the gateway's configuration.
    """
    from headway.naming import NAME_RULE, is_name

    if not is_name(tenant):
        usage(f"--tenant {tenant!r} is not a name: {NAME_RULE}")
    key, key_id = new_key()
    sha256 = digest_of(key).hex()
    if as_json:
        print(json.dumps({"key": key, "key_id": key_id, "sha256": sha256, "role": role}))
        return
    print(f"API key, shown only this once:\n\n  {key}\n")
    print("For the gateway's configuration:\n")
    table = f'"{tenant}"' if "." in tenant else tenant
    print(f"[[gateway.tenants.{table}.keys]]")
    print(f'key_id = "{key_id}"\nsha256 = "{sha256}"\nrole = "{role}"')
