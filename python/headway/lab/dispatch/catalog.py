"""Prepared graphs with their durations, in files and as synthetic tables."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import ConfigError

NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class GraphSpec:
    """One prepared graph. It runs for `duration_ns` whoever uses its capacity.

    Attributes:
      prefill_capacity: prompt tokens; 0 for a decode graph.
      decode_capacity: rows; 0 for a prefill graph.
      width: positions verified a row, the certain one included.
      prompts: prompts that may share `prefill_capacity`.
    """

    name: str
    duration_ns: int
    prefill_capacity: int = 0
    decode_capacity: int = 0
    width: int = 1
    prompts: int = 1

    def __post_init__(self) -> None:
        """Names the first field out of range."""
        checks = (
            ("name", self.name, bool(self.name), "not empty"),
            ("duration_ms", self.duration_ns / NS_PER_MS, self.duration_ns > 0, "above 0"),
            ("prefill_capacity", self.prefill_capacity, self.prefill_capacity >= 0, "at least 0"),
            ("decode_capacity", self.decode_capacity, self.decode_capacity >= 0, "at least 0"),
            ("width", self.width, 1 <= self.width <= 64, "between 1 and 64"),
            ("prompts", self.prompts, self.prompts >= 1, "at least 1"),
        )
        for field, value, holds, expected in checks:
            if not holds:
                raise ConfigError(f"graph {self.name!r}: {field} must be {expected}, got {value}")
        if self.prefill_capacity == 0 and self.decode_capacity == 0:
            raise ConfigError(
                f"graph {self.name!r}: give it a prefill_capacity, a decode_capacity or both"
            )


def check_unique(graphs: Sequence[GraphSpec]) -> tuple[GraphSpec, ...]:
    """The graphs, if there are any and no name is used twice."""
    names = [graph.name for graph in graphs]
    if not names:
        raise ConfigError("a catalog needs at least one graph")
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ConfigError(f"graph names must be unique; {doubled[0]!r} is used more than once")
    return tuple(graphs)


def load_catalog(path: Path) -> tuple[GraphSpec, ...]:
    """Reads a JSON array of graphs with `duration_ms`.

    Raises:
      ConfigError: not readable, not such an array, or a field out of range.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"catalog {path.name}: {error}") from error
    if not isinstance(entries, list):
        raise ConfigError(f"catalog {path.name}: expected a JSON array of graphs")
    return check_unique([_graph(entry, path.name) for entry in entries])


def dump_catalog(graphs: Iterable[GraphSpec], path: Path) -> None:
    """Writes the form that `load_catalog` reads."""
    entries = [
        {
            "name": graph.name,
            "duration_ms": graph.duration_ns / NS_PER_MS,
            "prefill_capacity": graph.prefill_capacity,
            "decode_capacity": graph.decode_capacity,
            "width": graph.width,
            "prompts": graph.prompts,
        }
        for graph in graphs
    ]
    path.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")


def synthetic_catalog(mixed: bool = False) -> tuple[GraphSpec, ...]:
    """A made-up accelerator: prefill and decode graphs, with `mixed` also graphs that do both.

    Prefill takes 2 ms + 15.6 us a token; a decode graph 14 ms + 0.2 ms a row + 0.05 ms a row and
    further position; a mixed graph its decode part and 0.8 of its prefill part. No real device.
    """
    rows = (1, 2, 4, 5, 8, 16)
    graphs = [_prefill(tokens) for tokens in (64, 128, 256, 512, 1024, 4096)]
    graphs += [_decode(count, width) for count in rows for width in (1, 2, 4, 8)]
    if mixed:
        graphs += [
            _mixed(tokens, count, width)
            for tokens in (64, 256, 1024)
            for count in (4, 16)
            for width in (1, 4)
        ]
    return check_unique(graphs)


def _prefill_ns(tokens: int) -> int:
    return 2_000_000 + tokens * 15_600


def _decode_ns(count: int, width: int) -> int:
    return 14_000_000 + count * 200_000 + count * (width - 1) * 50_000


def _prefill(tokens: int) -> GraphSpec:
    return GraphSpec(f"prefill-{tokens}", _prefill_ns(tokens), prefill_capacity=tokens)


def _decode(count: int, width: int) -> GraphSpec:
    name = f"decode-b{count}-w{width}"
    return GraphSpec(name, _decode_ns(count, width), decode_capacity=count, width=width)


def _mixed(tokens: int, count: int, width: int) -> GraphSpec:
    duration_ns = _decode_ns(count, width) + _prefill_ns(tokens) * 4 // 5
    name = f"mixed-p{tokens}-b{count}-w{width}"
    return GraphSpec(name, duration_ns, tokens, count, width)


def _graph(entry: Any, where: str) -> GraphSpec:
    known = {"name", "duration_ms", "prefill_capacity", "decode_capacity", "width", "prompts"}
    if not isinstance(entry, dict) or not {"name", "duration_ms"} <= entry.keys():
        raise ConfigError(f"catalog {where}: each graph needs a name and a duration_ms")
    unknown = sorted(entry.keys() - known)
    if unknown:
        raise ConfigError(f"catalog {where}: graph {entry['name']!r} has no field {unknown[0]!r}")
    fields = {key: entry[key] for key in entry.keys() - {"name", "duration_ms"}}
    numbers = {**fields, "duration_ms": entry["duration_ms"]}
    for field, value in numbers.items():
        whole = isinstance(value, int) or (field == "duration_ms" and isinstance(value, float))
        if isinstance(value, bool) or not whole:
            raise ConfigError(f"catalog {where}: {field} must be a number, got {value!r}")
    return GraphSpec(str(entry["name"]), round(entry["duration_ms"] * NS_PER_MS), **fields)
