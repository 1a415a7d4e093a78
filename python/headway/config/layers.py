"""Where settings come from, one layer a source, and which layer a value came from."""

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource

from headway.errors import ConfigError

Kind = Literal["default", "file", "env", "flag"]
"""Sources, in rising precedence."""

Tree = dict[str, Any]
"""Nested tables."""

KeyPath = Sequence[str | int]
"""Keys and list indices from the root to a value."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source set.

    Attributes:
      kind: the source.
      tree: its values.
      name_of: how the source writes a key: the file's path, the variable, the option.
    """

    kind: Kind
    tree: Tree
    name_of: Callable[[KeyPath], str]

    def holds(self, path: KeyPath) -> bool:
        """True if this layer sets the value at `path`, or a whole of which it is part."""
        node: Any = self.tree
        for part in path:
            if isinstance(node, dict):
                if part not in node:
                    return False
                node = node[part]
            elif isinstance(node, list):
                if not isinstance(part, int) or part >= len(node):
                    return False
                node = node[part]
        return True


@dataclass(frozen=True, slots=True)
class Layers:
    """All sources, the weakest first."""

    layers: Sequence[Layer]

    def merged(self) -> Tree:
        """One tree in which later layers win. Tables merge; lists and values replace."""
        tree: Tree = {}
        for layer in self.layers:
            tree = _overlay(tree, layer.tree)
        return tree

    def origin(self, path: KeyPath) -> Layer | None:
        """The layer whose value at `path` counts; None for a default."""
        return next((layer for layer in reversed(self.layers) if layer.holds(path)), None)

    @property
    def file(self) -> str | None:
        """The file's path, if there is one."""
        return next((layer.name_of(()) for layer in self.layers if layer.kind == "file"), None)


def file_layer(path: Path) -> Layer:
    """The layer of a TOML file. Raises ConfigError if it cannot be read or is not TOML."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}") from error
    return Layer("file", tree, lambda _: str(path))


class _Environment(EnvSettingsSource):
    """Leaves a list or table that is not JSON as it is, so that validation names its variable."""

    def decode_complex_value(
        self,
        field_name: str,
        field: FieldInfo,
        value: Any,
    ) -> Any:
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            return value


def environment_layer(root: type[BaseSettings], prefix: str, delimiter: str) -> Layer:
    """The layer of the process's environment.

    A variable without the delimiter is not a setting: Kubernetes puts HEADWAY_PORT into the
    environment of a Service named "headway".
    """
    tree = _Environment(root)()
    for name, value in os.environ.items():
        section, found, key = name.removeprefix(prefix).partition(delimiter)
        if name.startswith(prefix) and found and section.lower() not in root.model_fields:
            tree.setdefault(section.lower(), {})[key.lower()] = value
    return Layer(
        "env", tree, lambda path: prefix + delimiter.join(str(part).upper() for part in path)
    )


def flag_layer(flags: Mapping[str, Any], option_names: Mapping[str, str]) -> Layer:
    """The layer of command-line flags.

    Args:
      flags: dotted key to value; None values were not given.
      option_names: option by key, where it is not the key's last part with dashes; it stands for
        what is below the key too.
    """
    tree: Tree = {}
    for key, value in flags.items():
        if value is None:
            continue
        *parents, last = key.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value

    def name_of(path: KeyPath) -> str:
        # The nearest option that set the whole of which the value is part.
        for end in range(len(path), 0, -1):
            option = option_names.get(dotted(path[:end]))
            if option is not None:
                return option
        return "--" + str(path[-1]).replace("_", "-")

    return Layer("flag", tree, name_of)


def dotted(path: KeyPath) -> str:
    """A key as people write it: ``gateway.tenants.acme.keys[0].sha256``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def leaves(tree: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[KeyPath, object]]:
    """Every value of a tree with its path, tables opened, in order."""
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from leaves(value, (*path, key))
    else:
        yield path, tree


def _overlay(below: Tree, above: Tree) -> Tree:
    # Another kind of policy has other keys: nothing of the one below fits it.
    if "kind" in above and above["kind"] != below.get("kind", above["kind"]):
        return above
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both_tables = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = _overlay(old, value) if both_tables else value  # type: ignore[arg-type]
    return merged
