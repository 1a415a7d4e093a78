import math
from collections import Counter

import numpy as np
import pytest

from headway.engine.sampling import Sampler, Sampling, log_probability
from headway.errors import RuntimeInputError

LOGITS = np.log(np.array([0.1, 0.4, 0.3, 0.2], np.float32))


def shares(sampling: Sampling, draws: int = 4000) -> dict[int, float]:
    sampler = Sampler(sampling)
    counts = Counter(sampler.draw(LOGITS)[0] for _ in range(draws))
    return {token: count / draws for token, count in sorted(counts.items())}


def test_zero_temperature_takes_the_likeliest() -> None:
    assert shares(Sampling(), 10) == {1: 1.0}


def test_ties_go_to_the_lower_token() -> None:
    assert Sampler(Sampling()).draw(np.array([1.0, 2.0, 2.0], np.float32))[0] == 1


def test_temperature_one_follows_the_model() -> None:
    found = shares(Sampling(temperature=1, seed=3))
    # Four standard errors of a share near 0.4 over 4000 draws are 0.031.
    for token, expected in enumerate((0.1, 0.4, 0.3, 0.2)):
        assert found[token] == pytest.approx(expected, abs=0.031)


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (Sampling(temperature=1, top_k=1), {1}),
        (Sampling(temperature=1, top_k=2), {1, 2}),
        (Sampling(temperature=1, top_p=0.4), {1}),
        (Sampling(temperature=1, top_p=0.5), {1, 2}),
        (Sampling(temperature=1, top_p=0.95), {0, 1, 2, 3}),
        (Sampling(temperature=1, top_p=0.8, top_k=3), {1, 2, 3}),
        (Sampling(temperature=0.01), {1}),
    ],
)
def test_what_may_be_drawn(sampling: Sampling, kept: set[int]) -> None:
    assert set(shares(sampling, 1500)) == kept


def test_equal_seeds_draw_alike_and_others_do_not() -> None:
    def draws(seed: int) -> list[int]:
        sampler = Sampler(Sampling(temperature=1, seed=seed))
        return [sampler.draw(LOGITS)[0] for _ in range(50)]

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)


def test_log_probabilities_are_the_models() -> None:
    assert log_probability(LOGITS, 1) == pytest.approx(math.log(0.4), abs=1e-6)
    token, logprob = Sampler(Sampling(temperature=9, logprobs=True)).draw(LOGITS)
    assert logprob == pytest.approx(float(LOGITS[token]), abs=1e-6)
    assert Sampler(Sampling()).draw(LOGITS)[1] == 0.0


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"temperature": -0.1}, "temperature is -0.1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_p": 0.0}, "top_p is 0"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"top_k": -1}, "top_k is -1"),
    ],
)
def test_values_out_of_range_are_named(fields: dict[str, float], named: str) -> None:
    with pytest.raises(RuntimeInputError, match=named):
        Sampling(**fields)
