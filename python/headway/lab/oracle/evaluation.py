"""The exact expected value of a policy over an episode, and what one improvement makes of it."""

import copy
from collections.abc import Callable
from functools import cache, lru_cache

from headway.lab.dispatch.catalog import NS_PER_MS
from headway.lab.dispatch.policy import Completion, Policy
from headway.lab.dispatch.request import RequestView
from headway.lab.oracle.episode import Action, Episode, State

Choose = Callable[[State], Action]


class MarkovValue:
    """Expected value and duration of a policy that looks at the state alone."""

    def __init__(self, episode: Episode, choose: Choose) -> None:
        self.episode = episode
        self.choose = choose
        self._solve = lru_cache(maxsize=None)(self._solve_uncached)

    def value(self, state: State) -> float:
        """Expected reward to completion, less the price of time."""
        return self._solve(state)[0]

    def duration(self, state: State) -> float:
        """Expected ms to completion."""
        return self._solve(state)[1]

    def _solve_uncached(self, state: State) -> tuple[float, float]:
        if all(request.ended for request in state):
            return 0.0, 0.0
        episode, action = self.episode, self.choose(state)
        outcomes = episode.outcomes(state, action)
        duration = float(episode.duration(action))
        value = episode.reward(state, action, outcomes) - episode.prices.time * duration
        for outcome in outcomes:
            value += outcome.chance * self.value(outcome.state)
            duration += outcome.chance * self.duration(outcome.state)
        return value, duration


def improve(base: MarkovValue) -> Choose:
    """One policy improvement in the form of a dispatch score: `[r + E h(s') - h(s)] / T`.

    h is the base policy's value. The base's own action scores exactly the price of time, so the
    best score is no less, and the improved policy is no worse in any state: the ratio keeps the
    guarantee of policy improvement. With h of the oracle it picks the oracle's actions.
    """
    episode = base.episode

    def score(state: State, action: Action) -> float:
        outcomes = episode.outcomes(state, action)
        change = -base.value(state)
        change += sum(outcome.chance * base.value(outcome.state) for outcome in outcomes)
        return (episode.reward(state, action, outcomes) + change) / episode.duration(action)

    @cache
    def choose(state: State) -> Action:
        own = base.choose(state)
        best, best_score = own, score(state, own)
        for action in episode.actions(state):
            challenger = score(state, action)
            if challenger > best_score + 1e-9 * (1 + abs(best_score)):
                best, best_score = action, challenger
        return best

    return choose


def policy_value(episode: Episode, policy: Policy) -> float:
    """Exact expected value of a dispatch policy with a history, over all outcomes.

    The policy sees what a dispatcher sees, and is copied at every branching; the tree is not
    merged, so the cost is the number of outcome sequences.
    """
    state = episode.start
    for view in _views(episode, state, 0):
        policy.arrive(0, view)
    return _expand(episode, policy, state, 0, [0] * len(state))


def _expand(
    episode: Episode, policy: Policy, state: State, now_ns: int, published_at_ns: list[int]
) -> float:
    if all(request.ended for request in state):
        return 0.0
    selection = policy.select(now_ns, _views(episode, state, now_ns, published_at_ns))
    action = Action(selection.graph, selection.prompts, selection.rows)
    outcomes = episode.outcomes(state, action)
    duration = episode.duration(action)
    value = episode.reward(state, action, outcomes) - episode.prices.time * duration
    ended_at_ns = now_ns + duration * NS_PER_MS
    for outcome in outcomes:
        twin = policy if len(outcomes) == 1 else copy.deepcopy(policy)
        twin.complete(Completion(selection, now_ns, ended_at_ns, outcome.published))
        published = list(published_at_ns)
        for request, tokens, _ in outcome.published:
            published[request] = ended_at_ns if tokens else published[request]
        value += outcome.chance * _expand(episode, twin, outcome.state, ended_at_ns, published)
    return value


def _views(
    episode: Episode, state: State, now_ns: int, published_at_ns: list[int] | None = None
) -> list[RequestView]:
    published_at_ns = published_at_ns or [0] * len(state)
    return [
        RequestView(
            index=index,
            arrived_at_ns=0,
            prompt_tokens=spec.prompt_tokens,
            prompt_left=request.prompt_left,
            generated=request.generated,
            output_limit=len(spec.prior),
            published_at_ns=published_at_ns[index],
            acceptance=spec.acceptance,
            weight=spec.weight,
        )
        for index, (request, spec) in enumerate(zip(state, episode.requests, strict=True))
        if not request.ended
    ]
