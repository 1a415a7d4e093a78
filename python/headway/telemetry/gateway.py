"""The gateway's metrics: every name and label once.

Counting happens on the event loop's one thread, so the hot path adds to plain integers; the
collector turns them into Prometheus families when it is asked (a labelled prometheus-client
observation takes a lock and 1-2 us, four times a request).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from headway._core import PoolStats
from headway.telemetry.distribution import (
    BATCH_BOUNDS,
    GAP_BOUNDS_S,
    LATENCY_BOUNDS_S,
    RATIO_BOUNDS,
    Distribution,
    histograms,
)

_NS_PER_S = 1e9
OTHER = "other"
CLASSES = ("critical", "standard", "sheddable")
Counts = tuple[int, int, int]
"""Of each class, in the order of CLASSES."""


class PoolMetrics:
    """Counts of one model version."""

    __slots__ = ("batch_reasons", "batch_size", "cost_ratio", "device", "first_token", "gap",
                 "latency", "outcomes", "queued")  # fmt: skip

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}
        self.latency = Distribution(LATENCY_BOUNDS_S)
        self.queued = Distribution(LATENCY_BOUNDS_S)
        self.device = Distribution(LATENCY_BOUNDS_S)
        self.batch_size = Distribution(BATCH_BOUNDS)
        self.cost_ratio = Distribution(RATIO_BOUNDS)
        self.batch_reasons: dict[str, int] = {}
        self.first_token = Distribution(LATENCY_BOUNDS_S)
        self.gap = Distribution(GAP_BOUNDS_S)

    def first_part(self, wait_ns: int) -> None:
        """The first part of an output came, so long after the request."""
        self.first_token.add(wait_ns / _NS_PER_S)

    def next_part(self, gap_ns: int) -> None:
        """A further part came, so long after the one before it."""
        self.gap.add(gap_ns / _NS_PER_S)

    def ended(self, outcome: str, total_ns: int) -> None:
        """A request ended: "ok" or an error reason."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self.latency.add(total_ns / _NS_PER_S)

    def dispatched(self, reason: str, queued_ns: Sequence[int]) -> None:
        """A batch left for a replica."""
        self.batch_reasons[reason] = self.batch_reasons.get(reason, 0) + 1
        self.batch_size.add(len(queued_ns))
        for wait in queued_ns:
            self.queued.add(wait / _NS_PER_S)

    def executed(self, device_ns: int, predicted_ns: int) -> None:
        """A batch was executed; device_ns > 0."""
        self.device.add(device_ns / _NS_PER_S)
        if predicted_ns > 0:
            self.cost_ratio.add(device_ns / predicted_ns)


class StreamReading(Protocol):
    """What is read of one generative model version; a `StreamPoolState`."""

    waiting: int
    writing: int
    free_lanes: int
    total_lanes: int
    free_kv_units: int
    total_kv_units: int


_STREAM_GAUGES = (
    ("waiting", "headway_stream_waiting", "Outputs that wait for a lane."),
    ("writing", "headway_stream_writing", "Outputs being written."),
    ("free_lanes", "headway_stream_free_lanes", "Free lanes of ready replicas."),
    ("total_lanes", "headway_stream_lanes", "Lanes of ready replicas."),
    ("free_kv_units", "headway_stream_free_kv_units", "Free key-value memory, in units."),
    ("total_kv_units", "headway_stream_kv_units", "Key-value memory, in units."),
)


def _stream_families(read: "Gauges") -> Iterable[Metric]:
    for attribute, name, text in _STREAM_GAUGES:
        family = GaugeMetricFamily(name, text, labels=("model", "version"))
        for model, version, reading in read.streams:
            family.add_metric((model, version), getattr(reading, attribute))
        yield family


class Gauges:
    """A reading of the scheduler's state at the time of a scrape."""

    def __init__(self) -> None:
        self.queued: list[tuple[str, str, int, int]] = []  # model, version, requests, units
        self.replicas: list[tuple[str, str, str, int]] = []  # model, version, state, count
        self.streams: list[tuple[str, str, StreamReading]] = []  # model, version, its outputs
        self.resilience: list[tuple[str, str, PoolStats]] = []
        # model, version, limit, requests in flight and displaced by class
        self.classes: list[tuple[str, str, int, Counts, Counts]] = []
        self.tenants = (0, 0)  # known, active of late
        self.num_gateways = 1
        self.live = 0
        self.config_generation = 1
        self.reloads_refused = 0
        self.arrivals_unrecorded = 0
        self.store_up = False
        self.store_waiting = 0
        self.watchers = 0
        self.rollouts: list[tuple[str, str, float]] = []  # model, canary, its share


