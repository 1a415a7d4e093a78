"""The quickest way to finish a prompt that has the resource to itself."""

from collections.abc import Sequence
from functools import reduce
from math import gcd


class PrefillPlan:
    """`H(0) = 0`, `H(p) = min_g [T(g) + H(max(0, p - capacity(g)))]`, exactly.

    H changes only where p passes a multiple of the capacities' common divisor, so the table has one
    entry a multiple, and grows to the longest prompt asked for. O(entries x graphs).
    """

    def __init__(self, graphs: Sequence[tuple[int, int]]) -> None:
        """`graphs`: `(prefill capacity, duration)`; those without capacity are left out."""
        self._options = [
            (index, capacity, duration)
            for index, (capacity, duration) in enumerate(graphs)
            if capacity > 0
        ]
        self._unit = reduce(gcd, (capacity for _, capacity, _ in self._options), 0) or 1
        self._table: list[tuple[int, int]] = [(0, -1)]

    def completion(self, tokens: int) -> int:
        """H(tokens), in the unit of the durations; 0 without prefill graphs."""
        return self._entry(tokens)[0]

    def first(self, tokens: int) -> int:
        """The graph to start with, by its index; -1 if there is nothing to do."""
        return self._entry(tokens)[1]

    def _entry(self, tokens: int) -> tuple[int, int]:
        if not self._options:
            return 0, -1
        units = -(-tokens // self._unit)
        while len(self._table) <= units:
            left = len(self._table)
            self._table.append(
                min(
                    (
                        (duration + self._table[max(0, left - capacity // self._unit)][0], index)
                        for index, capacity, duration in self._options
                    ),
                )
            )
        return self._table[units]


def prefill_completion_ms(tokens: int, graphs: Sequence[tuple[int, float]]) -> float:
    """H(tokens) in ms over `(prefill capacity, duration in ms)`, to the nanosecond.

    Ignores decode competition and the context's effect on timing: it exposes greedy chunking, and
    prices no mixed workload.
    """
    if tokens < 0:
        raise ValueError(f"tokens must be at least 0, got {tokens}")
    if not any(capacity > 0 for capacity, _ in graphs):
        raise ValueError("graphs must hold one with a prefill capacity above 0")
    plan = PrefillPlan([(capacity, round(ms * 1_000_000)) for capacity, ms in graphs])
    return plan.completion(tokens) / 1_000_000
