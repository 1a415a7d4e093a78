"""Histograms counted in plain integers, for gateways and workers alike."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import HistogramMetricFamily

LATENCY_BOUNDS_S = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
GAP_BOUNDS_S = (
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5, 10.0,
)  # fmt: skip
BATCH_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
RATIO_BOUNDS = (0.25, 0.5, 0.75, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0, 4.0)
_STREAMS_ONLY = frozenset({"first_token", "gap"})


class Distribution:
    """Counts of a histogram with fixed bounds; memory is the bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Counts a value into the first bucket whose bound is not below it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def is_empty(self) -> bool:
        """True before the first value."""
        return not any(self.counts)

    def buckets(self) -> list[tuple[str, float]]:
        """(upper bound, cumulative count) as Prometheus wants them."""
        cumulative = 0
        rows: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, map(float, self.bounds)), "+Inf"), self.counts,
                                strict=True):  # fmt: skip
            cumulative += count
            rows.append((bound, cumulative))
        return rows


def histograms(
    shapes: Iterable[tuple[str, str, str]], counts: Mapping[tuple[str, str], object]
) -> Iterator[HistogramMetricFamily]:
    """A family for each shape, with the distributions of all model versions.

    Those that only models that write fill are left out where they are empty.

    Args:
      shapes: (attribute that holds the distribution, name, help).
      counts: by model and version.
    """
    for attribute, name, text in shapes:
        family = HistogramMetricFamily(name, text, labels=("model", "version"))
        for labels, counted in counts.items():
            distribution: Distribution = getattr(counted, attribute)
            if attribute in _STREAMS_ONLY and distribution.is_empty():
                continue
            family.add_metric(labels, distribution.buckets(), distribution.total)
        yield family
