"""Why an episode's net reward must not be divided by its duration."""

from dataclasses import dataclass, replace

from headway.lab.oracle.episode import Episode, Oracle
from headway.lab.oracle.evaluation import MarkovValue


@dataclass(frozen=True)
class RateOptimum:
    """The schedule that maximizes E[net reward] / E[duration], and what it gives."""

    rate: float
    reward: float
    duration: float


def rate_optimum(episode: Episode, max_rounds: int = 100) -> RateOptimum:
    """Maximizes the ratio by pricing time at the best ratio so far, until it stands still.

    Where net rewards are negative the price of time turns negative: wasted time is paid for. Two
    single-token requests, a graph of 1 ms and one of 3 ms, waiting at 1 a request and ms: quick
    and quick nets -3 in 2 ms, quick and slow -5 in 4 ms, which is the "better" rate.

    Source: Dinkelbach, Management Science 13(7), 1967.
    """
    rate = 0.0
    for _ in range(max_rounds):
        priced = Episode(episode.graphs, episode.requests, replace(episode.prices, time=rate))
        choose = Oracle(priced).choose
        plain = Episode(episode.graphs, episode.requests, replace(episode.prices, time=0.0))
        value = MarkovValue(plain, choose)
        reward, duration = value.value(plain.start), value.duration(plain.start)
        if abs(reward / duration - rate) <= 1e-12 * (1 + abs(rate)):
            break
        rate = reward / duration
    return RateOptimum(reward / duration, reward, duration)
