"""Judges rollouts tick by tick with the sequential tests: the state between two decisions."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from headway.rollout.decision import (
    Decision,
    Outcome,
    StepView,
    crossing,
    decide,
    on_crossing,
)
from headway.rollout.evidence import TESTS, Evidence, log_bounds
from headway.rollout.gate import GATE_LOG, Gates
from headway.rollout.grid import strict_shift
from headway.rollout.load import LoadMeter, busier
from headway.rollout.policy import SequentialPolicy, Step
from headway.rollout.rare import constant
from headway.rollout.rows import Mask, Real, Rows, Whole
from headway.rollout.tick import Tick


class SequentialJudge(Rows):
    """Evidence, gates and loads of `num_rows` rollouts under one policy.

    `step` is the index of each; -1 before the first `enter_step`.
    """

    def __init__(self, policy: SequentialPolicy, num_rows: int = 1) -> None:
        self._policy = policy
        self._bounds = log_bounds(policy.false_rollback_probability)
        self._shares = np.array([step.share for step in policy.steps])
        ratios = [rule.max_latency_ratio or policy.latency_tolerance for rule in policy.steps]
        self._gate_shifts = np.array([strict_shift(ratio) for ratio in ratios])
        self.evidence = Evidence(
            num_rows,
            num_steps=len(policy.steps),
            latency_tolerance=policy.latency_tolerance,
            error_tolerance=policy.error_tolerance,
            error_floor=policy.error_floor,
        )
        self.gates = Gates(num_rows)
        memory_s = 2 * policy.analysis_seconds
        self.baseline_load = LoadMeter(num_rows, memory_s)
        self.canary_load = LoadMeter(num_rows, memory_s)
        self.step: Whole = constant(num_rows, -1)
        self.elapsed_s: Real = np.zeros(num_rows)
        self.silent_s: Real = np.zeros(num_rows)
        self.requests: Real = np.zeros(num_rows)
        self.forecast_s: Real = np.zeros(num_rows)
        self.streak: Whole = constant(num_rows, 0)
        self.present: Mask = np.ones(num_rows, dtype=bool)
        # Of all rows at once, until the next change: thousands of rows are analysed one by one.
        self._read: dict[str, Real] = {}

    def enter_step(self, rows: Mask, step: int) -> None:
        """These rollouts are at `step` from here on."""
        self._read.clear()
        self.evidence.enter_step(rows, step)
        self.gates.enter_step(rows)
        self.baseline_load.enter_step(rows)
        self.canary_load.enter_step(rows)
        self.step[rows] = step
        for clock in (self.elapsed_s, self.requests, self.forecast_s):
            clock[rows] = 0
        self.silent_s[rows] = 0
        self.streak[rows] = 0

    def forget_latency(self, rows: Mask) -> None:
        """Drops what speaks against latency: it was for want of replicas."""
        self._read.clear()
        self.evidence.forget_latency(rows)

    def begin_block(self, rows: Mask) -> None:
        """An analysis interval is over."""
        self._read.clear()
        self.evidence.begin_block(rows)

    def score(self, tick: Tick, active: Mask | None = None) -> None:
        """One tick; rollouts that are not `active` have an empty one."""
        self._read.clear()
        active = np.ones(len(self.step), dtype=bool) if active is None else active
        self.elapsed_s[active] += tick.seconds
        served = tick.canary.requests > 0
        self.silent_s = np.where(served, 0.0, self.silent_s + tick.seconds)
        self.requests += tick.canary.requests
        self.present = tick.canary.replica_s > 0
        warm = active & (self.elapsed_s > self._policy.warmup_seconds)
        p95 = self.evidence.p95_payoff(tick)
        known = self.evidence.quantiles.known
        ranking = self.evidence.score(tick, self._shares[self.step], active, warm)
        compared = warm & (ranking.pairs > 0)
        self.gates.score(
            typical=ranking.payoff(self._gate_shifts[self.step]),
            typical_active=compared,
            p95=p95,
            p95_active=compared & known,
        )
        baseline = (tick.baseline.requests, tick.baseline.errors)
        self.gates.count(tick.canary.requests, tick.canary.errors, baseline)
        self.baseline_load.count(tick.baseline, tick.seconds)
        self.canary_load.count(tick.canary, tick.seconds)

    def crossed(self) -> Mask:
        """Rollouts in which some test refutes "within tolerance"."""
        logs = self._logs()
        found: Mask = np.logical_or.reduce([logs[t] >= bound for t, bound in self._bounds.items()])
        return found

    def roll_back(self, row: int) -> Decision:
        """Why a crossed rollout is to end, and how."""
        view = self.view(row)
        return on_crossing(crossing(view.logs, self._bounds), view, self._policy.capacity)

    def analyse(self, row: int) -> Decision:
        """The decision at the end of an analysis interval."""
        view = self.view(row)
        if crossing(view.logs, self._bounds):
            return self.roll_back(row)
        decision = decide(self._policy, self._rule(row), view)
        held = decision.outcome is Outcome.HOLD and decision.test == "capacity"
        since_s = view.held_by_forecast_s + self._policy.analysis_seconds
        self.forecast_s[row] = since_s if held else 0.0
        return self._with_streak(row, decision)

    def view(self, row: int) -> StepView:
        """What a decision is made from."""
        step = int(self.step[row])
        shares = [*self._shares, 1.0]
        read = self._logs()
        logs = {test: float(read[test][row]) for test in TESTS}
        policy = self._policy
        baseline, canary = busier(self.baseline_load, self.canary_load, row)
        tolerated = policy.error_tolerance * self.gates.baseline_rate(row)
        return StepView(
            step=step,
            share=float(shares[step]),
            next_share=float(shares[step + 1]),
            elapsed_s=float(self.elapsed_s[row]),
            requests=float(self.requests[row]),
            silent_s=float(self.silent_s[row]),
            present=bool(self.present[row]),
            logs=logs,
            error_bound=self.gates.error_bound(row),
            error_limit=max(policy.error_floor, tolerated),
            typical_met=bool(read["gate typical"][row] >= GATE_LOG),
            p95_met=bool(read["gate p95"][row] >= GATE_LOG),
            baseline=baseline,
            canary=canary,
            held_by_forecast_s=float(self.forecast_s[row]),
        )

    def bounds(self) -> Mapping[str, float]:
        """Logarithm of the e-value at which each test rolls back."""
        return self._bounds

    def keep(self, rows: Mask) -> None:
        """Drops all other rows."""
        super().keep(rows)
        self._read.clear()

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Takes back what `to_plain` gave."""
        super().restore(plain)
        self._read.clear()

    def _logs(self) -> Mapping[str, Real]:
        if not self._read:
            self._read.update(self.evidence.logs())
            self._read["gate typical"] = self.gates.typical.log_total()
            self._read["gate p95"] = self.gates.p95.log_total()
        return self._read

    def _rule(self, row: int) -> Step:
        return self._policy.steps[int(self.step[row])]

    def _with_streak(self, row: int, decision: Decision) -> Decision:
        if decision.outcome not in (Outcome.ADVANCE, Outcome.PROMOTE):
            self.streak[row] = 0
            return decision
        self.streak[row] += 1
        have, need = int(self.streak[row]), self._policy.healthy_streak
        if have >= need:
            return decision
        return Decision(Outcome.HOLD, "policy", f"healthy {have} of {need} analyses in a row")
