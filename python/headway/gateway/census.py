"""How many gateways of the store are alive.

Each adds one to its own count in the store every second; who reads a count that rises knows that
its gateway lives. No two clocks are compared, so that machines may disagree about the time.
"""

from collections.abc import Mapping
from typing import Final

LIVE_NS: Final = 5_000_000_000
"""A gateway whose count did not rise for so long is taken for gone: five missed beats."""

FORGOTTEN_NS: Final = 600_000_000_000
"""After so long without a beat its row may be deleted."""


class Census:
    """Counts gateways by what they last wrote. Memory is bounded by the store's rows."""

    def __init__(self, gateway_id: str) -> None:
        """Knows only this gateway, which always lives."""
        self._gateway_id = gateway_id
        self._beats: dict[str, int] = {}
        self._risen_at_ns: dict[str, int] = {}

    def take(self, now_ns: int, beats: Mapping[str, int]) -> int:
        """Takes in the rows of the store; returns the number of live gateways, >= 1.

        A gateway that is seen for the first time counts as live, so that a quota is rather kept
        too tight for some seconds than let through twice.
        """
        self._risen_at_ns = {
            name: now_ns if self._beats.get(name) != count else self._risen_at_ns[name]
            for name, count in beats.items()
        }
        self._beats = dict(beats)
        others = (name for name in beats if name != self._gateway_id)
        return 1 + sum(1 for name in others if now_ns - self._risen_at_ns[name] < LIVE_NS)

    def forgotten(self, now_ns: int) -> list[str]:
        """Gateways that are gone for good."""
        return sorted(
            name for name, at_ns in self._risen_at_ns.items() if now_ns - at_ns >= FORGOTTEN_NS
        )
