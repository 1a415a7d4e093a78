"""``headway config``."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli import control, options
from headway.cli.connection import BY_OPTIONS, Connection
from headway.cli.exits import Exit, command
from headway.telemetry.logging import MASK

if TYPE_CHECKING:
    from headway.config import Section
    from headway.config.layers import KeyPath, Layers

EPILOG = """
[bold]Examples[/bold]

headway config check headway.toml
HEADWAY_GATEWAY__PORT=6000 headway config show --config headway.toml
headway config reload --dry-run
"""

config = options.group("Check, show and reload the configuration.")

ConfigArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE]",
        envvar="HEADWAY_CONFIG",
        help="TOML file. [dim]Default: HEADWAY_CONFIG, else only the environment.[/dim]",
        show_default=False,
        show_envvar=False,
    ),
]


@config.command(epilog=EPILOG)
@command
def check(file: ConfigArgument = None) -> None:
    """Check a file and the environment; leave with 64 if something is wrong.

    Sections that are neither in the file nor in the environment are not checked.
    """
    from headway.config import SECTIONS, read_layers, validate

    layers = read_layers(file)
    present = [section for section in SECTIONS if section in layers.merged()]
    validate(layers, present)
    what = ", ".join(present) if present else "nothing is set, all defaults"
    print(f"{file or 'environment'}: ok ({what})")


@config.command(epilog=EPILOG)
@command
def show(config: options.ConfigFile = None, as_json: options.AsJson = False) -> int:
    """Show every setting, its value, and where it comes from. Secrets are masked.

    A section that cannot work is told with what is wrong; the command leaves with 64 if it is
    set somewhere, rather than just missing.
    """
    from headway.config import SECTIONS, read_layers

    layers = read_layers(config)
    rows: list[dict[str, Any]] = []
    problems: dict[str, str] = {}
    for section in SECTIONS:
        own, problem = _section_rows(section, layers)
        rows += own
        if problem:
            problems[section] = problem
    if as_json:
        print(json.dumps({"settings": rows, "problems": problems}, indent=2))
    else:
        _print_rows(rows, problems)
    return Exit.CONFIG if set(problems) & set(layers.merged()) else Exit.OK


@config.command(epilog=EPILOG)
@command
@control.to_control
def reload(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Have a live gateway read its configuration again; a bad one leaves the last good one."""
    return control.ask(
        lambda client: client.reload(dry_run=dry_run),
        _reloaded,
        connection,
        as_json=as_json,
    )


def _reloaded(done: Any) -> str:
    from rich.markup import escape

    restart = set(done.needs_restart)
    lines = [f"configuration {done.generation} is in force"]
    lines += [
        escape(line) + (" [yellow](needs a restart)[/yellow]" if line in restart else "")
        for line in done.changes
    ]
    return "\n".join(lines if done.changes else [*lines, "nothing is different"])


def _section_rows(section: "Section", layers: "Layers") -> tuple[list[dict[str, Any]], str]:
    """Rows of key, value and source, and what is wrong with the section, if anything.

    Of a section that does not work, what was set is shown as it was set, and the other settings
    with their defaults.
    """
    from headway.config import validate
    from headway.config.layers import leaves
    from headway.errors import ConfigError

    try:
        settings = getattr(validate(layers, [section]), section)
    except ConfigError as error:
        tree = {section: _as_set(section, layers)}
        return [_row(path, value, layers) for path, value in leaves(tree)], str(error)
    tree = {section: settings.model_dump()}
    return [_row(path, value, layers) for path, value in leaves(tree)], ""


def _as_set(section: "Section", layers: "Layers") -> dict[str, Any]:
    """A section's values without judging them: those that were set, over the defaults."""
    from pydantic import BaseModel

    from headway.config import settings_of
    from headway.config.problems import secret_names

    known = settings_of(section)
    values: dict[str, Any] = {}
    for name, field in known.model_fields.items():
        if not field.is_required():
            default = field.get_default(call_default_factory=True)
            values[name] = default.model_dump() if isinstance(default, BaseModel) else default
    given = layers.merged().get(section, {})
    hidden = secret_names(known)
    for name, value in given.items() if isinstance(given, Mapping) else ():
        below, fresh = values.get(name), _hidden(name, value, hidden)
        if isinstance(below, dict) and isinstance(fresh, dict):
            fresh = {**below, **fresh}
        values[name] = fresh
    return values


def _hidden(name: str, value: object, hidden: frozenset[str]) -> Any:
    """A value with the secrets in it masked."""
    if isinstance(value, Mapping):
        return {key: _hidden(str(key), inner, hidden) for key, inner in value.items()}
    if isinstance(value, list):
        return [_hidden(name, inner, hidden) for inner in value]
    return MASK if name in hidden else value


def _row(path: "KeyPath", value: object, layers: "Layers") -> dict[str, Any]:
    from headway.config.layers import dotted

    layer = layers.origin(path)
    return {
        "key": dotted(path),
        "value": _shown(str(path[-1]), value),
        "source": layer.kind if layer else "default",
        "name": layer.name_of(path) if layer else None,
    }


def _shown(name: str, value: object) -> object:
    from pydantic import SecretStr

    from headway.telemetry.logging import is_secret

    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, SecretStr) or is_secret(name):
        return MASK
    if isinstance(value, Mapping):
        return {key: _shown(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(name, inner) for inner in value]
    return str(value)


def _print_rows(rows: list[dict[str, Any]], problems: Mapping[str, str]) -> None:
    """One setting a line, ``key = value  # source``, so that it can be searched and cut."""
    for row in rows:
        source = row["source"] if row["name"] is None else f"{row['source']} {row['name']}"
        print(f"{row['key']} = {json.dumps(row['value'])}  # {source}")
    for section, problem in problems.items():
        print(f"\n{section} is not usable as it is:\n{problem}")
