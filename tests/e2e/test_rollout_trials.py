"""Canaries of known kinds against real processes, with the fast preset.

Each starts a gateway and an unlike fleet, lays 120 requests a second on, and rolls out. What a
person sees of the same is `headway verify-rollout`.
"""

from pathlib import Path

import pytest

from headway.clock import SystemClock
from headway.trial.run import TrialResult, run_trial
from headway.trial.scenario import TRIALS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]


async def tried(name: str, folder: Path) -> TrialResult:
    """A trial; again, where the machine was too busy for the run to say anything."""
    for attempt in range(3):
        scratch = folder / str(attempt)
        scratch.mkdir()
        result = await run_trial(
            TRIALS[name], rate_per_s=120, seed=1, folder=scratch, clock=SystemClock()
        )
        if result.ok >= 0.8 * result.offered:
            break
    assert result.as_expected, result
    return result


async def test_a_good_canary_is_promoted(tmp_path: Path) -> None:
    result = await tried("good", tmp_path)
    assert result.phase == "promoted"
    assert result.ok >= 0.98 * result.offered - 120  # what was in flight at the end is cut off


async def test_three_percent_errors_are_rolled_back_for_errors(tmp_path: Path) -> None:
    result = await tried("errors", tmp_path)
    assert (result.phase, result.test) == ("rolled_back", "errors")


async def test_forty_percent_latency_is_rolled_back_for_latency(tmp_path: Path) -> None:
    result = await tried("slow", tmp_path)
    assert (result.phase, result.test in {"rank", "p95"}) == ("rolled_back", True)


async def test_a_dead_canary_is_rolled_back_within_20_requests(tmp_path: Path) -> None:
    result = await tried("dead", tmp_path)
    assert (result.phase, result.test) == ("rolled_back", "dead")
    assert result.canary_requests <= 20


async def test_an_under_provisioned_canary_is_named_so(tmp_path: Path) -> None:
    result = await tried("starved", tmp_path)
    assert (result.phase, result.test) == ("rolled_back", "capacity")
    assert "short of replicas, not slow" in result.reason


async def test_a_bimodal_canary_is_rolled_back_for_its_stalls(tmp_path: Path) -> None:
    result = await tried("bimodal", tmp_path)
    assert (result.phase, result.test in {"stalls", "p95"}) == ("rolled_back", True)
