"""One rollout, tick by tick."""

import json
from typing import Any

import pytest
from tests.support.ticks import arm, tick

from headway.rollout import machine
from headway.rollout.controller import Controller, first_share
from headway.rollout.counts import TickCounts
from headway.rollout.policy import make_policy
from headway.store.records import RolloutRecord, VerdictRecord

STEP = {"min_seconds": 3, "min_requests": 30, "max_error_rate": 0.2, "max_latency_ratio": 2.0,
        "max_seconds": 20, "on_inconclusive": "advance_if_clean"}  # fmt: skip
QUICK: dict[str, Any] = {
    "steps": [{"share": 0.1, **STEP}, {"share": 0.5, **STEP}],
    "analysis_seconds": 1,
    "warmup_seconds": 1,
}


def controller(preset: str = "default", **settings: Any) -> Controller:
    policy = make_policy(preset, QUICK | settings)
    step, share = first_share(policy)
    return Controller(
        RolloutRecord(
            "r1", "m", "v1", "v2", "running", step, share, policy.model_dump(mode="json"), 0
        )
    )


def drive(
    running: Controller, counts: TickCounts | None = None, *, seconds: int = 60
) -> list[VerdictRecord]:
    """Ticks of 100 and 100 good requests, or of `counts`, until it ends."""
    verdicts: list[VerdictRecord] = []
    for second in range(seconds):
        if not machine.is_active(running.record):
            break
        given = counts or tick(arm(100), arm(100))
        again = TickCounts.from_plain(given.to_plain())
        verdicts += running.on_tick(again, 1.0, 1_000_000_000 * second)
    return verdicts


def drive_until_step(running: Controller, step: int) -> list[VerdictRecord]:
    verdicts: list[VerdictRecord] = []
    while running.record.step != step and len(verdicts) < 60:
        verdicts += drive(running, seconds=1)
    assert running.record.step == step
    return verdicts


def test_a_good_canary_goes_step_by_step_to_promotion() -> None:
    running = controller()
    verdicts = drive(running)
    assert [v.sequence for v in verdicts] == list(range(1, len(verdicts) + 1))
    moves = [(v.canary["step"], v.decision) for v in verdicts if v.decision != "hold"]
    assert moves == [(0, "advance"), (1, "promote")]
    record = running.record
    assert (record.phase, record.canary_share, record.reason) == (
        "promoted", 1.0, "every gate is met",
    )  # fmt: skip
    assert record.ended_at_ns is not None


def test_a_verdict_shows_both_arms_since_the_step_began() -> None:
    running = controller()
    (verdict,) = drive(running, tick(arm(100, 2), arm(20, 1, latency_ms=60)), seconds=1)
    assert (verdict.baseline["version"], verdict.canary["version"]) == ("v1", "v2")
    assert (verdict.baseline["requests"], verdict.baseline["errors"]) == (100, 2)
    assert (verdict.canary["requests"], verdict.canary["errors"]) == (20, 1)
    assert verdict.canary["error_rate_low"] < 0.05 < verdict.canary["error_rate_high"]
    assert verdict.canary["p50_ns"] == pytest.approx(60e6, rel=0.021)
    assert set(verdict.evidence) == {"errors", "rank", "p95", "stalls", "sheds"}


@pytest.mark.parametrize(
    ("counts", "test"),
    [
        (tick(arm(100), arm(100, 20)), "errors"),
        (tick(arm(100), arm(100, latency_ms=75)), "p95"),
        (tick(arm(100), arm(100), dead="4 groups in a row failed"), "dead"),
    ],
)
def test_a_bad_canary_is_rolled_back(counts: TickCounts, test: str) -> None:
    running = controller()
    last = drive(running, counts)[-1]
    assert (last.decision, last.test) == ("roll_back", test)
    assert running.record.phase == "rolled_back"
    assert running.record.canary_share == 0.0
    assert running.record.reason.startswith(f"{test}: ")


def test_the_tests_go_on_while_it_is_paused_but_it_does_not() -> None:
    running = controller()
    running.adopt(machine.pause(running.record))
    verdicts = drive(running, seconds=20)
    assert {v.decision for v in verdicts} == {"hold"}
    assert verdicts[-1].reason == "paused; it would go on: every gate is met"
    assert running.record.step == 0
    assert drive(running, tick(arm(100), arm(100, 100)))[-1].decision == "roll_back"


