"""The classic window policy: raw p95 and error rate of each window, with streaks.

Kept for comparison. Identical versions fail it in most rollouts: a p95 of a hundred requests in
batches wanders beyond 1.2 often, and every look is another chance to.
"""

from collections.abc import Mapping

import numpy as np

from headway.rollout.decision import Decision, Outcome, StepView, no_data
from headway.rollout.grid import NUM_BINS, RATIO, quantile_bin
from headway.rollout.load import LoadMeter
from headway.rollout.policy import ClassicPolicy
from headway.rollout.rare import constant
from headway.rollout.rows import Mask, Real, Rows, Whole
from headway.rollout.tick import Tick


class ClassicJudge(Rows):
    """Windows and streaks of `num_rows` rollouts; the same surface as `SequentialJudge`."""

    def __init__(self, policy: ClassicPolicy, num_rows: int = 1) -> None:
        self._policy = policy
        self._shares = [step.share for step in policy.steps] + [1.0]
        self.baseline: Real = np.zeros((num_rows, NUM_BINS))
        self.canary: Real = np.zeros((num_rows, NUM_BINS))
        # Requests and errors of the window: baseline's, then the canary's.
        self.counts: Real = np.zeros((num_rows, 4))
        memory_s = 2 * policy.analysis_seconds
        self.baseline_load = LoadMeter(num_rows, memory_s)
        self.canary_load = LoadMeter(num_rows, memory_s)
        self.step: Whole = constant(num_rows, -1)
        self.healthy: Whole = constant(num_rows, 0)
        self.unhealthy: Whole = constant(num_rows, 0)
        self.elapsed_s: Real = np.zeros(num_rows)
        self.silent_s: Real = np.zeros(num_rows)
        self.requests: Real = np.zeros(num_rows)
        self.present: Mask = np.ones(num_rows, dtype=bool)

    def enter_step(self, rows: Mask, step: int) -> None:
        """These rollouts are at `step` from here on; streaks begin anew."""
        self._clear(rows)
        self.step[rows] = step
        for counter in (self.elapsed_s, self.requests, self.healthy, self.unhealthy):
            counter[rows] = 0
        self.baseline_load.enter_step(rows)
        self.canary_load.enter_step(rows)

    def forget_latency(self, rows: Mask) -> None:
        """Begins its window anew."""
        self._clear(rows)

    def begin_block(self, rows: Mask) -> None:
        """Nothing: windows end in `analyse`."""

    def score(self, tick: Tick, active: Mask | None = None) -> None:
        """One tick."""
        self.elapsed_s += tick.seconds
        served = tick.canary.requests > 0
        self.silent_s = np.where(served, 0.0, self.silent_s + tick.seconds)
        self.requests += tick.canary.requests
        self.present = tick.canary.replica_s > 0
        self.baseline_load.count(tick.baseline, tick.seconds)
        self.canary_load.count(tick.canary, tick.seconds)
        warm = self.elapsed_s > self._policy.warmup_seconds
        for arm, window, at in ((tick.baseline, self.baseline, 0), (tick.canary, self.canary, 2)):
            np.add.at(window, (arm.row, arm.index), arm.weight * warm[arm.row])
            self.counts[:, at] += arm.requests * warm
            self.counts[:, at + 1] += arm.errors * warm

    def crossed(self) -> Mask:
        """Never between analyses: this policy judges windows."""
        return np.zeros(len(self.step), dtype=bool)

    def roll_back(self, row: int) -> Decision:
        """As `analyse`."""
        return self.analyse(row)

    def analyse(self, row: int) -> Decision:
        """Closes the window of one rollout and decides."""
        policy, view = self._policy, self.view(row)
        if view.requests <= 0 or not view.present:
            return no_data(policy, view)
        requests = self.counts[row, 2]
        if requests < policy.min_window_requests:
            if not policy.extend_sparse:
                self._clear(_only(row, len(self.step)))
            needed = policy.min_window_requests
            why = f"sparse window: {requests:.0f} of {needed} requests; no streak changes"
            return Decision(Outcome.HOLD, "policy", why)
        test, why = self._judge_window(row)
        self._clear(_only(row, len(self.step)))
        return self._unhealthy(row, test, why) if test else self._healthy(row, view)

    def view(self, row: int) -> StepView:
        """What there is to see of one rollout."""
        step = int(self.step[row])
        return StepView(
            step=step,
            share=self._shares[step],
            next_share=self._shares[step + 1],
            elapsed_s=float(self.elapsed_s[row]),
            requests=float(self.requests[row]),
            silent_s=float(self.silent_s[row]),
            present=bool(self.present[row]),
            logs={},
            error_bound=1.0,
            error_limit=self._error_limit(row),
            typical_met=False,
            p95_met=False,
            baseline=self.baseline_load.read(row),
            canary=self.canary_load.read(row),
        )

    def bounds(self) -> Mapping[str, float]:
        """None: there are no e-values."""
        return {}

    def _judge_window(self, row: int) -> tuple[str, str]:
        policy = self._policy
        rate = self.counts[row, 3] / self.counts[row, 2]
        limit = self._error_limit(row)
        if rate > limit:
            return "errors", f"errors {rate:.2%}, above {limit:.2%}"
        slow, usual = quantile_bin(self.canary[row], 0.95), quantile_bin(self.baseline[row], 0.95)
        ratio = RATIO ** (slow - usual)
        if min(slow, usual) >= 0 and ratio > policy.latency_tolerance * (1 + 1e-9):
            return "p95", f"p95 is {ratio:.2f} times the baseline's"
        return "", ""

    def _error_limit(self, row: int) -> float:
        rate = self.counts[row, 1] / max(1.0, self.counts[row, 0])
        return max(self._policy.error_floor, self._policy.error_tolerance * float(rate))

    def _unhealthy(self, row: int, test: str, why: str) -> Decision:
        self.healthy[row] = 0
        self.unhealthy[row] += 1
        have, need = int(self.unhealthy[row]), self._policy.unhealthy_streak
        outcome = Outcome.ROLL_BACK if have >= need else Outcome.HOLD
        return Decision(outcome, test, f"{why}; {have} of {need} unhealthy windows in a row")

    def _healthy(self, row: int, view: StepView) -> Decision:
        self.unhealthy[row] = 0
        self.healthy[row] += 1
        rule = self._policy.steps[view.step]
        have, need = int(self.healthy[row]), self._policy.healthy_streak
        met = view.elapsed_s >= rule.min_seconds and view.requests >= rule.min_requests
        if have < need or not met:
            return Decision(Outcome.HOLD, "policy", f"{have} of {need} healthy windows in a row")
        outcome = Outcome.PROMOTE if view.next_share >= 1 else Outcome.ADVANCE
        return Decision(outcome, "policy", f"{have} healthy windows in a row")

    def _clear(self, rows: Mask) -> None:
        self.baseline[rows] = 0
        self.canary[rows] = 0
        self.counts[rows] = 0


def _only(row: int, num_rows: int) -> Mask:
    mask = np.zeros(num_rows, dtype=bool)
    mask[row] = True
    return mask
