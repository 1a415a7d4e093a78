"""Runs many seeded rollouts through the judge that gateways run, faster than time.

``headway rollout simulate`` prints what docs/adr/0040 quotes.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from headway.rollout.decision import Decision, Outcome
from headway.rollout.judges import Judge, make_judge
from headway.rollout.policy import ClassicPolicy, SequentialPolicy
from headway.rollout.rows import Mask
from headway.rollout.traffic import Scenario, Traffic

OPEN: Final = "open"
"""Still undecided at the end: an operator would be asked."""


@dataclass(frozen=True, slots=True)
class Run:
    """How one simulated rollout ended.

    Attributes:
      outcome: promoted, rolled_back or open.
      test: what decided; for an open one, what held it last.
      minutes: time to its end.
      canary_requests: of the whole rollout.
    """

    outcome: str
    test: str
    minutes: float
    canary_requests: float


def tick_seconds(policy: SequentialPolicy | ClassicPolicy, rate_per_s: float) -> float:
    """Length of a tick at a rate, as gateways choose it."""
    return policy.tick_seconds * (SPARSE_TICKS if rate_per_s < SPARSE_RATE_PER_S else 1)


SPARSE_RATE_PER_S: Final = 20.0
SPARSE_TICKS: Final = 5


def simulate(
    policy: SequentialPolicy | ClassicPolicy,
    scenario: Scenario,
    *,
    num_runs: int,
    seed: int,
    max_minutes: float = 240.0,
    dwell_minutes: float | None = None,
) -> list[Run]:
    """Runs of one scenario, the same for the same seed. O(num_runs * ticks).

    `dwell_minutes`: every step takes exactly so long and is then left, whatever the gates say, so
    that policies are compared at the same number of looks.
    """
    return _Simulation(policy, scenario, num_runs, seed, dwell_minutes).run(max_minutes)


class _Simulation:
    def __init__(
        self,
        policy: SequentialPolicy | ClassicPolicy,
        scenario: Scenario,
        num_runs: int,
        seed: int,
        dwell_minutes: float | None,
    ) -> None:
        self._policy = policy
        self._dwell_s = None if dwell_minutes is None else 60 * dwell_minutes
        self._judge: Judge = make_judge(policy, num_runs)
        self._traffic = Traffic(scenario, num_runs, seed)
        self._shares = np.array([step.share for step in policy.steps])
        self._seconds = tick_seconds(policy, scenario.rate_per_s)
        self._run = np.arange(num_runs)
        self._requests = np.zeros(num_runs)
        self._now_s = 0.0
        self._ended: dict[int, Run] = {}
        self._last_test: dict[int, str] = {}
        self._judge.enter_step(np.ones(num_runs, dtype=bool), 0)

    def run(self, max_minutes: float) -> list[Run]:
        block_s = 0.0
        while len(self._run) and self._now_s < 60 * max_minutes:
            tick = self._traffic.tick(self._shares[self._judge.step], self._seconds)
            self._now_s += self._seconds
            self._requests += tick.canary.requests
            self._judge.score(tick)
            self._end(np.flatnonzero(self._judge.crossed()))
            block_s += self._seconds
            if block_s >= self._policy.analysis_seconds and len(self._run):
                block_s = 0.0
                self._judge.begin_block(np.ones(len(self._run), dtype=bool))
                self._analyse()
        for row in range(len(self._run)):
            self._note(row, OPEN, self._last_test.get(int(self._run[row]), "policy"))
        return [self._ended[run] for run in sorted(self._ended)]

    def _end(self, rows: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> None:
        for row in rows:
            self._note(int(row), "rolled_back", self._judge.roll_back(int(row)).test)
        if len(rows):
            kept = np.ones(len(self._run), dtype=bool)
            kept[rows] = False
            self._keep(kept)

    def _analyse(self) -> None:
        kept = np.ones(len(self._run), dtype=bool)
        forward: dict[int, list[int]] = {}
        for row in range(len(self._run)):
            decision = self._forced(row, self._judge.analyse(row))
            self._last_test[int(self._run[row])] = decision.test
            if decision.outcome is Outcome.ADVANCE:
                forward.setdefault(int(self._judge.step[row]) + 1, []).append(row)
            elif decision.outcome in (Outcome.PROMOTE, Outcome.ROLL_BACK, Outcome.STEP_BACK):
                promoted = decision.outcome is Outcome.PROMOTE
                outcome = "promoted" if promoted else "rolled_back"
                self._note(row, outcome, decision.test)
                kept[row] = False
        for step, rows in forward.items():
            mask = np.zeros(len(self._run), dtype=bool)
            mask[rows] = True
            self._judge.enter_step(mask, step)
        if not kept.all():
            self._keep(kept)

    def _forced(self, row: int, decision: Decision) -> Decision:
        """The decision of a fixed schedule, which only rolls back by itself."""
        if self._dwell_s is None or decision.outcome is Outcome.ROLL_BACK:
            return decision
        if self._judge.elapsed_s[row] < self._dwell_s:
            return Decision(Outcome.HOLD, "policy", "dwells")
        last = self._judge.step[row] + 1 == len(self._shares)
        return Decision(Outcome.PROMOTE if last else Outcome.ADVANCE, "policy", "dwelt")

    def _note(self, row: int, outcome: str, test: str) -> None:
        run = int(self._run[row])
        self._ended[run] = Run(outcome, test, self._now_s / 60, float(self._requests[row]))

    def _keep(self, rows: Mask) -> None:
        self._judge.keep(rows)
        self._traffic.keep(rows)
        self._run = self._run[rows]
        self._requests = self._requests[rows]
