"""Exact episodes: no policy beats the oracle, and what the continuation value is good for."""

from dataclasses import replace

import pytest

from headway.errors import ConfigError
from headway.lab.dispatch.catalog import GraphSpec
from headway.lab.oracle.comparison import (
    Instance,
    compare,
    prefill_first,
    small_instances,
)
from headway.lab.oracle.episode import Episode, EpisodePrices, EpisodeRequest, Oracle
from headway.lab.oracle.evaluation import MarkovValue, improve
from headway.lab.oracle.rate import rate_optimum

MS = 1_000_000
CHEAP = [instance for instance in small_instances() if "three" not in instance.name] + [
    instance for instance in small_instances() if instance.name.endswith("three/age 0")
]


@pytest.mark.parametrize("instance", CHEAP, ids=lambda instance: instance.name)
def test_no_policy_beats_the_oracle(instance: Instance) -> None:
    gaps = compare([instance])
    assert {gap.policy for gap in gaps} == {
        "fixed-1",
        "fixed-16",
        "ongoing",
        "production",
        "prefill-first",
        "improved",
    }
    for gap in gaps:
        assert gap.cost >= gap.optimum * (1 - 1e-12), gap
    cost = {gap.policy: gap.cost for gap in gaps}
    assert cost["improved"] <= cost["prefill-first"] * (1 + 1e-12)
    # Rows priced alike and costs known, the product and its restatement are one policy.
    assert cost["production"] == pytest.approx(cost["ongoing"], rel=1e-12)


@pytest.mark.parametrize("time", [0.0, 2.0])
def test_with_the_exact_continuation_value_the_score_picks_an_optimal_action(time: float) -> None:
    instance = next(i for i in small_instances() if i.name == "slow rows/beside/age 0.02")
    prices = replace(instance.episode.prices, time=time)
    episode = Episode(instance.episode.graphs, instance.episode.requests, prices)
    oracle = Oracle(episode)
    exact = MarkovValue(episode, oracle.choose)
    assert exact.value(episode.start) == pytest.approx(oracle.value(episode.start))
    improved = MarkovValue(episode, improve(exact))
    assert improved.value(episode.start) == pytest.approx(oracle.value(episode.start))
    worse = MarkovValue(episode, prefill_first(episode))
    assert worse.value(episode.start) < oracle.value(episode.start)


def test_outcome_chances_sum_to_one_and_beliefs_follow_the_prior() -> None:
    request = EpisodeRequest(0, (0.5, 0.25, 0.25), acceptance=(0.6,))
    graphs = (GraphSpec("d", 7 * MS, decode_capacity=1, width=2),)
    episode = Episode(graphs, (request,), EpisodePrices(waiting=1))
    (action,) = episode.actions(episode.start)
    ways = {(o.published[0][1:]): o.chance for o in episode.outcomes(episode.start, action)}
    assert ways == pytest.approx(
        {
            (1, True): 0.5,
            (1, False): 0.5 * 0.4,
            (2, True): 0.5 * 0.6 * 0.5,
            (2, False): 0.5 * 0.6 * 0.5,
        }
    )


def test_a_hidden_length_costs_what_its_expectation_says() -> None:
    request = EpisodeRequest(0, (0.5, 0.25, 0.25))
    graphs = (GraphSpec("d", 7 * MS, decode_capacity=1),)
    episode = Episode(graphs, (request,), EpisodePrices(waiting=1, time=1, age=0.1))
    # E[L] = 1.75 tokens of 7 ms: waiting and time 2 x 7 each, age 0.1 x 49 / 2 each.
    assert Oracle(episode).value(episode.start) == pytest.approx(-1.75 * (14 + 2.45))


def test_normalizing_a_negative_net_reward_by_duration_pays_for_wasted_time() -> None:
    graphs = (
        GraphSpec("quick", 1 * MS, decode_capacity=1),
        GraphSpec("slow", 3 * MS, decode_capacity=1),
    )
    requests = (EpisodeRequest(0, (1.0,)), EpisodeRequest(0, (1.0,)))
    episode = Episode(graphs, requests, EpisodePrices(waiting=1))
    best = MarkovValue(episode, Oracle(episode).choose)
    assert (best.value(episode.start), best.duration(episode.start)) == (-3, 2)
    by_rate = rate_optimum(episode)
    assert (by_rate.reward, by_rate.duration, by_rate.rate) == (-5, 4, -1.25)
    # A fixed positive price of time has no such flaw.
    priced = Episode(graphs, requests, EpisodePrices(waiting=1, time=1))
    choose = Oracle(priced).choose
    assert MarkovValue(episode, choose).value(episode.start) == -3


def test_a_graph_of_broken_milliseconds_is_refused() -> None:
    graphs = (GraphSpec("d", MS + 1, decode_capacity=1),)
    with pytest.raises(ConfigError, match="whole ms"):
        Episode(graphs, (EpisodeRequest(0, (1.0,)),), EpisodePrices())
