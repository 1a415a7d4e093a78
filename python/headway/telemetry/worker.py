"""A worker's metrics: every name and label once. Counted as the gateway's are: plain integers."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from headway.telemetry.distribution import (
    BATCH_BOUNDS,
    GAP_BOUNDS_S,
    LATENCY_BOUNDS_S,
    Distribution,
    histograms,
)
from headway.v1 import worker_pb2

_NS_PER_S = 1e9
_STATUS_NAMES = {
    value: name.removeprefix("ITEM_STATUS_").lower()
    for name, value in worker_pb2.ItemStatus.items()
}
NUM_STATUSES = len(_STATUS_NAMES)


class ModelMetrics:
    """Counts of one hosted model version."""

    __slots__ = ("batch_size", "busy", "device", "first_token", "gap", "items", "units", "wall")

    def __init__(self) -> None:
        self.items = [0] * NUM_STATUSES
        self.busy = 0
        self.units = 0
        self.batch_size = Distribution(BATCH_BOUNDS)
        self.device = Distribution(LATENCY_BOUNDS_S)
        self.wall = Distribution(LATENCY_BOUNDS_S)
        self.first_token = Distribution(LATENCY_BOUNDS_S)
        self.gap = Distribution(GAP_BOUNDS_S)

    def wrote(self, since_ns: int, *, first: bool) -> None:
        """An output got tokens, `since_ns` after its last ones; the first, after receipt."""
        (self.first_token if first else self.gap).add(since_ns / _NS_PER_S)

    def answered(self, by_status: Sequence[int], units: int, device_ns: int, wall_ns: int) -> None:
        """A batch ended.

        Args:
          by_status: members by `ItemStatus`.
          units: work units executed.
          device_ns: 0 where no device time is known; it is not counted then.
          wall_ns: receipt to end.
        """
        for status, count in enumerate(by_status):
            self.items[status] += count
        self.units += units
        self.batch_size.add(sum(by_status))
        self.wall.add(wall_ns / _NS_PER_S)
        if device_ns > 0:
            self.device.add(device_ns / _NS_PER_S)


@dataclass(frozen=True, slots=True)
class LaneGauges:
    """A reading of one generative model: lanes and key-value memory, free and in all."""

    model: str
    version: str
    free_lanes: int
    total_lanes: int
    free_kv_units: int
    total_kv_units: int


_LANE_GAUGES = (
    ("free_lanes", "headway_worker_free_lanes", "Lanes that an output could begin in."),
    ("total_lanes", "headway_worker_lanes", "Lanes."),
    ("free_kv_units", "headway_worker_free_kv_units", "Free key-value memory, in units."),
    ("total_kv_units", "headway_worker_kv_units", "Key-value memory, in units."),
)


@dataclass(frozen=True, slots=True)
class WorkerGauges:
    """A reading of a worker at the time of a scrape."""

    outstanding_batches: int
    sessions: int
    gateways_joined: int
    draining: bool
    idle_ns: int
    lanes: Sequence[LaneGauges] = ()


class WorkerMetrics(Collector):
    """All of a worker's metrics. Labels are hosted models and statuses, all bounded."""

    def __init__(self, read_gauges: Callable[[], WorkerGauges]) -> None:
        self._read_gauges = read_gauges
        self._models: dict[tuple[str, str], ModelMetrics] = {}

    def model(self, model: str, version: str) -> ModelMetrics:
        """Counts of a hosted model version; made once, kept by the caller."""
        return self._models.setdefault((model, version), ModelMetrics())

    def collect(self) -> Iterable[Metric]:
        """All families, for prometheus-client."""
        yield from self._counters()
        yield from self._histograms()
        yield from self._gauges()

    def _counters(self) -> Iterable[Metric]:
        items = CounterMetricFamily(
            "headway_worker_items", "Members of batches, by how they ended.",
            labels=("model", "version", "status"),
        )  # fmt: skip
        busy = CounterMetricFamily(
            "headway_worker_busy_batches", "Batches turned away as busy.",
            labels=("model", "version"),
        )  # fmt: skip
        units = CounterMetricFamily(
            "headway_worker_units", "Work units executed.", labels=("model", "version")
        )
        for labels, counts in self._models.items():
            for status, count in enumerate(counts.items):
                if count:
                    items.add_metric((*labels, _STATUS_NAMES[status]), count)
            busy.add_metric(labels, counts.busy)
            units.add_metric(labels, counts.units)
        idle = CounterMetricFamily(
            "headway_worker_idle_seconds", "Time the device had nothing to do between executions.",
            value=self._read_gauges().idle_ns / _NS_PER_S,
        )  # fmt: skip
        return items, busy, units, idle

    def _histograms(self) -> Iterable[Metric]:
        shapes = (
            ("device", "headway_worker_batch_device_seconds", "Device time of a batch."),
            ("wall", "headway_worker_batch_wall_seconds", "Receipt of a batch to its end."),
            ("batch_size", "headway_worker_batch_requests", "Members of a batch."),
            ("first_token", "headway_worker_first_token_seconds", "Receipt to the first token."),
            ("gap", "headway_worker_token_gap_seconds", "Time between two deliveries."),
        )
        return histograms(shapes, self._models)

    def _gauges(self) -> Iterable[Metric]:
        read = self._read_gauges()
        gauges = (
            ("outstanding_batches", "Batches in hand.", read.outstanding_batches),
            ("sessions", "Gateways connected.", read.sessions),
            ("gateways_joined", "Gateways that hold a lease of this worker.", read.gateways_joined),
            ("draining", "1 while it takes no new work.", int(read.draining)),
        )
        families = [
            GaugeMetricFamily(f"headway_worker_{name}", text, value=value)
            for name, text, value in gauges
        ]
        for attribute, name, text in _LANE_GAUGES:
            family = GaugeMetricFamily(name, text, labels=("model", "version"))
            for lanes in read.lanes:
                family.add_metric((lanes.model, lanes.version), getattr(lanes, attribute))
            families.append(family)
        return families
