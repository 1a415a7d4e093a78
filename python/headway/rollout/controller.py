"""One rollout: ticks in, verdicts out. Pure; whoever drives it stores and applies what it says."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from headway.rollout import machine
from headway.rollout.classic import ClassicJudge
from headway.rollout.counts import TickCounts
from headway.rollout.decision import Decision, Outcome, StepView
from headway.rollout.judge import SequentialJudge
from headway.rollout.judges import Judge, make_judge
from headway.rollout.machine import SHADOW_STEP
from headway.rollout.policy import (
    ClassicPolicy,
    SequentialPolicy,
    ShadowPolicy,
    Step,
    parse_policy,
)
from headway.rollout.rows import Mask
from headway.rollout.simulation import SPARSE_RATE_PER_S, SPARSE_TICKS
from headway.rollout.tally import ArmTally
from headway.rollout.tick import Tick
from headway.store.records import RolloutRecord, VerdictRecord

SHADOW_BUDGET: Final = 0.2
"""Part of the chance of a false rollback that a shadow step takes."""

_ALL: Mask = np.ones(1, dtype=bool)
_LARGEST_LOG: Final = 600.0


class Controller:
    """Drives one rollout from where its record stands.

    Attributes:
      record: as it should be stored.
    """

    def __init__(self, record: RolloutRecord, state: Mapping[str, Any] | None = None) -> None:
        """`state`: what `to_plain` gave before a restart.

        Raises:
          ValueError: the record's policy or the state is malformed.
        """
        self.record = record
        self.policy = parse_policy(record.policy)
        main, shadow = _split_budget(self.policy)
        self._main: Judge = make_judge(main)
        self._shadow: Judge | None = None if shadow is None else SequentialJudge(shadow)
        self._baseline, self._canary = ArmTally(), ArmTally()
        self._waiting = TickCounts()
        self._waiting_s = 0.0
        self._block_s = 0.0
        self._rate_per_s = 0.0
        self._total_s = 0.0
        self._sequence = 0
        self._enter(record.step)
        if state is not None:
            self._restore(state)

    @property
    def judge(self) -> Judge:
        """The judge of the current step."""
        in_shadow = self.record.step == SHADOW_STEP and self._shadow is not None
        return self._shadow if in_shadow and self._shadow is not None else self._main

    @property
    def next_analysis_s(self) -> float:
        """Time to the next analysis."""
        return max(0.0, self.policy.analysis_seconds - self._block_s)

    def adopt(self, stored: RolloutRecord) -> None:
        """Takes over what an operator, or another controller before, has stored."""
        moved = stored.step != self.record.step
        self.record = stored
        if moved and machine.is_active(stored):
            self._enter(stored.step)

    def on_tick(self, counts: TickCounts, seconds: float, at_ns: int) -> list[VerdictRecord]:
        """One tick. Returns its verdicts; `record` is as after them.

        Args:
          seconds: length of the tick, > 0.
          at_ns: Unix time, for people.
        """
        if not machine.is_active(self.record):
            return []
        self._total_s += seconds
        self._waiting.add(counts)
        self._waiting_s += seconds
        if counts.dead:
            self._baseline.add(self._waiting.baseline)
            self._canary.add(self._waiting.canary)
            return [self._act(Decision(Outcome.ROLL_BACK, "dead", counts.dead), at_ns)]
        sparse = self._rate_per_s < SPARSE_RATE_PER_S
        least_s = self.policy.tick_seconds * (SPARSE_TICKS if sparse else 1)
        if self._waiting_s + 1e-9 < min(least_s, self.policy.analysis_seconds):
            return []
        return self._score(at_ns)

    def view(self) -> StepView:
        """The rollout as of now."""
        return self.judge.view(0)

    def streaks(self) -> tuple[int, int]:
        """Analyses in a row that were for going on, and against it."""
        judge = self.judge
        if isinstance(judge, ClassicJudge):
            return int(judge.healthy[0]), int(judge.unhealthy[0])
        return (int(judge.streak[0]), 0) if isinstance(judge, SequentialJudge) else (0, 0)

    def continue_after(self, sequence: int) -> None:
        """Numbers verdicts after `sequence`, if those it knows of are older."""
        self._sequence = max(self._sequence, sequence)

    def arms(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is known of baseline and canary in this step."""
        record, view, share = self.record, self.view(), self.record.canary_share
        return (
            self._baseline.evidence(record.baseline_version, 1 - share, view.baseline),
            self._canary.evidence(record.canary_version, share, view.canary),
        )

    def to_plain(self) -> dict[str, Any]:
        """The state behind the record, as JSON has it."""
        return {
            "step": self.record.step,
            "main": self._main.to_plain(),
            "shadow": None if self._shadow is None else self._shadow.to_plain(),
            "baseline": self._baseline.to_plain(),
            "canary": self._canary.to_plain(),
            "block_s": self._block_s,
            "rate_per_s": self._rate_per_s,
            "total_s": self._total_s,
            "sequence": self._sequence,
        }

    # -- inside

    def _score(self, at_ns: int) -> list[VerdictRecord]:
        counts, seconds = self._waiting, self._waiting_s
        self._waiting, self._waiting_s = TickCounts(), 0.0
        self._baseline.add(counts.baseline)
        self._canary.add(counts.canary)
        judge = self.judge
        judge.score(Tick.of(counts, seconds))
        requests = counts.baseline.requests + counts.canary.requests
        memory = math.exp(-seconds / max(seconds, self.policy.analysis_seconds))
        self._rate_per_s = memory * self._rate_per_s + (1 - memory) * requests / seconds
        self._block_s += seconds
        if judge.crossed()[0]:
            return [self._act(judge.roll_back(0), at_ns)]
        if self._block_s + 1e-9 < self.policy.analysis_seconds:
            return []
        self._block_s = 0.0
        judge.begin_block(_ALL)
        return [self._act(self._analyse(), at_ns)]

    def _analyse(self) -> Decision:
        policy = self.policy
        if policy.max_seconds is not None and self._total_s >= policy.max_seconds:
            outcome = Outcome.ROLL_BACK if policy.on_max_seconds == "roll_back" else Outcome.PAUSE
            return Decision(outcome, "policy", f"max_seconds ({policy.max_seconds:g}) are over")
        in_shadow = self.judge is self._shadow
        decision = self._analyse_shadow() if in_shadow else self._main.analyse(0)
        onward = decision.outcome in (Outcome.ADVANCE, Outcome.PROMOTE)
        if self.record.phase == machine.PAUSED and onward:
            return Decision(Outcome.HOLD, "operator", f"paused; it would go on: {decision.reason}")
        return decision

    def _analyse_shadow(self) -> Decision:
        decision = self.judge.analyse(0)
        if decision.outcome is not Outcome.PROMOTE:
            return decision
        return Decision(Outcome.ADVANCE, decision.test, f"shadow: {decision.reason}")

    def _act(self, decision: Decision, at_ns: int) -> VerdictRecord:
        if decision.outcome is Outcome.STEP_BACK and self.record.step <= 0:
            decision = dataclasses.replace(decision, outcome=Outcome.ROLL_BACK)
        verdict = self._verdict(decision, at_ns)
        record, step = self.record, self.record.step
        if decision.outcome is Outcome.ADVANCE:
            self._go_to(step + 1, decision.reason)
        elif decision.outcome is Outcome.PROMOTE:
            self.record = machine.ended(record, machine.PROMOTED, decision.reason, at_ns)
        elif decision.outcome is Outcome.ROLL_BACK:
            why = f"{decision.test}: {decision.reason}"
            self.record = machine.ended(record, machine.ROLLED_BACK, why, at_ns)
        elif decision.outcome is Outcome.STEP_BACK:
            self.judge.forget_latency(_ALL)
            self._go_to(step - 1, f"{decision.test}: {decision.reason}")
            self.record = dataclasses.replace(self.record, phase=machine.PAUSED)
        elif decision.outcome is Outcome.PAUSE:
            self.record = dataclasses.replace(record, phase=machine.PAUSED, reason=decision.reason)
        return verdict

    def _go_to(self, step: int, reason: str) -> None:
        share = self.policy.steps[step].share
        self.record = machine.at_step(self.record, step, share, reason)
        self._enter(step)

    def _enter(self, step: int) -> None:
        self._baseline, self._canary = ArmTally(), ArmTally()
        self.judge.enter_step(_ALL, max(0, step))
        self._block_s = 0.0

    def _verdict(self, decision: Decision, at_ns: int) -> VerdictRecord:
        self._sequence += 1
        baseline, canary = self.arms()
        return VerdictRecord(
            rollout_id=self.record.rollout_id,
            sequence=self._sequence,
            decided_at_ns=at_ns,
            decision=decision.outcome.value,
            test=decision.test,
            reason=decision.reason,
            baseline=baseline,
            canary=canary | {"step": self.record.step},
            evidence=evidence_of(self.view().logs),
        )

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._sequence = int(state["sequence"])
        self._total_s = float(state["total_s"])
        self._main.restore(state["main"])
        if self._shadow is not None:
            self._shadow.restore(state["shadow"] or {})
        if state["step"] != self.record.step:
            # It was stored before the last step was; the evidence holds, the step is new.
            self._enter(self.record.step)
            return
        self._baseline.restore(state["baseline"])
        self._canary.restore(state["canary"])
        self._block_s = float(state["block_s"])
        self._rate_per_s = float(state["rate_per_s"])


