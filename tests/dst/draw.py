"""Draws from a seed."""

import math
from collections.abc import Sequence
from typing import TypeVar

from headway._core import Rng

T = TypeVar("T")
MS = 1_000_000
S = 1_000_000_000


class Draw:
    """Chance of one kind, from a stream of its own."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng

    def chance(self, probability: float) -> bool:
        return self._rng.uniform() < probability

    def below(self, bound: int) -> int:
        return self._rng.below(bound)

    def between(self, low: int, high: int) -> int:
        return low + self._rng.below(high - low + 1)

    def choose(self, values: Sequence[T]) -> T:
        return values[self._rng.below(len(values))]

    def spread(self, low: int, high: int) -> int:
        """Evenly on a logarithmic scale."""
        return round(low * math.exp(self._rng.uniform() * math.log(high / low)))

    def exponential(self, mean: float) -> int:
        return round(-mean * math.log(1 - self._rng.uniform()))
