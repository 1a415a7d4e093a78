"""What an analysis decides. Pure: from a view of one rollout to a decision with its reason."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from headway.rollout.gate import CLEAN_LOG
from headway.rollout.policy import CapacityPolicy, ClassicPolicy, SequentialPolicy, Step


class Outcome(StrEnum):
    """What to do."""

    HOLD = "hold"
    ADVANCE = "advance"
    PROMOTE = "promote"
    ROLL_BACK = "roll_back"
    STEP_BACK = "step_back"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, the test that decided, and why, in words."""

    outcome: Outcome
    test: str
    reason: str


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a version is.

    Attributes:
      utilisation: share of its replicas' device time in use, in [0, 1].
      busy_s_per_request: device time of a request; 0 if not known.
      replicas: ready ones, on average.
      requests_per_s: ended requests.
    """

    utilisation: float = 0.0
    busy_s_per_request: float = 0.0
    replicas: float = 0.0
    requests_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class StepView:
    """One rollout at the moment of an analysis.

    Attributes:
      step: index; `share`: of the canary; `next_share`: of the step behind it.
      elapsed_s: time in this step; `silent_s`: time since the canary's last request.
      requests: the canary's in this step.
      logs: logarithm of each test's e-value.
      error_bound: upper 99 % bound of the canary's error rate; `error_limit`: the tolerated rate.
      typical_met, p95_met: gates on latency.
      held_by_forecast_s: time for which the forecast has held this step.
      present: whether the canary has a replica that takes work.
    """

    step: int
    share: float
    next_share: float
    elapsed_s: float
    requests: float
    silent_s: float
    logs: Mapping[str, float]
    error_bound: float
    error_limit: float
    typical_met: bool
    p95_met: bool
    baseline: Load = field(default_factory=Load)
    canary: Load = field(default_factory=Load)
    held_by_forecast_s: float = 0.0
    present: bool = True


def crossing(logs: Mapping[str, float], bounds: Mapping[str, float]) -> str:
    """The test that refutes "within tolerance"; "" if none does."""
    return next((test for test, log in logs.items() if log >= bounds[test]), "")


def on_crossing(test: str, view: StepView, policy: CapacityPolicy) -> Decision:
    """Roll back, and whether the version or its number of replicas is to blame."""
    if test != "errors" and _short_of_replicas(view, policy):
        return capacity_decision(policy, _saturated(view))
    evidence = f"e-value {_times(view.logs[test])}"
    return Decision(Outcome.ROLL_BACK, test, f"{_CLAIMS[test]} ({evidence})")


_CLAIMS = {
    "errors": "the canary's error rate is beyond tolerance",
    "rank": "the canary's typical latency is beyond tolerance",
    "p95": "more of the canary's requests are slow than p95 allows, beyond tolerance",
    "stalls": "the canary stalls: its slowest requests are beyond twice the baseline's p99",
    "sheds": "the canary refuses requests for want of capacity",
}


def _short_of_replicas(view: StepView, policy: CapacityPolicy) -> bool:
    base, canary = view.baseline, view.canary
    dearer = canary.busy_s_per_request > policy.cost_tolerance * base.busy_s_per_request > 0
    return (
        canary.utilisation >= policy.named_utilisation
        and canary.utilisation - base.utilisation >= policy.least_excess
        and not dearer
    )


def _saturated(view: StepView) -> str:
    return (
        f"the canary is short of replicas, not slow: {view.canary.utilisation:.0%} of the time of "
        f"its {view.canary.replicas:.3g} replicas is in use, the baseline's "
        f"{view.baseline.utilisation:.0%}; a request takes it "
        f"{1e3 * view.canary.busy_s_per_request:.3g} ms of device time, the baseline "
        f"{1e3 * view.baseline.busy_s_per_request:.3g} ms; add replicas and start again"
    )


def capacity_decision(policy: CapacityPolicy, reason: str) -> Decision:
    """What a shortage of replicas leads to."""
    outcome = Outcome.ROLL_BACK if policy.on_capacity == "roll_back" else Outcome.STEP_BACK
    return Decision(outcome, "capacity", reason)


def decide(policy: SequentialPolicy, rule: Step, view: StepView) -> Decision:
    """The decision of one analysis, where no test has crossed its bound."""
    if view.requests <= 0 or not view.present:
        return no_data(policy, view)
    suspicious = max(view.logs, key=lambda test: view.logs[test])
    clean = view.logs[suspicious] <= CLEAN_LOG
    waiting = _waiting_for(rule, view)
    if waiting:
        return Decision(Outcome.HOLD, "policy", waiting)
    if not clean:
        found = _times(view.logs[suspicious])
        unclean = f"{suspicious} is suspicious (e-value {found}, above 5)"
        return _after_max(rule, view, clean, unclean)
    if policy.capacity.forecast and (shortage := _forecast(policy.capacity, view)):
        patience = policy.capacity.forecast_patience_seconds
        if patience is not None and view.held_by_forecast_s >= patience:
            return capacity_decision(policy.capacity, shortage)
        return Decision(Outcome.HOLD, "capacity", shortage)
    missing = [] if rule.confirms_only else _missing(rule, view)
    if missing:
        return _after_max(rule, view, clean, "; ".join(missing))
    return _onward(view, "evidence", "every gate is met")


def no_data(policy: SequentialPolicy | ClassicPolicy, view: StepView) -> Decision:
    """What silence leads to: never onward."""
    if policy.no_data == "roll_back" and view.silent_s >= policy.no_data_seconds:
        return Decision(
            Outcome.ROLL_BACK, "policy", f"the canary had no request for {view.silent_s:.0f} s"
        )
    if not view.present:
        return Decision(Outcome.HOLD, "no_data", "the canary has no replica that takes work")
    return Decision(Outcome.HOLD, "no_data", "the canary has had no request in this step")


def _waiting_for(rule: Step, view: StepView) -> str:
    if view.elapsed_s < rule.min_seconds:
        return f"{rule.min_seconds - view.elapsed_s:.3g} s short of the step's least time"
    if view.requests < rule.min_requests:
        return f"{view.requests:.0f} of at least {rule.min_requests} requests"
    return ""


def _missing(rule: Step, view: StepView) -> list[str]:
    missing = []
    limit = view.error_limit if rule.max_error_rate is None else rule.max_error_rate
    if view.error_bound > limit:
        missing.append(f"the error rate may be up to {view.error_bound:.2%}, above {limit:.2%}")
    if not view.typical_met:
        missing.append("typical latency is not shown to be within tolerance")
    if rule.needs_p95 and not view.p95_met:
        missing.append("p95 is not shown to be within tolerance")
    return missing


def _after_max(rule: Step, view: StepView, clean: bool, what: str) -> Decision:
    if view.elapsed_s < rule.max_seconds:
        return Decision(Outcome.HOLD, "evidence", what)
    if rule.on_inconclusive == "roll_back":
        return Decision(Outcome.ROLL_BACK, "policy", f"inconclusive at max_seconds: {what}")
    if rule.on_inconclusive == "advance_if_clean" and clean:
        return _onward(view, "policy", f"inconclusive at max_seconds, nothing against it: {what}")
    return Decision(
        Outcome.HOLD, "policy", f"inconclusive at max_seconds, an operator decides: {what}"
    )


def _onward(view: StepView, test: str, why: str) -> Decision:
    outcome = Outcome.PROMOTE if view.next_share >= 1 else Outcome.ADVANCE
    return Decision(outcome, test, why)


def _forecast(policy: CapacityPolicy, view: StepView) -> str:
    """Why the next share would saturate the canary's replicas; "" if it would not.

    Batches grow with load, and a request in a large batch takes less device time: the forecast
    takes the baseline's time of a request, within tolerance, where it is the shorter.
    """
    base, canary = view.baseline, view.canary
    if canary.replicas <= 0 or canary.busy_s_per_request <= 0:
        return ""
    cost = canary.busy_s_per_request
    if base.busy_s_per_request > 0:
        cost = min(cost, policy.cost_tolerance * base.busy_s_per_request)
    rate = view.next_share * (base.requests_per_s + canary.requests_per_s)
    utilisation = rate * cost / canary.replicas
    if utilisation <= policy.high_utilisation:
        return ""
    return (
        f"capacity forecast: at {view.next_share:.0%} of the traffic the canary's "
        f"{canary.replicas:.3g} replicas would be {utilisation:.0%} busy, above "
        f"{policy.high_utilisation:.0%}; add replicas"
    )


def _times(log: float) -> str:
    return f"{math.exp(log):.3g}" if log < 600 else "beyond 1e260"