def test_nothing_happens_after_the_end() -> None:
    running = controller()
    running.adopt(machine.abort(running.record, "", 5))
    assert drive(running) == []


def test_a_day_without_an_end_is_enough() -> None:
    running = controller(max_seconds=10)
    silent = tick(arm(100), arm(0))
    last = drive(running, silent)[-1]
    assert (last.decision, last.test, last.reason) == (
        "roll_back", "policy", "max_seconds (10) are over",
    )  # fmt: skip
    paused = controller(max_seconds=10, on_max_seconds="pause")
    drive(paused, silent, seconds=12)
    assert paused.record.phase == "paused"


def test_a_shadow_step_sends_nobody_until_it_has_seen_enough() -> None:
    running = controller(shadow={"share": 0.2, "min_seconds": 4, "min_requests": 50})
    assert (running.record.step, running.record.canary_share) == (-1, 0.0)
    verdicts = drive_until_step(running, 0)
    assert verdicts[0].reason == "3 s short of the step's least time"
    advance = next(v for v in verdicts if v.decision == "advance")
    assert advance.reason == "shadow: every gate is met"
    assert (running.record.step, running.record.canary_share) == (0, 0.1)
    bad = controller(shadow={"share": 0.2, "min_seconds": 4, "min_requests": 50})
    drive(bad, tick(arm(100), arm(100, 50)))
    assert (bad.record.phase, bad.record.step) == ("rolled_back", -1)


def test_step_back_returns_and_waits_for_replicas() -> None:
    running = controller(capacity={"on_capacity": "step_back", "forecast": False})
    drive_until_step(running, 1)
    busy = tick(arm(100, busy_s=0.3), arm(100, latency_ms=90, busy_s=0.3, replica_s=0.3))
    verdicts: list[VerdictRecord] = []
    while running.record.step == 1 and len(verdicts) < 60:
        verdicts += drive(running, busy, seconds=1)
    assert (verdicts[-1].decision, verdicts[-1].test) == ("step_back", "capacity")
    assert (running.record.step, running.record.phase) == (0, "paused")
    assert running.record.canary_share == 0.1
    # What was for want of replicas is not held against it; a shortage at the first step ends it.
    assert max(running.view().logs.values()) < 0
    running.adopt(machine.resume(running.record))
    drive_until_step(running, 1)


def test_a_canary_whose_replicas_are_gone_goes_nowhere() -> None:
    running = controller()
    drive(running, seconds=2)
    gone = tick(arm(200), arm(0, replica_s=0))
    last = drive(running, gone, seconds=20)[-1]
    assert (last.decision, last.test, last.reason) == (
        "hold", "no_data", "the canary has no replica that takes work",
    )  # fmt: skip
    assert running.record.step == 0


def test_a_restart_mid_rollout_changes_no_verdict() -> None:
    mild = tick(arm(100, 1), arm(40, 1, latency_ms=55))
    whole, first = controller(), controller()
    told = [(v.sequence, v.decision, dict(v.evidence)) for v in drive(whole, mild, seconds=7)]
    before = [(v.sequence, v.decision, dict(v.evidence)) for v in drive(first, mild, seconds=3)]
    stored = json.loads(json.dumps(first.to_plain(), allow_nan=False))
    second = Controller(first.record, stored)
    after = [(v.sequence, v.decision, dict(v.evidence)) for v in drive(second, mild, seconds=4)]
    assert before + after == told


def test_a_state_older_than_the_step_keeps_its_evidence() -> None:
    running = controller()
    drive(running, tick(arm(100, 1), arm(50, 1)), seconds=2)
    stored = running.to_plain()
    known = dict(running.view().logs)
    moved = machine.at_step(running.record, 1, 0.5, "moved")
    again = Controller(moved, stored)
    assert again.view().step == 1
    assert again.view().requests == 0
    assert again.view().logs["errors"] >= known["errors"]


def test_a_state_of_another_policy_is_refused() -> None:
    plain = controller().to_plain()
    with pytest.raises(ValueError, match="stored rollout state"):
        Controller(controller("classic").record, plain)


def test_sparse_traffic_is_judged_in_longer_ticks() -> None:
    # 10 requests a second: five ticks are taken together, and none is lost.
    running = controller(analysis_seconds=5)
    verdicts = drive(running, tick(arm(5), arm(5)), seconds=10)
    assert [v.canary["requests"] for v in verdicts] == [25, 50]
