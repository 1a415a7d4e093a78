"""Configuration, read again while the gateway runs: all of it, or nothing."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import SecretStr

from headway.errors import ConfigError, FailedPrecondition
from headway.gateway.settings import GatewaySettings
from headway.telemetry.logging import MASK, is_secret, masked

_log = logging.getLogger(__name__)

LIVE: Final = frozenset(
    {
        "admission",
        "tenants",
        "models",
        "scheduling",
        "arrival_trace",
        "default_model",
        "default_deadline_ms",
        "transport_margin_ms",
        "drain_seconds",
        "log_level",
    }
)
"""Settings that take effect at once; every other one needs a restart."""

_LIVE_EXCEPT: Final = ("max_queued_requests", "max_active_tenants")
"""Last parts of keys below `LIVE` that need one all the same: made with their bound."""

_MAX_CHANGES: Final = 500
_UNSET: Final = "unset"

Load = Callable[[], GatewaySettings]


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload changed, as "gateway.port: 1 -> 2"."""

    generation: int
    changes: tuple[str, ...]
    needs_restart: tuple[str, ...]


class Reloader:
    """Swaps settings. What cannot be read, or cannot work, leaves the last good ones in force.

    Attributes:
      settings: in force; those that need a restart are as they were at the start.
      generation: number of the live configuration, from 1.
      num_refused: reloads that were refused.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        load: Load | None,
        apply: Callable[[GatewaySettings], None],
    ) -> None:
        """Does nothing yet.

        Args:
          load: reads the configuration anew; None where there is none to read.
          apply: puts settings in force.
        """
        self.settings = settings
        self._load = load
        self._apply = apply
        self.generation = 1
        self.num_refused = 0

    def reload(self, *, dry_run: bool = False) -> Reloaded:
        """Reads, checks, and unless `dry_run` swaps.

        Raises:
          FailedPrecondition: the new configuration is refused; nothing has changed.
        """
        fresh = self._read()
        lines = list(differences(self.settings, fresh))
        live = [text for key, text in lines if is_live(key)]
        rest = [text for key, text in lines if not is_live(key)]
        if dry_run:
            return Reloaded(self.generation, _bounded(live + rest), _bounded(rest))
        if live:
            self._swap(fresh)
        _log.info(
            "configuration reloaded",
            extra={"generation": self.generation, "changes": live[:20], "needs_restart": rest[:20]},
        )
        return Reloaded(self.generation, _bounded(live + rest), _bounded(rest))

    def on_signal(self) -> None:
        """For SIGHUP: the outcome is in the log and the metrics."""
        try:
            self.reload()
        except FailedPrecondition as error:
            _log.error("configuration refused", extra={"why": error.message})

    def _read(self) -> GatewaySettings:
        if self._load is None:
            raise FailedPrecondition("this gateway was not started from a configuration")
        try:
            return self._load()
        except ConfigError as error:
            self.num_refused += 1
            raise FailedPrecondition(
                f"the new configuration is refused and generation {self.generation} stays in "
                f"force: {error}",
                metadata={"type": "CONFIG"},
            ) from error

    def _swap(self, fresh: GatewaySettings) -> None:
        old = self.settings
        merged = old.model_copy(update={name: getattr(fresh, name) for name in LIVE})
        try:
            self._apply(merged)
        except Exception as error:
            self._apply(old)
            self.num_refused += 1
            raise FailedPrecondition(
                f"the new configuration cannot work and generation {self.generation} stays in "
                f"force: {masked(str(error))}",
                metadata={"type": "CONFIG"},
            ) from error
        self.settings = merged
        self.generation += 1


def is_live(key: str) -> bool:
    """True if a change of this setting ("tenants.acme.weight") needs no restart."""
    return key.partition(".")[0] in LIVE and key.rpartition(".")[2] not in _LIVE_EXCEPT


def differences(old: GatewaySettings, new: GatewaySettings) -> Iterator[tuple[str, str]]:
    """(key, "gateway.key: old -> new") for each setting that differs; secrets are masked."""
    before, after = dict(_leaves(old.model_dump())), dict(_leaves(new.model_dump()))
    for key in sorted(before.keys() | after.keys()):
        one, other = before.get(key, _UNSET), after.get(key, _UNSET)
        if one != other:
            yield key, f"gateway.{key}: {_shown(key, one)} -> {_shown(key, other)}"


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{index}]")
    elif not (isinstance(value, Mapping | list | tuple) and not value):
        yield path, value


def _shown(key: str, value: Any) -> str:
    if value is _UNSET:
        return _UNSET
    if isinstance(value, SecretStr) or is_secret(key.rpartition(".")[2]):
        return MASK
    if isinstance(value, float):
        return f"{value:.12g}"
    return masked(str(list(value) if isinstance(value, tuple) else value))[:200]


def _bounded(lines: list[str]) -> tuple[str, ...]:
    if len(lines) <= _MAX_CHANGES:
        return tuple(lines)
    return (*lines[:_MAX_CHANGES], f"... and {len(lines) - _MAX_CHANGES} more")
