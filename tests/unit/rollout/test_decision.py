"""Decisions, from views made by hand."""

import dataclasses
import math
from typing import Any

import pytest

from headway.rollout.decision import Load, Outcome, StepView, crossing, decide, on_crossing
from headway.rollout.evidence import log_bounds
from headway.rollout.gate import design_effect, error_interval
from headway.rollout.policy import SequentialPolicy, make_policy

GOOD = StepView(
    step=2,
    share=0.25,
    next_share=0.5,
    elapsed_s=400,
    requests=5000,
    silent_s=0,
    logs={"errors": -1.0, "rank": -2.0, "p95": -1.0, "stalls": 0.5, "sheds": -1.0},
    error_bound=0.002,
    error_limit=0.005,
    typical_met=True,
    p95_met=True,
)


def policy(**settings: Any) -> SequentialPolicy:
    made = make_policy("default", settings)
    assert isinstance(made, SequentialPolicy)
    return made


@pytest.mark.parametrize(
    ("name", "changes", "settings", "outcome", "test", "said"),
    [
        ("all met", {}, {}, "advance", "evidence", "every gate is met"),
        ("last step", {"step": 4, "next_share": 1, "elapsed_s": 900}, {}, "promote", "evidence",
         "every gate is met"),
        ("too early", {"elapsed_s": 290}, {}, "hold", "policy",
         "10 s short of the step's least time"),
        ("too few", {"requests": 150}, {}, "hold", "policy", "150 of at least 200 requests"),
        ("suspicious", {"logs": {**GOOD.logs, "rank": math.log(6)}}, {}, "hold", "evidence",
         "rank is suspicious (e-value 6, above 5)"),
        ("errors", {"error_bound": 0.03}, {}, "hold", "evidence",
         "the error rate may be up to 3.00%, above 0.50%"),
        ("latency", {"typical_met": False}, {}, "hold", "evidence",
         "typical latency is not shown to be within tolerance"),
        ("p95 is asked for at 50 % only", {"p95_met": False}, {}, "advance", "evidence",
         "every gate is met"),
        ("p95", {"step": 3, "p95_met": False}, {}, "hold", "evidence",
         "p95 is not shown to be within tolerance"),
        ("inconclusive early: go on", {"step": 0, "typical_met": False, "elapsed_s": 600}, {},
         "advance", "policy", "inconclusive at max_seconds, nothing against it"),
        ("inconclusive, suspicious", {"step": 0, "elapsed_s": 600,
         "logs": {**GOOD.logs, "errors": 3.0}}, {}, "hold", "policy", "an operator decides"),
        ("inconclusive late: ask", {"typical_met": False, "elapsed_s": 3600}, {}, "hold",
         "policy", "inconclusive at max_seconds, an operator decides"),
        ("silence", {"requests": 0, "silent_s": 5000}, {}, "hold", "no_data",
         "the canary has had no request in this step"),
        ("silence, by policy", {"requests": 0, "silent_s": 900}, {"no_data": "roll_back"},
         "roll_back", "policy", "the canary had no request for 900 s"),
    ],
)  # fmt: skip
def test_an_analysis_decides(
    name: str, changes: dict[str, Any], settings: dict[str, Any], outcome: str, test: str, said: str
) -> None:
    rules, view = policy(**settings), dataclasses.replace(GOOD, **changes)
    decision = decide(rules, rules.steps[view.step], view)
    assert (decision.outcome, decision.test) == (outcome, test), name
    assert said in decision.reason


BUSY = Load(utilisation=0.97, busy_s_per_request=0.02, replicas=1, requests_per_s=48)
IDLE = Load(utilisation=0.4, busy_s_per_request=0.02, replicas=3, requests_per_s=60)


