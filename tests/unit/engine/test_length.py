import pytest

from headway.engine.length import OutputLengths


def test_before_anything_was_seen_the_prior_speaks() -> None:
    assert OutputLengths(prior_mean=100).expected(budget=10_000) == pytest.approx(100, rel=0.25)


def test_the_budget_bounds_it() -> None:
    assert OutputLengths(prior_mean=100).expected(budget=20) <= 20
    assert OutputLengths().expected(generated=20, budget=20) == 20


def test_lengths_are_learned() -> None:
    lengths = OutputLengths()
    for _ in range(200):
        lengths.observe(40, censored=False)
    assert lengths.expected(budget=1000) == pytest.approx(43, rel=0.12)


def test_what_has_been_written_moves_the_expectation() -> None:
    lengths = OutputLengths()
    for length in (10, 200) * 100:
        lengths.observe(length, censored=False)
    assert lengths.expected(budget=1000) == pytest.approx(105, rel=0.15)
    assert lengths.expected(generated=50, budget=1000) == pytest.approx(205, rel=0.15)


def test_outputs_that_were_cut_do_not_count_as_short() -> None:
    """Half are cut at 32 of a true 128: their mean seen is 80, the truth is 128."""
    lengths = OutputLengths()
    for _ in range(200):
        lengths.observe(128, censored=False)
        lengths.observe(32, censored=True)
    assert lengths.expected(budget=1000) == pytest.approx(135, rel=0.12)


def test_there_is_always_one_more_to_expect_of_an_output_that_goes_on() -> None:
    lengths = OutputLengths()
    for _ in range(100):
        lengths.observe(5, censored=False)
    assert lengths.expected(generated=400, budget=1000) >= 401