def _admission_families(read: Gauges) -> Iterable[Metric]:
    limit = GaugeMetricFamily(
        "headway_inflight_limit", "Requests that a model version may have in hand.",
        labels=("model", "version"),
    )  # fmt: skip
    inflight = GaugeMetricFamily(
        "headway_class_inflight_requests", "Requests queued and executing, by priority class.",
        labels=("model", "version", "class"),
    )  # fmt: skip
    displaced = CounterMetricFamily(
        "headway_displaced_requests", "Requests that left the queue for others, by class.",
        labels=("model", "version", "class"),
    )  # fmt: skip
    for model, version, bound, held, left in read.classes:
        limit.add_metric((model, version), bound)
        for name, number, gone in zip(CLASSES, held, left, strict=True):
            inflight.add_metric((model, version, name), number)
            displaced.add_metric((model, version, name), gone)
    yield from (limit, inflight, displaced)
    yield GaugeMetricFamily(
        "headway_active_tenants", "Tenants that asked for something of late.",
        value=read.tenants[1],
    )  # fmt: skip
    yield GaugeMetricFamily(
        "headway_live_gateways", "Gateways of the store, by which quotas are divided.",
        value=read.num_gateways,
    )  # fmt: skip


def _control_families(read: Gauges) -> Iterable[Metric]:
    yield CounterMetricFamily(
        "headway_config_reloads_refused",
        "Configurations that were refused; the last good one stayed.",
        value=read.reloads_refused,
    )
    yield CounterMetricFamily(
        "headway_arrival_trace_dropped",
        "Requests missing in the arrival trace: its disk was full or too slow.",
        value=read.arrivals_unrecorded,
    )
    yield GaugeMetricFamily(
        "headway_store_up", "1 while the control store answers.", value=int(read.store_up)
    )
    yield GaugeMetricFamily(
        "headway_store_waiting_entries",
        "Verdicts and audit entries that wait for the control store.",
        value=read.store_waiting,
    )
    yield GaugeMetricFamily(
        "headway_state_watchers", "WatchState streams open.", value=read.watchers
    )
    canaries = GaugeMetricFamily(
        "headway_rollout_canary_share",
        "Share of unpinned traffic that an active rollout gives its canary.",
        labels=("model", "version"),
    )
    for model, version, share in read.rollouts:
        canaries.add_metric((model, version), share)
    yield canaries


def _resilience_families(read: Gauges) -> Iterable[Metric]:
    labels = ("model", "version")
    families = (
        ("headway_hedges_sent", "Second copies of late batches sent.", "hedges_sent"),
        ("headway_hedges_won", "Second copies that answered first.", "hedges_won"),
        ("headway_retries_refused", "Retries that the retry budget refused.", "retries_refused"),
    )
    for name, text, attribute in families:
        family = CounterMetricFamily(name, text, labels=labels)
        for model, version, stats in read.resilience:
            family.add_metric((model, version), getattr(stats, attribute))
        yield family
    device = CounterMetricFamily(
        "headway_hedge_device_seconds", "Device time that second copies took.", labels=labels
    )
    for model, version, stats in read.resilience:
        device.add_metric((model, version), stats.hedge_device_ns / _NS_PER_S)
    yield device
    tokens = GaugeMetricFamily(
        "headway_retry_budget", "Retries that the retry budget has left.", labels=labels
    )
    for model, version, stats in read.resilience:
        tokens.add_metric((model, version), stats.retry_tokens)
    yield tokens


