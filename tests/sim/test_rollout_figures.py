"""The reduced version of bench/sim/rollout.py; docs/adr/0040 has the full one's figures.

Tolerances: medians of 60 runs scatter by about 25 % (the runs' own spread, some 0.8 of the median,
times 1.25 / sqrt(60), twice), so the bounds are the full run's medians within a factor of 1.5.
"""

import pytest

from headway.rollout.figures import CASES, measure, upper_bound

RUNS = 600  # of a case with weight 1; most have 0.1


@pytest.mark.parametrize(
    ("case", "tests", "least_share", "least_requests", "most_requests"),
    [
        ("dead", {"errors"}, 1.0, 2, 8),
        ("dead-batches", {"errors"}, 1.0, 25, 72),
        ("errors+3%", {"errors"}, 1.0, 200, 500),
        ("p95x1.4", {"rank", "p95"}, 0.98, 4000, 10_500),
        ("p99x3", {"stalls", "p95", "rank"}, 0.98, 5_700, 12_900),
    ],
)
def test_a_bad_canary_is_found_by_the_right_test(
    case: str, tests: set[str], least_share: float, least_requests: int, most_requests: int
) -> None:
    found = measure(case, num_runs=RUNS, seed=2)
    assert found.rolled_back_ratio >= least_share
    assert set(found.tests) <= tests
    assert found.canary_requests is not None
    assert least_requests <= found.canary_requests <= most_requests


def test_a_saturated_canary_is_named_so() -> None:
    found = measure("capacity-no-forecast", num_runs=RUNS, seed=2)
    assert found.num_runs == 60
    # Full run: 0.975; 60 runs, three standard deviations below.
    assert found.tests["capacity"] >= 0.91 * found.num_runs


def test_an_outage_of_both_versions_is_not_held_against_the_canary() -> None:
    found = measure("outage", num_runs=160, seed=2)
    assert found.num_runs == 40
    assert found.outcomes.get("rolled_back", 0) <= 2


def test_every_case_names_what_it_is_compared_with() -> None:
    assert len(CASES) == 17
    assert all(case.prototype for case in CASES.values())


def test_the_bound_is_clopper_and_pearsons() -> None:
    assert upper_bound(0, 2000) == pytest.approx(0.0014968, abs=1e-6)
    assert upper_bound(5, 100) == pytest.approx(0.1022537, abs=1e-6)
    assert upper_bound(10, 10) == 1.0
