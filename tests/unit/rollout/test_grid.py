"""The latency bins."""

import numpy as np
import pytest

from headway.rollout import grid


@pytest.mark.parametrize(
    ("latency_ns", "index"),
    [
        (0, 0),
        (10_000, 0),
        (10_200, 0),
        (10_210, 1),
        (12_001, 9),
        (1_000_000, 227),
        (100_000_000, 454),
        (10**12, 909),
        (10**18, 909),
    ],
)
def test_a_latency_has_its_bin(latency_ns: int, index: int) -> None:
    assert grid.bin_of(latency_ns) == index
    assert grid.bins_of(np.array([float(latency_ns)])).tolist() == [index]


def test_a_ratio_is_a_shift() -> None:
    assert [grid.tolerant_shift(ratio) for ratio in (1.2, 1.44, 1.3, 2.0)] == [9, 18, 13, 35]
    assert [grid.strict_shift(ratio) for ratio in (1.2, 1.44, 1.3, 2.0)] == [9, 18, 12, 34]


def test_quantiles_are_upper_edges() -> None:
    counts = np.zeros(grid.NUM_BINS)
    counts[100], counts[200] = 94, 6
    assert [grid.quantile_bin(counts, q) for q in (0.5, 0.94, 0.95, 1.0)] == [100, 100, 200, 200]
    assert grid.quantiles_ns(counts, (0.5, 0.95)) == [77_373, 586_653]
    assert grid.quantiles_ns(np.zeros(grid.NUM_BINS), (0.5,)) == [0]
