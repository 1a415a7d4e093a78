"""Simulated traffic for many rollouts at once: batches that share a latency, common load waves.

A tick's requests come in batches; a batch's members share one lognormal latency, and its failure
where whole batches fail. An AR(1) wave moves rate and latency of both arms alike.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from headway.rollout.grid import bins_of
from headway.rollout.rows import Mask, Real, Whole
from headway.rollout.tick import Arm, Tick

WAVE_MEMORY: Final = 0.99
"""Of the load wave, a second."""

_MEDIAN_NS: Final = 50e6
_SECONDS_PER_REQUEST: Final = 0.02


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a version is like.

    Attributes:
      error_rate: share of requests that fail.
      whole_batches: True if batches fail as a whole, at that rate.
      latency_ratio: factor on all latencies.
      stall_share, stall_ratio: share of batches that take so many times as long.
    """

    error_rate: float = 0.001
    whole_batches: bool = False
    latency_ratio: float = 1.0
    stall_share: float = 0.0
    stall_ratio: float = 1.0


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which both arms fail and are slow."""

    start_s: float
    end_s: float
    error_rate: float = 0.3
    latency_ratio: float = 1.65


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is simulated.

    Attributes:
      rate_per_s: mean requests a second.
      mean_batch: requests of a batch: 1 + Poisson(mean_batch - 1).
      sigma: of the lognormal latency.
      wave: standard deviation of the log-load wave.
      wave_slows: True if the wave moves latency with load; else it moves load alone.
      arm_noise: standard deviation of latency noise private to each arm (memory 5 min).
      changes_at_s: from here on the canary behaves as `changed`.
      saturates_at: share of traffic at which the canary's replicas are fully busy; 0: never.
      baseline_utilisation: share of device time the baseline uses.
    """

    rate_per_s: float = 50.0
    mean_batch: float = 12.0
    sigma: float = 0.6
    wave: float = 0.25
    wave_slows: bool = True
    arm_noise: float = 0.0
    baseline: Behaviour = field(default_factory=Behaviour)
    canary: Behaviour = field(default_factory=Behaviour)
    changed: Behaviour | None = None
    changes_at_s: float = math.inf
    outage: Outage | None = None
    saturates_at: float = 0.0
    baseline_utilisation: float = 0.5

    def canary_at(self, now_s: float) -> Behaviour:
        """The canary's behaviour at an instant."""
        return self.changed if self.changed and now_s >= self.changes_at_s else self.canary


class Traffic:
    """Draws ticks for `num_rows` rollouts of one scenario."""

    def __init__(self, scenario: Scenario, num_rows: int, seed: int) -> None:
        self._scenario = scenario
        self._rng = np.random.default_rng(seed)
        self._wave: Real = self._rng.normal(0, scenario.wave, num_rows)
        self._noise: Real = self._rng.normal(0, scenario.arm_noise, (2, num_rows))
        self._now_s = 0.0

    def keep(self, rows: Mask) -> None:
        """Drops all other rows."""
        self._wave = self._wave[rows]
        self._noise = self._noise[:, rows]

    def tick(self, share: Real, seconds: float) -> Tick:
        """The next tick; `share`: the canary's, for each row."""
        scenario = self._scenario
        self._move(seconds)
        load = np.exp(self._wave - scenario.wave**2 / 2)
        canary = scenario.canary_at(self._now_s)
        arms = []
        for arm, part, behaviour in ((0, 1 - share, scenario.baseline), (1, share, canary)):
            behaviour = self._under_outage(behaviour)
            felt = load if scenario.wave_slows else np.ones_like(load)
            utilisation = self._utilisation(arm, share, felt)
            slow = behaviour.latency_ratio * felt * np.exp(self._noise[arm])
            slow *= _queueing(utilisation) / _queueing(np.full(1, scenario.baseline_utilisation))
            rate = scenario.rate_per_s * part * load * seconds
            replica_s = np.full(len(rate), self._replicas(arm) * seconds)
            arms.append(self._arm(behaviour, rate, slow, replica_s))
        self._now_s += seconds
        return Tick(arms[0], arms[1], seconds)

    def _move(self, seconds: float) -> None:
        scenario, rng = self._scenario, self._rng
        self._wave = _walk(self._wave, WAVE_MEMORY**seconds, scenario.wave, rng)
        self._noise = _walk(self._noise, math.exp(-seconds / 300), scenario.arm_noise, rng)

    def _under_outage(self, behaviour: Behaviour) -> Behaviour:
        outage = self._scenario.outage
        if outage is None or not outage.start_s <= self._now_s < outage.end_s:
            return behaviour
        ratio = behaviour.latency_ratio * outage.latency_ratio
        return replace(behaviour, error_rate=outage.error_rate, latency_ratio=ratio)

    def _utilisation(self, arm: int, share: Real, load: Real) -> Real:
        """What latency depends on: common to both arms, unless the canary saturates."""
        scenario = self._scenario
        if arm == 1 and scenario.saturates_at > 0:
            return np.clip(share / scenario.saturates_at * load, 0, 0.98)
        return np.clip(scenario.baseline_utilisation * load, 0, 0.98)

    def _replicas(self, arm: int) -> float:
        """Replicas of a version (fractions allowed): enough for all traffic, or too few."""
        scenario = self._scenario
        work = scenario.rate_per_s * _SECONDS_PER_REQUEST
        if arm == 1 and scenario.saturates_at > 0:
            return work * scenario.saturates_at
        return work / scenario.baseline_utilisation

    def _arm(self, behaviour: Behaviour, rate: Real, slow: Real, replica_s: Real) -> Arm:
        scenario, rng, num_rows = self._scenario, self._rng, len(rate)
        num_batches = rng.poisson(rate / scenario.mean_batch)
        row: Whole = np.repeat(np.arange(num_rows), num_batches)
        size = 1 + rng.poisson(scenario.mean_batch - 1, len(row))
        latency = _MEDIAN_NS * np.exp(scenario.sigma * rng.standard_normal(len(row))) * slow[row]
        if behaviour.stall_share:
            stalled = rng.random(len(row)) < behaviour.stall_share
            latency = np.where(stalled, behaviour.stall_ratio * latency, latency)
        if behaviour.whole_batches:
            failed = size * (rng.random(len(row)) < behaviour.error_rate)
        else:
            failed = rng.binomial(size, behaviour.error_rate)
        requests = np.bincount(row, size, num_rows).astype(np.float64)
        # A saturated device is never busier than that, and its queue takes the rest.
        served = np.minimum(1.0, 0.98 * replica_s / np.maximum(_SECONDS_PER_REQUEST * rate, 1e-9))
        return Arm(
            requests=requests,
            errors=np.bincount(row, failed, num_rows).astype(np.float64),
            sheds=np.zeros(num_rows),
            busy_s=_SECONDS_PER_REQUEST * requests * served,
            replica_s=replica_s,
            row=row,
            index=bins_of(latency),
            weight=(size - failed).astype(float),
        )


def _walk(value: Real, memory: float, spread: float, rng: np.random.Generator) -> Real:
    if spread == 0:
        return value
    step = math.sqrt(1 - memory * memory) * spread
    return memory * value + step * rng.standard_normal(value.shape)


def _queueing(utilisation: Real) -> Real:
    """Latency relative to that of an idle device: M/D/1's, 1 + u / (2 (1 - u))."""
    return 1 + utilisation / (2 * (1 - utilisation))
