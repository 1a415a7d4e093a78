"""The bins in which latencies are counted: logarithmic, 2 % wide, the same everywhere.

Histograms over one fixed grid merge by addition, over ticks and over gateways, and a ratio of
latencies is a shift of bins. The width is 1.2^(1/9), so that the default tolerance of 1.2 is a
shift by exactly nine: at the tolerance the tests are fair to the last bin.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

LOWEST_NS: Final = 10_000
"""Lower edge of the first bin: 10 us. What is faster counts there."""

RATIO: Final[float] = math.pow(1.2, 1 / 9)
"""Width of a bin, about 2.05 %."""

NUM_BINS: Final = 910
"""Up to 1,000 s; what is slower counts in the last bin."""

_PER_LOG: Final[float] = 1 / math.log(RATIO)
_LOG_LOWEST: Final = math.log(LOWEST_NS)
_LAST: Final = NUM_BINS - 1


def bin_of(latency_ns: int) -> int:
    """Bin of a latency. O(1), some 150 ns."""
    if latency_ns <= LOWEST_NS:
        return 0
    return min(int((math.log(latency_ns) - _LOG_LOWEST) * _PER_LOG), _LAST)


def bins_of(latencies_ns: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Bins of many latencies."""
    logs = np.log(np.maximum(latencies_ns, LOWEST_NS))
    bins = np.minimum((logs - _LOG_LOWEST) * _PER_LOG, _LAST)
    found: npt.NDArray[np.int64] = bins.astype(np.int64)
    return found


def upper_edge_ns(index: float) -> int:
    """Upper edge of a bin."""
    return round(LOWEST_NS * math.pow(RATIO, index + 1))


def tolerant_shift(ratio: float) -> int:
    """Bins of a ratio, rounded up: for tests that must not accuse what is within it."""
    return math.ceil(math.log(ratio) * _PER_LOG - 1e-9)


def strict_shift(ratio: float) -> int:
    """Bins of a ratio, rounded down: for gates that must not pass what is beyond it."""
    return math.floor(math.log(ratio) * _PER_LOG + 1e-9)


def quantile_bin(counts: npt.NDArray[Any], quantile: float) -> int:
    """First bin by which `quantile` of the counts are reached; -1 if there are none."""
    cumulative = np.cumsum(counts)
    if cumulative[-1] <= 0:
        return -1
    return int(np.searchsorted(cumulative, quantile * cumulative[-1] * (1 - 1e-12)))


def quantiles_ns(counts: npt.NDArray[Any], quantiles: Sequence[float]) -> list[int]:
    """Upper edges of the bins of some quantiles; zeros if there are no counts."""
    bins = [quantile_bin(counts, quantile) for quantile in quantiles]
    return [0 if found < 0 else upper_edge_ns(found) for found in bins]
