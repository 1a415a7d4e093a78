"""Rules of a rollout: defaults, presets, and what is refused."""

import re
from typing import Any

import pytest
from pydantic import ValidationError

from headway.rollout.policy import ClassicPolicy, SequentialPolicy, make_policy, parse_policy


def test_the_default_is_the_simulated_one() -> None:
    policy = make_policy("default", {})
    assert isinstance(policy, SequentialPolicy)
    rows = [
        (s.share, s.min_seconds, s.min_requests, s.max_error_rate, s.max_latency_ratio,
         s.needs_p95, s.max_seconds, s.on_inconclusive)
        for s in policy.steps
    ]  # fmt: skip
    assert rows == [
        (0.01, 300, 100, 0.05, 2.0, False, 600, "advance_if_clean"),
        (0.05, 300, 100, 0.02, 1.5, False, 900, "advance_if_clean"),
        (0.25, 300, 200, None, None, False, 3600, "hold"),
        (0.5, 300, 500, None, None, True, 3600, "hold"),
        (0.95, 900, 500, None, None, False, 3600, "hold"),
    ]
    assert policy.false_rollback_probability == 0.01
    assert (policy.latency_tolerance, policy.error_tolerance, policy.error_floor) == (
        1.2, 1.5, 0.005,
    )  # fmt: skip
    assert (policy.analysis_seconds, policy.tick_seconds, policy.max_seconds) == (30, 1, 86_400)


def test_the_classic_policy_has_its_streaks() -> None:
    policy = make_policy("classic", {})
    assert isinstance(policy, ClassicPolicy)
    assert (policy.healthy_streak, policy.unhealthy_streak, policy.min_window_requests) == (
        3, 2, 100,
    )  # fmt: skip


def test_settings_are_laid_over_a_preset() -> None:
    policy = make_policy("fast", {"steps": [0.1, 0.9, 1], "capacity": {"on_capacity": "step_back"}})
    assert [step.share for step in policy.steps] == [0.1, 0.9]
    assert policy.analysis_seconds == 1
    assert policy.capacity.on_capacity == "step_back"
    assert policy.capacity.forecast is False  # of the preset, kept


def test_least_time_and_requests_hold_for_every_step() -> None:
    policy = make_policy("default", {"least": {"min_seconds": 7200, "min_requests": 9}})
    assert {(step.min_seconds, step.min_requests) for step in policy.steps} == {(7200, 9)}
    assert min(step.max_seconds for step in policy.steps) == 14_400


def test_a_policy_comes_back_from_what_is_stored() -> None:
    for preset in ("default", "fast", "classic"):
        policy = make_policy(preset, {"shadow": {"share": 0.1}})
        assert parse_policy(policy.model_dump(mode="json")) == policy


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"steps": []}, "there are 0 steps below 1"),
        ({"steps": [1.0]}, "there are 0 steps below 1"),
        ({"steps": [0.5, 0.25]}, "shares are 0.5, 0.25; each must be above the one before"),
        ({"steps": [0.5, 0.5]}, "each must be above the one before"),
        ({"steps": [-0.1, 0.5]}, "valid dictionary or instance of Step"),
        ({"steps": [0.01 * n for n in range(1, 30)]}, "there are 29 steps below 1"),
        ({"steps": [{"share": 0.1, "min_seconds": 50, "max_seconds": 40}]}, "below min_seconds"),
        ({"latency_tolerance": 1}, "greater than 1"),
        ({"error_tolerance": 0.5}, "greater than or equal to 1"),
        ({"error_floor": 0}, "greater than 0"),
        ({"false_rollback_probability": 0.9}, "less than or equal to 0.5"),
        ({"analysis_seconds": 0}, "greater than 0"),
        ({"tick_seconds": 0.01}, "greater than or equal to 0.05"),
        ({"warmup_seconds": -1}, "greater than or equal to 0"),
        ({"max_seconds": 0}, "greater than 0"),
        ({"no_data": "promote"}, "'hold' or 'roll_back'"),
        ({"on_max_seconds": "promote"}, "'roll_back' or 'pause'"),
        ({"healthy_streak": 0}, "greater than or equal to 1"),
        ({"capacity": {"high_utilisation": 1.5}}, "less than or equal to 1"),
        ({"shadow": {"share": 0}}, "greater than 0"),
        ({"shadow": {"max_inflight": 0}}, "greater than or equal to 1"),
        ({"kind": "bayesian"}, "'sequential', 'classic'"),
        ({"latency_tolerence": 1.3}, "latency_tolerence"),
    ],
)
def test_a_bad_setting_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        make_policy("default", settings)
