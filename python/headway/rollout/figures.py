"""The figures of docs/adr/0040: what is simulated, and what came out of it.

Each case is a scenario, the policy it is judged by, and what an independent prototype of the same
method measured (minutes, requests of the canary), to compare with.
"""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from headway.rollout.policy import ClassicPolicy, SequentialPolicy, make_policy
from headway.rollout.simulation import Run, simulate
from headway.rollout.traffic import Behaviour, Outage, Scenario

_HALF_PERCENT = Behaviour(error_rate=0.005)
_WHOLE_BATCHES = Behaviour(error_rate=0.005, whole_batches=True)


@dataclass(frozen=True, slots=True)
class Case:
    """One row.

    Attributes:
      wanted: outcome that is right.
      weight: runs, as a part of those asked for.
      prototype: what the prototype measured.
      settings: laid over the preset.
      dwell_minutes: length of every step, for a fixed schedule.
    """

    text: str
    scenario: Scenario
    wanted: str
    prototype: str
    weight: float = 0.1
    preset: str = "default"
    settings: Mapping[str, Any] = field(default_factory=dict)
    dwell_minutes: float | None = None

    def policy(self) -> SequentialPolicy | ClassicPolicy:
        """The policy."""
        return make_policy(self.preset, self.settings)


CASES: Final[Mapping[str, Case]] = {
    "identical": Case(
        "identical versions", Scenario(), "promoted", "0/2000 rolled back; 42 min", weight=1.0
    ),
    "identical-classic": Case(
        "the same, classic windows, 10-min steps", Scenario(), "promoted", "92.2 % rolled back",
        weight=1.0, preset="classic", settings={"extend_sparse": False, "warmup_seconds": 0},
        dwell_minutes=10,
    ),
    "identical-classic-load": Case(
        "the same, waves of load alone", Scenario(wave_slows=False), "promoted",
        "92.2 % rolled back", weight=0.25, preset="classic",
        settings={"extend_sparse": False, "warmup_seconds": 0}, dwell_minutes=10,
    ),
    "identical-errors": Case(
        "identical, both with 0.5 % errors",
        Scenario(baseline=_HALF_PERCENT, canary=_HALF_PERCENT), "promoted",
        "0/500 rolled back; 46 min", weight=0.25,
    ),
    "identical-batches": Case(
        "identical, 0.5 % of batches fail as a whole",
        Scenario(baseline=_WHOLE_BATCHES, canary=_WHOLE_BATCHES), "promoted",
        "0/500 rolled back; 85 min, 10.6 % open", weight=0.25,
    ),
    "outage": Case(
        "identical, 3 min of a shared outage at 1 %",
        Scenario(outage=Outage(120, 300)), "promoted", "0/500 rolled back; 46 min", weight=0.25,
    ),
    "p95x1.1": Case(
        "p95 x1.1, within tolerance", Scenario(canary=Behaviour(latency_ratio=1.1)), "promoted",
        "0/300 rolled back; 73 % promoted, 27 % open",
    ),
    "dead": Case(
        "dead, failing one by one", Scenario(mean_batch=1, canary=Behaviour(error_rate=1)),
        "rolled_back", "4 requests, 0.1 min",
    ),
    "dead-batches": Case(
        "dead, in batches of 12", Scenario(canary=Behaviour(error_rate=1, whole_batches=True)),
        "rolled_back", "46 requests (4 batches), 1.4 min",
    ),
    "errors+3%": Case(
        "+3 % errors", Scenario(canary=Behaviour(error_rate=0.031)), "rolled_back",
        "330 requests, 9.4 min",
    ),
    "errors-0.5-1.5%": Case(
        "errors 0.5 % to 1.5 %",
        Scenario(baseline=_HALF_PERCENT, canary=Behaviour(error_rate=0.015)), "rolled_back",
        "7,450 requests, 29 min",
    ),
    "p95x1.4": Case(
        "p95 x1.4", Scenario(canary=Behaviour(latency_ratio=1.4)), "rolled_back",
        "6,200 requests, 31 min",
    ),
    "p99x3": Case(
        "p99 x3 (5 % of batches take 6.9 times as long)",
        Scenario(canary=Behaviour(stall_share=0.05, stall_ratio=6.9)), "rolled_back",
        "9,500 requests, 24 min (its mixture is not recorded)",
    ),
    "p99x3-load": Case(
        "the same, waves of load alone",
        Scenario(canary=Behaviour(stall_share=0.05, stall_ratio=6.9), wave_slows=False),
        "rolled_back", "9,500 requests, 24 min (its mixture is not recorded)",
    ),
    "capacity": Case(
        "saturated at 25 %", Scenario(saturates_at=0.25), "rolled_back", "98 % named capacity",
    ),
    "capacity-no-forecast": Case(
        "the same, forecast off", Scenario(saturates_at=0.25), "rolled_back",
        "95.5 % named capacity", settings={"capacity": {"forecast": False}},
    ),
    "late-dead": Case(
        "good, dead from minute 15 on",
        Scenario(changed=Behaviour(error_rate=1), changes_at_s=900), "rolled_back",
        "0.4 min after the change",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Figures:
    """What came out of one case.

    Attributes:
      outcomes: runs by outcome; `tests`: those not promoted, by what decided or held them.
      false_bound: upper 95 % bound of the share rolled back.
      minutes, p90_minutes, canary_requests: of runs with the wanted outcome.
    """

    case: str
    text: str
    num_runs: int
    outcomes: Mapping[str, int]
    tests: Mapping[str, int]
    rolled_back_ratio: float
    false_bound: float
    minutes: float | None
    p90_minutes: float | None
    canary_requests: float | None
    prototype: str


def measure(
    name: str,
    *,
    num_runs: int,
    seed: int,
    rate_per_s: float | None = None,
    mean_batch: float | None = None,
) -> Figures:
    """Simulates a case; `num_runs` is for a weight of 1.

    `rate_per_s`, `mean_batch`: in place of the case's own.
    """
    case = CASES[name]
    scenario = case.scenario
    if rate_per_s is not None:
        scenario = replace(scenario, rate_per_s=rate_per_s)
    if mean_batch is not None:
        scenario = replace(scenario, mean_batch=mean_batch)
    runs = simulate(
        case.policy(),
        scenario,
        num_runs=max(1, round(num_runs * case.weight)),
        seed=seed,
        dwell_minutes=case.dwell_minutes,
    )
    return summarise(name, case, runs)


def summarise(name: str, case: Case, runs: Sequence[Run]) -> Figures:
    """The figures of some runs."""
    outcomes = Counter(run.outcome for run in runs)
    tests = Counter(run.test for run in runs if run.outcome != "promoted")
    wanted = sorted(run.minutes for run in runs if run.outcome == case.wanted)
    requests = [run.canary_requests for run in runs if run.outcome == case.wanted]
    return Figures(
        case=name,
        text=case.text,
        num_runs=len(runs),
        outcomes=dict(outcomes),
        tests=dict(tests),
        rolled_back_ratio=outcomes["rolled_back"] / len(runs),
        false_bound=upper_bound(outcomes["rolled_back"], len(runs)),
        minutes=statistics.median(wanted) if wanted else None,
        p90_minutes=wanted[math.ceil(0.9 * len(wanted)) - 1] if wanted else None,
        canary_requests=statistics.median(requests) if requests else None,
        prototype=case.prototype,
    )


def upper_bound(events: int, trials: int) -> float:
    """Upper 95 % bound of a probability after `events` in `trials`, exact (Clopper, Pearson)."""
    if events >= trials:
        return 1.0
    low, high = events / trials, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(events, trials, middle) > 0.05 else (low, middle)
    return high


def _at_most(events: int, trials: int, probability: float) -> float:
    """Chance of at most `events` successes in `trials`."""
    if probability >= 1:
        return 0.0
    logs = [
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        + k * math.log(probability) + (trials - k) * math.log1p(-probability)
        for k in range(events + 1)
    ]  # fmt: skip
    largest = max(logs)
    return math.exp(largest) * sum(math.exp(log - largest) for log in logs)
