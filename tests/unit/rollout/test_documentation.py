"""docs/rollout.md names every setting, with its default, and its example works."""

import re
import tomllib
from pathlib import Path

import pytest

from headway.rollout.policy import (
    CapacityPolicy,
    ClassicPolicy,
    SequentialPolicy,
    ShadowPolicy,
    Step,
    make_policy,
)

TEXT = (Path(__file__).parents[3] / "docs" / "rollout.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "model", [SequentialPolicy, ClassicPolicy, Step, CapacityPolicy, ShadowPolicy]
)
def test_every_setting_is_documented(model: type[SequentialPolicy]) -> None:
    settings = TEXT.partition("## Settings")[2]
    tables = {"capacity", "shadow"}
    named = set(re.findall(r"`([a-z0-9_]+)`", settings))
    assert set(model.model_fields) - tables <= named


def test_the_documented_defaults_are_the_defaults() -> None:
    policy = make_policy("default", {}).model_dump()
    rows = re.findall(r"^\| `(\w+)` \| ([\d.,]+)(?: \(.*\))? \|", TEXT, re.MULTILINE)
    assert len(rows) >= 10
    for name, text in rows:
        if name in policy and name != "steps":
            assert policy[name] == float(text.replace(",", "")), name


def test_the_example_of_a_policy_file_works() -> None:
    (example,) = re.findall(r"```toml title[^\n]*\n(.*?)```", TEXT, re.DOTALL)
    plain = tomllib.loads(example)
    policy = make_policy(plain.pop("preset"), plain)
    assert [step.share for step in policy.steps] == [0.01, 0.1, 0.5, 0.95]
    assert policy.steps[2].min_seconds == 600
    assert (policy.capacity.on_capacity, policy.latency_tolerance) == ("step_back", 1.3)
    assert policy.shadow is not None