@pytest.mark.parametrize(
    ("name", "canary", "test", "named", "said"),
    [
        ("saturated", BUSY, "p95", "capacity", "97% of the time of its 1 replicas is in use, the "
         "baseline's 40%"),
        ("slow at the same load", dataclasses.replace(IDLE, utilisation=0.5), "p95", "p95",
         "e-value"),
        ("costlier, not short", dataclasses.replace(BUSY, busy_s_per_request=0.03), "rank", "rank",
         "e-value"),
        ("errors are never capacity", BUSY, "errors", "errors", "e-value"),
    ],
)  # fmt: skip
def test_a_saturated_canary_is_told_from_a_slow_one(
    name: str, canary: Load, test: str, named: str, said: str
) -> None:
    view = dataclasses.replace(GOOD, logs={**GOOD.logs, test: 9.0}, baseline=IDLE, canary=canary)
    decision = on_crossing(test, view, policy().capacity)
    assert (decision.outcome, decision.test) == (Outcome.ROLL_BACK, named), name
    assert said in decision.reason


def test_a_capacity_verdict_may_step_back_instead() -> None:
    view = dataclasses.replace(GOOD, logs={"p95": 9.0}, baseline=IDLE, canary=BUSY)
    rules = policy(capacity={"on_capacity": "step_back"})
    assert on_crossing("p95", view, rules.capacity).outcome is Outcome.STEP_BACK


def test_the_forecast_holds_before_the_harm() -> None:
    canary = Load(utilisation=0.5, busy_s_per_request=0.02, replicas=1, requests_per_s=25)
    baseline = Load(utilisation=0.5, busy_s_per_request=0.02, replicas=3, requests_per_s=75)
    view = dataclasses.replace(GOOD, baseline=baseline, canary=canary)
    rules = policy()
    decision = decide(rules, rules.steps[2], view)
    assert (decision.outcome, decision.test) == (Outcome.HOLD, "capacity")
    assert decision.reason == (
        "capacity forecast: at 50% of the traffic the canary's 1 replicas would be 100% busy, "
        "above 75%; add replicas"
    )
    off = policy(capacity={"forecast": False})
    assert decide(off, off.steps[2], view).outcome is Outcome.ADVANCE
    impatient = policy(capacity={"forecast_patience_seconds": 60})
    waited = dataclasses.replace(view, held_by_forecast_s=60)
    ended = decide(impatient, impatient.steps[2], waited)
    assert (ended.outcome, ended.test) == (Outcome.ROLL_BACK, "capacity")


def test_batches_grow_so_a_small_share_does_not_scare_the_forecast() -> None:
    # At 1 % each request has a batch of its own: 18 ms. The baseline's take 3 ms each.
    canary = Load(utilisation=0.02, busy_s_per_request=0.018, replicas=1, requests_per_s=1)
    baseline = Load(utilisation=0.3, busy_s_per_request=0.003, replicas=1, requests_per_s=99)
    view = dataclasses.replace(GOOD, baseline=baseline, canary=canary)
    rules = policy()
    assert decide(rules, rules.steps[2], view).outcome is Outcome.ADVANCE


def test_the_chance_of_a_false_rollback_is_shared() -> None:
    bounds = {test: round(math.exp(log), 6) for test, log in log_bounds(0.01).items()}
    assert bounds == {
        "errors": 285.714286, "rank": 500.0, "p95": 500.0, "stalls": 666.666667, "sheds": 1000.0,
    }  # fmt: skip
    assert sum(1 / bound for bound in bounds.values()) == pytest.approx(0.01)
    assert crossing({"errors": 5.6, "rank": 6.3}, log_bounds(0.01)) == "rank"
    assert crossing({"errors": 5.7, "rank": 6.3}, log_bounds(0.01)) == "errors"


def test_error_intervals_are_wilsons_and_widen_for_batches() -> None:
    assert error_interval(0, 0, 1) == (0.0, 1.0)
    assert error_interval(1000, 0, 1) == (0.0, pytest.approx(0.005383, abs=1e-6))
    low, high = error_interval(1000, 10, 1)
    assert (low, high) == (pytest.approx(0.004876, abs=1e-6), pytest.approx(0.020399, abs=1e-6))
    # All ten errors in one tick of 10 requests, 99 ticks without.
    effect = design_effect(1000, 10, 100, 100, 10_000)
    assert effect == pytest.approx(10.0)
    wide = error_interval(1000, 10, effect)
    assert wide[0] < low and wide[1] > high
    assert design_effect(1000, 0, 0, 0, 10_000) == 1.0
