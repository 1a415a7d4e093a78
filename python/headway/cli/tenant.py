"""``headway tenant``, ``headway quota``, and what ``headway key`` does on a live gateway."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headway.cli import control, options
from headway.cli.connection import BY_OPTIONS, Connection
from headway.cli.exits import EXIT_CODES_HELP, command, usage
from headway.cli.key import keys

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headway.client import ControlClient
    from headway.v1 import control_pb2

EPILOG = f"""
[bold]Examples[/bold]

headway tenant create acme --units-per-second 5000
headway key create acme --description "their laptop"
headway quota set acme --units-per-second 2000
headway key rotate Ab3dEf7h --overlap 1h
headway key revoke Ab3dEf7h

{EXIT_CODES_HELP}
"""

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST_S = 36_500 * 86_400
_PRIORITIES = ("critical", "standard", "sheddable")

tenants = options.group("List, make, change and remove tenants.")
quotas = options.group("Show and change quotas.")

Rate = Annotated[
    float | None,
    typer.Option(metavar="N", help="Work units per second, prompt and output.", min=1e-6),
]
Burst = Annotated[
    float | None,
    typer.Option(
        metavar="N", min=1e-6, help="Most work units at once; two seconds' worth without it."
    ),
]
Weight = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        min=1e-6,
        max=1000,
        help="Part of the device time relative to other tenants', when there is too much.",
    ),
]
Ceiling = Annotated[
    Literal["critical", "standard", "sheddable"] | None,
    typer.Option("--max-priority", help="Highest priority its requests may have."),
]
Models = Annotated[
    list[str] | None,
    typer.Option("--model", metavar="NAME", help="A model it may use; may be repeated."),
]


@tenants.command("list", epilog=EPILOG)
@command
@control.to_control
def list_tenants(
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """List tenants with their quotas and limits."""
    return control.ask(lambda c: c.tenants(), _table, connection, as_json=as_json)


@tenants.command(epilog=EPILOG)
@command
@control.to_control
def create(
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Its name.")],
    units_per_second: Rate = None,
    burst_units: Burst = None,
    weight: Weight = None,
    max_priority: Ceiling = None,
    models: Models = None,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Make a tenant. It can call once it has a key: headway key create."""
    from headway.v1 import control_pb2

    made = control_pb2.Tenant(tenant=tenant)
    _change(made, units_per_second, burst_units, weight, max_priority, models)
    return control.ask(lambda c: c.create_tenant(made), _one, connection, as_json=as_json)


