"""Rows are padded together where that costs least."""

import itertools
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.runtimes.grouping import group_by_length


@pytest.mark.parametrize(
    ("lengths", "overhead", "groups"),
    [
        pytest.param([], 10, [], id="nothing"),
        pytest.param([7], 10, [[0]], id="one row"),
        pytest.param([8, 8, 8], 0, [[0, 1, 2]], id="equal rows stay together"),
        pytest.param([10, 12], 10, [[1, 0]], id="2 padded tokens for 10 saved"),
        pytest.param([10, 50], 10, [[1], [0]], id="40 padded tokens for 10 saved"),
        pytest.param([10, 20], 10, [[1, 0]], id="a tie stays together"),
        pytest.param([5, 200, 6, 190, 5], 15, [[1, 3], [2, 0, 4]], id="two clusters"),
    ],
)
def test_groups(lengths: list[int], overhead: float, groups: list[list[int]]) -> None:
    assert group_by_length(lengths, overhead) == groups


def cost(lengths: Sequence[int], groups: Sequence[Sequence[int]], overhead: float) -> float:
    return sum(overhead + len(group) * max(lengths[row] for row in group) for group in groups)


def partitions(rows: Sequence[int]) -> Iterator[list[list[int]]]:
    """All set partitions."""
    if not rows:
        yield []
        return
    first, rest = rows[0], rows[1:]
    for size in range(len(rest) + 1):
        for mates in itertools.combinations(rest, size):
            others = [row for row in rest if row not in mates]
            for partition in partitions(others):
                yield [[first, *mates], *partition]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
    st.floats(0, 30, allow_nan=False),
)
def test_no_partition_costs_less(lengths: list[int], overhead: float) -> None:
    groups = group_by_length(lengths, overhead)
    assert sorted(row for group in groups for row in group) == list(range(len(lengths)))
    best = min(cost(lengths, each, overhead) for each in partitions(range(len(lengths))))
    assert cost(lengths, groups, overhead) == pytest.approx(best)
