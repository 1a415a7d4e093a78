"""The result of a run, as numbers for a table or for JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway._core import QuantileHistogram
from headway.loadtest.driver import LoadRun

PERCENTILES: Mapping[str, float] = {
    "p50": 0.5,
    "p90": 0.9,
    "p95": 0.95,
    "p99": 0.99,
    "p99.9": 0.999,
}
_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class DeadlineClassReport:
    """Requests of one deadline class."""

    deadline_ms: float
    offered: int
    in_time: int


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What a run measured, the warm-up left out.

    Attributes:
      seconds: length of the measured part.
      offered: requests that were due in it.
      dropped_by_client: of these, not sent, since the client could not keep up.
      ok: answered.
      in_time: answered within the deadline.
      goodput_ratio: in_time / offered; 0 if nothing was offered.
      throughput_per_s: ok / seconds.
      goodput_per_s: in_time / seconds.
      latency_ms: percentiles, mean and largest of answered requests, from the instant they were
        due; at most 1/64 too high.
      queued_ms: percentiles of the time that the gateway held them.
      device_ms: percentiles of the device time of their batches.
      mean_batch: mean number of requests in a batch.
      units_per_s: work units answered a second.
      hedged: answers for which a second copy was sent.
      repeated: answers that took more than one execution.
      errors: counts by reason.
      batch_reasons: why batches closed, counted by request.
      versions: answers by version.
      replicas: answers by replica.
      deadlines: each deadline class.
    """

    seconds: float
    offered: int
    dropped_by_client: int
    ok: int
    in_time: int
    goodput_ratio: float
    throughput_per_s: float
    goodput_per_s: float
    latency_ms: Mapping[str, float]
    queued_ms: Mapping[str, float]
    device_ms: Mapping[str, float]
    mean_batch: float
    units_per_s: float
    hedged: int
    repeated: int
    errors: Mapping[str, int]
    batch_reasons: Mapping[str, int]
    versions: Mapping[str, int]
    replicas: Mapping[str, int]
    deadlines: Sequence[DeadlineClassReport]


def report(run: LoadRun) -> LoadReport:
    """The figures of `run` so far."""
    tally = run.tally
    seconds = run.measured_ns / 1e9
    per_s = 1 / seconds if seconds else 0.0
    return LoadReport(
        seconds=seconds,
        offered=tally.offered,
        dropped_by_client=tally.dropped_by_client,
        ok=tally.ok,
        in_time=tally.in_time,
        goodput_ratio=tally.in_time / tally.offered if tally.offered else 0.0,
        throughput_per_s=tally.ok * per_s,
        goodput_per_s=tally.in_time * per_s,
        latency_ms=_milliseconds(tally.latency),
        queued_ms=_milliseconds(tally.queued),
        device_ms=_milliseconds(tally.device),
        mean_batch=tally.mean_batch,
        units_per_s=tally.units * per_s,
        hedged=tally.hedged,
        repeated=tally.repeated,
        errors=tally.errors.by_size(),
        batch_reasons=tally.batch_reasons.by_size(),
        versions=tally.versions.by_size(),
        replicas=tally.replicas.by_size(),
        deadlines=[
            DeadlineClassReport(one.deadline_ns / _NS_PER_MS, one.offered, one.in_time)
            for one in tally.classes
        ],
    )


def _milliseconds(histogram: QuantileHistogram) -> Mapping[str, float]:
    largest = histogram.max
    quantiles = {name: min(histogram.quantile(q), largest) for name, q in PERCENTILES.items()}
    figures = {**quantiles, "max": largest, "mean": histogram.mean}
    return {name: value / _NS_PER_MS for name, value in figures.items()}
