from itertools import combinations

import numpy as np
import pytest

from headway.lab.analysis import (
    ConvergenceError,
    PrefillPlan,
    conditional_remaining,
    cycle_value_rate,
    fair_allocation,
    fixed_length,
    geometric_length,
    learn_length,
    output_age_area,
    pareto_length,
    pareto_remaining,
    prefill_completion_ms,
)


def test_rotating_four_rows_beats_the_five_row_graph() -> None:
    cohorts = list(combinations(range(5), 4))
    rates = np.zeros((len(cohorts) + 1, 5))
    for row, cohort in enumerate(cohorts):
        rates[row, list(cohort)] = 1 / 0.021
    rates[-1] = 1 / 0.029
    allocation = fair_allocation(rates, token_values=0, fairness_weights=1)
    assert allocation.rates == pytest.approx([38.10] * 5, abs=0.005)
    assert allocation.shares[-1] == pytest.approx(0, abs=1e-6)
    only_larger = fair_allocation(rates[-1:], token_values=0, fairness_weights=1)
    assert only_larger.rates == pytest.approx([34.48] * 5, abs=0.005)


def test_one_at_a_time_shares_follow_the_fairness_weights() -> None:
    rates = np.diag([10.0, 200.0, 3.0])
    allocation = fair_allocation(rates, token_values=0, fairness_weights=[1, 2, 5])
    assert allocation.shares == pytest.approx([1 / 8, 2 / 8, 5 / 8], abs=1e-4)
    assert 0 <= allocation.gap <= 1e-9


def test_token_values_move_time_to_the_faster_request() -> None:
    rates = np.diag([10.0, 200.0])
    # max 10 θ + 200 (1-θ) + 100 [log θ + log (1-θ)]: θ solves -190 + 100/θ - 100/(1-θ) = 0.
    allocation = fair_allocation(rates, token_values=1, fairness_weights=100)
    theta = allocation.shares[0]
    assert -190 + 100 / theta - 100 / (1 - theta) == pytest.approx(0, abs=0.05)


def test_the_gap_bounds_what_any_other_allocation_could_add() -> None:
    rng = np.random.default_rng(5)
    rates = rng.uniform(0, 10, (8, 4))
    best = fair_allocation(rates, token_values=0.1, fairness_weights=1, tolerance=1e-6)
    for _ in range(200):
        other = rng.dirichlet(np.ones(8)) @ rates
        assert 0.1 * other.sum() + np.log(other).sum() <= best.utility + best.gap + 1e-12


def test_an_unmet_tolerance_fails() -> None:
    with pytest.raises(ConvergenceError, match="above the tolerance"):
        fair_allocation(
            np.diag([1.0, 2.0, 3.0]),
            token_values=0,
            fairness_weights=[1, 2, 5],
            tolerance=1e-14,
            max_steps=2,
        )


@pytest.mark.parametrize(
    ("rates", "message"),
    [([], "non-empty"), ([[1.0, 0.0]], "request 1 is served by no action"), ([[-1.0]], "at least")],
)
def test_bad_actions_are_refused(rates: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fair_allocation(rates, token_values=0, fairness_weights=1)


def test_the_age_area_is_the_same_served_or_not() -> None:
    assert output_age_area(40, 20) == 40 * 20 + 20 * 20 / 2 == 1000
    steps = np.linspace(0, 20, 200_001)
    assert np.trapezoid(40 + steps, steps) == pytest.approx(1000)


def test_prefill_completion_is_exact_against_brute_force() -> None:
    graphs = [(3, 5.0), (7, 8.0), (16, 15.0)]

    def brute(tokens: int) -> float:
        if tokens <= 0:
            return 0.0
        return min(cost + brute(tokens - capacity) for capacity, cost in graphs)

    for tokens in range(40):
        assert prefill_completion_ms(tokens, graphs) == pytest.approx(brute(tokens))
    assert prefill_completion_ms(129, [(64, 2), (128, 3), (256, 4)]) == 4
    assert PrefillPlan([(64, 2), (0, 9), (256, 4)]).first(129) == 2


def test_what_is_left_depends_on_the_prior() -> None:
    assert [conditional_remaining(fixed_length(10), g) for g in (0, 4, 9)] == [10, 6, 1]
    geometric = geometric_length(0.05, 4000).truncated(4000)
    for generated in (0, 1, 17, 300):
        assert conditional_remaining(geometric, generated) == pytest.approx(20, rel=1e-6)
    assert pareto_remaining(40, alpha=1.5) == 80
    pareto = pareto_length(1.5, 1, 10_000_000).truncated(10_000_000)
    for generated in (20, 40):
        # Cut at M, the mean lacks 2 g sqrt(g/M): 0.2 % here.
        assert conditional_remaining(pareto, generated) == pytest.approx(2 * generated, rel=0.02)


def test_an_output_limit_truncates_the_prior() -> None:
    geometric = geometric_length(0.05, 100)
    assert conditional_remaining(geometric.truncated(3), 1) == pytest.approx(1 + 0.95)
    with pytest.raises(ValueError, match="open tail"):
        conditional_remaining(geometric, 1)


def test_running_requests_are_no_short_outputs() -> None:
    naive = learn_length([2, 2, 2, 2], [], 8)
    assert conditional_remaining(naive, 0) == 2
    censored = learn_length([2, 2, 8, 8], [4] * 8, 8)
    # At 2: 2 of 12 end. At 8: all that are left.
    assert censored.weights[1] == pytest.approx(1 / 6)
    assert censored.weights[7] == pytest.approx(5 / 6)
    assert conditional_remaining(censored, 0) == pytest.approx(2 / 6 + 8 * 5 / 6)


def test_a_cycle_never_beats_its_best_step() -> None:
    steps = [(10.0, 2.0), (3.0, 1.0), (1.0, 4.0)]
    assert cycle_value_rate(steps) == 14 / 7
    weighted = sum((time / 7) * (reward / time) for reward, time in steps)
    assert cycle_value_rate(steps) == pytest.approx(weighted)
    assert cycle_value_rate(steps) <= max(reward / time for reward, time in steps)