@tenants.command(epilog=EPILOG)
@command
@control.to_control
def update(
    tenant: control.Tenant,
    units_per_second: Rate = None,
    burst_units: Burst = None,
    weight: Weight = None,
    max_priority: Ceiling = None,
    models: Models = None,
    all_models: Annotated[
        bool, typer.Option("--all-models", help="It may use every model again.")
    ] = False,
    disabled: Annotated[
        bool | None,
        typer.Option("--disable/--enable", help="Whether it is refused everything."),
    ] = None,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Change a tenant; what is not given stays."""

    def change(known: "control_pb2.Tenant") -> None:
        _change(known, units_per_second, burst_units, weight, max_priority, models)
        if all_models:
            del known.models[:]
        if disabled is not None:
            known.disabled = disabled

    return control.ask(_updating(tenant, change), _one, connection, as_json=as_json)


@tenants.command(epilog=EPILOG)
@command
@control.to_control
def delete(
    tenant: control.Tenant,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Remove a tenant and its keys, on every gateway of the store."""
    return control.ask(
        lambda c: c.delete_tenant(tenant),
        lambda _: f"{tenant} and its keys are gone",
        connection,
        as_json=as_json,
    )


@quotas.command("show", epilog=EPILOG)
@command
@control.to_control
def show_quota(
    tenant: control.Tenant,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Show a tenant's quota."""
    return control.ask(lambda c: _find(c, tenant), _one, connection, as_json=as_json)


@quotas.command("set", epilog=EPILOG)
@command
@control.to_control
def set_quota(
    tenant: control.Tenant,
    units_per_second: Rate = None,
    burst_units: Burst = None,
    unlimited: Annotated[bool, typer.Option("--unlimited", help="Lift the quota.")] = False,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Change a tenant's quota, live and on every gateway of the store."""
    if unlimited == (units_per_second is not None or burst_units is not None):
        usage("give --units-per-second and --burst-units, or --unlimited")

    def change(known: "control_pb2.Tenant") -> None:
        if unlimited:
            known.ClearField("units_per_second")
            known.ClearField("burst_units")
        _change(known, units_per_second, burst_units, None, None, None)

    return control.ask(_updating(tenant, change), _one, connection, as_json=as_json)


@keys.command("create", epilog=EPILOG)
@command
@control.to_control
def create_key(
    tenant: control.Tenant,
    role: Annotated[
        Literal["none", "viewer", "operator", "admin"],
        typer.Option(help="Rights on ControlService."),
    ] = "none",
    valid_for: Annotated[
        str | None, typer.Option(metavar="TIME", help="90s, 15m, 12h, 30d. Default: for ever.")
    ] = None,
    description: Annotated[str, typer.Option(metavar="TEXT", help="For people.")] = "",
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Make a key on a live gateway, and all that share its store. Its secret is shown once."""
    seconds = None if valid_for is None else _seconds(valid_for)
    number = _role(role)
    return control.ask(
        lambda c: c.create_key(tenant, role=number, valid_for_s=seconds, description=description),
        lambda made: f"API key, shown only this once:\n\n  {made.secret}\n",
        connection,
        as_json=as_json,
    )


@keys.command("list", epilog=EPILOG)
@command
@control.to_control
def list_keys(
    tenant: Annotated[str, typer.Option(metavar="NAME", help="Only of this tenant.")] = "",
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """List keys, without their secrets."""
    return control.ask(lambda c: c.keys(tenant), _keys, connection, as_json=as_json)


@keys.command(epilog=EPILOG)
@command
@control.to_control
def rotate(
    key_id: control.KeyId,
    overlap: Annotated[
        str, typer.Option(metavar="TIME", help="How long the old key stays valid.")
    ] = "24h",
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Make a key in place of another; both work until the overlap is over."""
    seconds = _seconds(overlap)
    return control.ask(
        lambda c: c.rotate_key(key_id, overlap_s=seconds),
        lambda made: (
            f"New API key, shown only this once; {key_id} ends in {overlap}:\n\n  {made.secret}\n"
        ),
        connection,
        as_json=as_json,
    )


@keys.command(epilog=EPILOG)
@command
@control.to_control
def revoke(
    key_id: control.KeyId,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """End a key, within a second on every gateway of the store."""
    return control.ask(
        lambda c: c.revoke_key(key_id),
        lambda _: f"{key_id} is revoked",
        connection,
        as_json=as_json,
    )


def _change(
    tenant: "control_pb2.Tenant",
    units_per_second: float | None,
    burst_units: float | None,
    weight: float | None,
    max_priority: str | None,
    models: Sequence[str] | None,
) -> None:
    if units_per_second is not None:
        tenant.units_per_second = units_per_second
    if burst_units is not None:
        tenant.burst_units = burst_units
    if weight is not None:
        tenant.weight = weight
    if max_priority is not None:
        tenant.max_priority = _PRIORITIES.index(max_priority) + 1  # type: ignore[assignment]
    if models:
        tenant.models[:] = models


def _updating(
    name: str, change: "Callable[[control_pb2.Tenant], None]"
) -> "Callable[[ControlClient], Awaitable[control_pb2.Tenant]]":
    async def update(client: "ControlClient") -> "control_pb2.Tenant":
        known = await _find(client, name)
        change(known)
        return await client.update_tenant(known)

    return update


async def _find(client: "ControlClient", name: str) -> "control_pb2.Tenant":
    from headway.errors import NotFound

    for tenant in await client.tenants():
        if tenant.tenant == name:
            return tenant
    raise NotFound(f"no tenant {name!r}; `headway tenant list` shows them", field="tenant")


def _role(name: str) -> "control_pb2.Role":
    from headway.v1 import control_pb2

    return {
        "none": control_pb2.ROLE_UNSPECIFIED,
        "viewer": control_pb2.ROLE_VIEWER,
        "operator": control_pb2.ROLE_OPERATOR,
        "admin": control_pb2.ROLE_ADMIN,
    }[name]


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if match is None:
        usage(f"{text!r} is not a time; write 90s, 15m, 12h or 30d")
    seconds = float(match[1]) * _SECONDS[match[2] or "s"]
    if seconds > _LONGEST_S:
        usage(f"{text!r} is longer than 36500d")
    return seconds


def _one(tenant: Any) -> "RenderableType":
    return _table([tenant])


def _table(tenants: Sequence[Any]) -> "RenderableType":
    rows = [
        (
            each.tenant,
            f"{each.units_per_second:g}/s" if each.HasField("units_per_second") else "no limit",
            f"{each.burst_units:g}" if each.HasField("burst_units") else "-",
            f"{each.weight:g}",
            _PRIORITIES[each.max_priority - 1],
            ", ".join(each.models) or "all",
            "[red]disabled[/red]" if each.disabled else "",
            "configuration" if each.source == 1 else "operator",
        )
        for each in tenants
    ]
    heads = ("tenant", "units", "burst", "weight", "max priority", "models", "", "from")
    return control.table(*heads, rows=rows, empty="no tenant is known")


def _keys(keys: Sequence[Any]) -> "RenderableType":
    roles = ("none", "viewer", "operator", "admin")
    rows = [
        (
            each.key_id,
            each.tenant,
            roles[each.role],
            control.instant(each.created_at) if each.HasField("created_at") else "configuration",
            _ends(each),
            each.description,
        )
        for each in keys
    ]
    heads = ("key", "tenant", "role", "made (UTC)", "ends (UTC)", "description")
    return control.table(*heads, rows=rows, empty="no key is known")


def _ends(key: Any) -> str:
    if key.HasField("revoked_at"):
        return f"[red]revoked {control.instant(key.revoked_at)}[/red]"
    return control.instant(key.expires_at) if key.HasField("expires_at") else "never"
