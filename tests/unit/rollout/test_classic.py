"""The classic window policy: streaks, and sparse windows that touch neither."""

from typing import Any

from tests.support.ticks import arm, tick

from headway.rollout.controller import Controller, first_share
from headway.rollout.counts import TickCounts
from headway.rollout.policy import make_policy
from headway.store.records import RolloutRecord

GOOD = tick(arm(200), arm(120))
SLOW = tick(arm(200), arm(120, latency_ms=70))
FAILING = tick(arm(200), arm(120, 3))
SPARSE = tick(arm(200), arm(20))


def controller(**settings: Any) -> Controller:
    plain = {
        "steps": [{"share": 0.3, "min_seconds": 0, "min_requests": 1}],
        "analysis_seconds": 1,
        "warmup_seconds": 0,
        **settings,
    }
    policy = make_policy("classic", plain)
    step, share = first_share(policy)
    return Controller(
        RolloutRecord(
            "r1", "m", "v1", "v2", "running", step, share, policy.model_dump(mode="json"), 0
        )
    )


def windows(running: Controller, *counts: TickCounts) -> list[tuple[str, str, tuple[int, int]]]:
    """Decision, reason and streaks of one window after the other."""
    told = []
    for one in counts:
        (verdict,) = running.on_tick(TickCounts.from_plain(one.to_plain()), 1.0, 0)
        told.append((verdict.decision, verdict.reason, running.streaks()))
    return told


def test_three_healthy_windows_in_a_row_go_on() -> None:
    told = windows(controller(), GOOD, GOOD, GOOD)
    assert told == [
        ("hold", "1 of 3 healthy windows in a row", (1, 0)),
        ("hold", "2 of 3 healthy windows in a row", (2, 0)),
        ("promote", "3 healthy windows in a row", (3, 0)),
    ]


def test_two_unhealthy_windows_in_a_row_roll_back() -> None:
    told = windows(controller(), GOOD, SLOW, GOOD, SLOW, FAILING)
    assert [(decision, streaks) for decision, _, streaks in told] == [
        ("hold", (1, 0)), ("hold", (0, 1)), ("hold", (1, 0)), ("hold", (0, 1)),
        ("roll_back", (0, 2)),
    ]  # fmt: skip
    assert told[1][1] == "p95 is 1.41 times the baseline's; 1 of 2 unhealthy windows in a row"
    assert told[4][1] == "errors 2.50%, above 0.50%; 2 of 2 unhealthy windows in a row"


def test_a_sparse_window_touches_neither_streak() -> None:
    dropped = windows(controller(extend_sparse=False), GOOD, SPARSE, SPARSE, SLOW, SPARSE, SLOW)
    assert [streaks for _, _, streaks in dropped] == [
        (1, 0), (1, 0), (1, 0), (0, 1), (0, 1), (0, 2),
    ]  # fmt: skip
    assert dropped[1][1] == "sparse window: 20 of 100 requests; no streak changes"
    assert dropped[5][0] == "roll_back"


def test_a_sparse_window_goes_on_until_it_is_one() -> None:
    told = windows(controller(), *[SPARSE] * 5)
    assert [streaks for _, _, streaks in told] == [(0, 0)] * 4 + [(1, 0)]


def test_the_warm_up_of_a_step_is_in_no_window() -> None:
    told = windows(controller(warmup_seconds=2), SLOW, SLOW, GOOD)
    assert [streaks for _, _, streaks in told] == [(0, 0), (0, 0), (1, 0)]