def first_share(policy: SequentialPolicy | ClassicPolicy) -> tuple[int, float]:
    """Step and share with which a rollout begins."""
    return (0, policy.steps[0].share) if policy.shadow is None else (SHADOW_STEP, 0.0)


def _split_budget(
    policy: SequentialPolicy | ClassicPolicy,
) -> tuple[SequentialPolicy | ClassicPolicy, SequentialPolicy | None]:
    """Policies of the steps and of the shadow step, which share the chance of a false rollback."""
    shadow = policy.shadow
    if shadow is None:
        return policy, None
    if isinstance(policy, ClassicPolicy):
        return policy, _shadow_policy(policy, shadow, SHADOW_BUDGET * 0.01)
    whole = policy.false_rollback_probability
    main = policy.model_copy(update={"false_rollback_probability": (1 - SHADOW_BUDGET) * whole})
    return main, _shadow_policy(policy, shadow, SHADOW_BUDGET * whole)


def _shadow_policy(
    policy: SequentialPolicy | ClassicPolicy, shadow: ShadowPolicy, probability: float
) -> SequentialPolicy:
    step = Step(
        share=min(shadow.share, 0.99),
        min_seconds=shadow.min_seconds,
        min_requests=shadow.min_requests,
        max_error_rate=shadow.max_error_rate,
        max_latency_ratio=shadow.max_latency_ratio,
        max_seconds=max(shadow.max_seconds, shadow.min_seconds),
        on_inconclusive="advance_if_clean",
    )
    return SequentialPolicy(
        steps=(step,),
        analysis_seconds=policy.analysis_seconds,
        tick_seconds=policy.tick_seconds,
        warmup_seconds=policy.warmup_seconds,
        no_data=policy.no_data,
        no_data_seconds=policy.no_data_seconds,
        latency_tolerance=policy.latency_tolerance,
        error_tolerance=policy.error_tolerance,
        error_floor=policy.error_floor,
        # Behind the shadow step there is a small share, not all traffic.
        capacity=policy.capacity.model_copy(update={"forecast": False}),
        false_rollback_probability=probability,
    )


def evidence_of(logs: Mapping[str, float]) -> dict[str, float]:
    """E-values from their logarithms; those beyond e^600 are cut there."""
    return {test: math.exp(min(log, _LARGEST_LOG)) for test, log in logs.items()}