class GatewayMetrics(Collector):
    """All of a gateway's metrics.

    Labels come from registered models, versions, reasons and states, all bounded; what a client
    chose and nobody registered is counted under "other".
    """

    def __init__(self, read_gauges: Callable[[], Gauges]) -> None:
        self._read_gauges = read_gauges
        self._pools: dict[tuple[str, str], PoolMetrics] = {}
        self.unmatched: dict[str, int] = {}
        self._refusals: dict[tuple[str, str, int, str], int] = {}

    def refused(self, model: str, version: str, priority: int, reason: str) -> None:
        """Admission refused a request of a registered model version; "" for none chosen yet."""
        key = (model or OTHER, version or OTHER, priority, reason)
        self._refusals[key] = self._refusals.get(key, 0) + 1

    def pool(self, model: str, version: str) -> PoolMetrics:
        """Counts of a registered model version; made once, kept by the caller."""
        return self._pools.setdefault((model, version), PoolMetrics())

    def refused_unmatched(self, reason: str) -> None:
        """A request was refused before it had a registered model version."""
        self.unmatched[reason] = self.unmatched.get(reason, 0) + 1

    def outcomes(self) -> dict[str, int]:
        """Requests ended, by outcome, over all models."""
        total = dict(self.unmatched)
        for pool in self._pools.values():
            for outcome, count in pool.outcomes.items():
                total[outcome] = total.get(outcome, 0) + count
        return total

    def collect(self) -> Iterable[Metric]:
        """All families, for prometheus-client."""
        yield from self._counters()
        yield from self._histograms()
        yield from self._gauges()

    def _counters(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "headway_requests", "Requests ended, by outcome (ok or the error reason).",
            labels=("model", "version", "outcome"),
        )  # fmt: skip
        batches = CounterMetricFamily(
            "headway_batches", "Batches dispatched, by the reason they closed.",
            labels=("model", "version", "reason"),
        )  # fmt: skip
        for (model, version), pool in self._pools.items():
            for outcome, count in pool.outcomes.items():
                requests.add_metric((model, version, outcome), count)
            for reason, count in pool.batch_reasons.items():
                batches.add_metric((model, version, reason), count)
        for reason, count in self.unmatched.items():
            requests.add_metric((OTHER, OTHER, reason), count)
        refusals = CounterMetricFamily(
            "headway_refusals", "Requests refused on arrival, by priority class and reason.",
            labels=("model", "version", "class", "reason"),
        )  # fmt: skip
        for (model, version, priority, reason), count in self._refusals.items():
            refusals.add_metric((model, version, CLASSES[priority - 1], reason), count)
        return requests, batches, refusals

    def _histograms(self) -> Iterable[Metric]:
        shapes = (
            ("latency", "headway_request_duration_seconds", "Arrival to answer."),
            ("queued", "headway_queue_duration_seconds", "Arrival to dispatch."),
            ("device", "headway_batch_device_seconds", "Device time of a batch."),
            ("batch_size", "headway_batch_requests", "Requests of a batch."),
            ("cost_ratio", "headway_batch_cost_ratio", "Actual over predicted device time."),
            ("first_token", "headway_first_token_seconds", "Arrival to an output's first part."),
            ("gap", "headway_token_gap_seconds", "Time between two parts of an output."),
        )
        return histograms(shapes, self._pools)

    def _gauges(self) -> Iterable[Metric]:
        read = self._read_gauges()
        requests = GaugeMetricFamily(
            "headway_queue_requests", "Requests queued.", labels=("model", "version")
        )
        units = GaugeMetricFamily(
            "headway_queue_units", "Work units queued.", labels=("model", "version")
        )
        for model, version, count, queued_units in read.queued:
            requests.add_metric((model, version), count)
            units.add_metric((model, version), queued_units)
        replicas = GaugeMetricFamily(
            "headway_replicas", "Replicas, by state.", labels=("model", "version", "state")
        )
        for model, version, state, count in read.replicas:
            replicas.add_metric((model, version, state), count)
        live = GaugeMetricFamily(
            "headway_inflight_requests", "Requests queued and executing.", value=read.live
        )
        generation = GaugeMetricFamily(
            "headway_config_generation", "Number of the live configuration.",
            value=read.config_generation,
        )  # fmt: skip
        yield from (requests, units, replicas, live, generation)
        yield from _stream_families(read)
        yield from _resilience_families(read)
        yield from _admission_families(read)
        yield from _control_families(read)
