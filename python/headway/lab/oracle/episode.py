"""A finite episode: requests of hidden length run to completion on one resource.

A semi-Markov decision process. State: what is left of each prompt, what has been generated (so
the belief over its length), and the age of its output. Actions: every graph with every legal
cohort. Outcomes: accepted drafts and ends. Each action makes progress, so recursion ends.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product

from headway.errors import ConfigError
from headway.lab.analysis import output_age_area
from headway.lab.dispatch.catalog import NS_PER_MS, GraphSpec


@dataclass(frozen=True)
class EpisodeRequest:
    """One request. `prior[l - 1]` is P(length = l); the last entry is its output limit."""

    prompt_tokens: int
    prior: tuple[float, ...]
    acceptance: tuple[float, ...] = ()
    weight: float = 1.0

    def hazard(self, position: int) -> float:
        """P(L = position | L >= position); `position` from 1."""
        left = sum(self.prior[position - 1 :])
        return self.prior[position - 1] / left if left > 0 else 1.0


@dataclass(frozen=True)
class EpisodePrices:
    """What an episode is worth; time in ms.

    Attributes:
      token: value of an output token.
      time: price of a ms until the last request has ended.
      waiting: price of a ms of each unfinished request, times its weight.
      age: price of a ms² of each decoding request's output age, times its weight.
    """

    token: float = 0.0
    time: float = 0.0
    waiting: float = 0.0
    age: float = 0.0


@dataclass(frozen=True)
class RequestState:
    """`prompt_left`, output tokens so far and ms since the last of them; `ended` has no more."""

    prompt_left: int
    generated: int
    age: int
    ended: bool = False


State = tuple[RequestState, ...]
ENDED = RequestState(0, 0, 0, True)


@dataclass(frozen=True)
class Action:
    """A graph and its lanes."""

    graph: int
    prompts: tuple[tuple[int, int], ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Outcome:
    """One way an action can go: `(request, tokens, ended)` of its lanes, and the next state."""

    chance: float
    published: tuple[tuple[int, int, bool], ...]
    state: State


class Episode:
    """The process. Durations are whole ms, so that ages are exact."""

    def __init__(
        self,
        graphs: Sequence[GraphSpec],
        requests: Sequence[EpisodeRequest],
        prices: EpisodePrices,
    ) -> None:
        """Refuses durations that are not whole ms, and graphs whose prompts share a prefill."""
        for graph in graphs:
            if graph.duration_ns % NS_PER_MS or graph.prompts > 1:
                raise ConfigError(
                    f"graph {graph.name!r}: an episode needs whole ms and one prompt a graph"
                )
        self.graphs = tuple(graphs)
        self.requests = tuple(requests)
        self.prices = prices

    @property
    def start(self) -> State:
        """Nothing has run. Requests without a prompt are decoding, of age 0."""
        return tuple(RequestState(request.prompt_tokens, 0, 0) for request in self.requests)

    def duration(self, action: Action) -> int:
        """T, ms."""
        return self.graphs[action.graph].duration_ns // NS_PER_MS

    def actions(self, state: State) -> Iterator[Action]:
        """Every graph with every legal cohort that serves someone."""
        waiting = [i for i, request in enumerate(state) if request.prompt_left > 0]
        streams = [i for i, r in enumerate(state) if not r.ended and r.prompt_left == 0]
        for index, graph in enumerate(self.graphs):
            prompts: list[tuple[tuple[int, int], ...]] = [()]
            if graph.prefill_capacity:
                tokens = {i: min(state[i].prompt_left, graph.prefill_capacity) for i in waiting}
                prompts += [((i, tokens[i]),) for i in waiting]
            most = min(graph.decode_capacity, len(streams))
            cohorts = (rows for size in range(most + 1) for rows in combinations(streams, size))
            for rows, prompt in product(cohorts, prompts):
                if rows or prompt:
                    yield Action(index, prompt, rows)

    def reward(self, state: State, action: Action, outcomes: Sequence[Outcome]) -> float:
        """Expected tokens' value less the prices of waiting and age; the price of time excluded."""
        duration, prices = self.duration(action), self.prices
        reward = 0.0
        if prices.token:
            reward += prices.token * sum(
                outcome.chance * tokens
                for outcome in outcomes
                for _, tokens, _ in outcome.published
            )
        for request, spec in zip(state, self.requests, strict=True):
            if not request.ended:
                reward -= prices.waiting * spec.weight * duration
                if prices.age and request.prompt_left == 0:
                    reward -= prices.age * spec.weight * output_age_area(request.age, duration)
        return reward

    def outcomes(self, state: State, action: Action) -> list[Outcome]:
        """All ways it can go, with chances summing to 1."""
        duration = self.duration(action)
        width = self.graphs[action.graph].width
        aged = [self._aged(request, duration) for request in state]
        lanes: list[list[tuple[float, int, int, bool]]] = []
        for index, tokens in action.prompts:
            left = state[index].prompt_left - tokens
            if left > 0:
                aged[index] = RequestState(left, 0, 0)
                lanes.append([(1.0, index, 0, False)])
            else:
                lanes.append([(c, index, t, e) for c, t, e in self._emitted(index, 0, 1)])
        for index in action.rows:
            generated = state[index].generated
            ways = self._emitted(index, generated, width)
            lanes.append([(chance, index, tokens, ended) for chance, tokens, ended in ways])
        return [self._outcome(aged, combination) for combination in product(*lanes)]

    def _aged(self, request: RequestState, duration: int) -> RequestState:
        if request.ended or request.prompt_left > 0 or not self.prices.age:
            return request
        return RequestState(0, request.generated, request.age + duration)

    def _outcome(
        self, aged: list[RequestState], lanes: tuple[tuple[float, int, int, bool], ...]
    ) -> Outcome:
        chance, state = 1.0, list(aged)
        for lane_chance, index, tokens, ended in lanes:
            chance *= lane_chance
            if ended:
                state[index] = ENDED
            elif tokens:
                state[index] = RequestState(0, aged[index].generated + tokens, 0)
        return Outcome(chance, tuple((i, t, e) for _, i, t, e in lanes), tuple(state))

    def _emitted(self, index: int, generated: int, width: int) -> list[tuple[float, int, bool]]:
        """`(chance, tokens, ended)` of one decode row: it runs until a rejection or its end."""
        request = self.requests[index]
        ways: list[tuple[float, int, bool]] = []
        chance = 1.0
        for token in range(1, width + 1):
            hazard = request.hazard(generated + token)
            ways.append((chance * hazard, token, True))
            chance *= 1 - hazard
            drafts = request.acceptance[token - 1 : token] if token < width else ()
            accepted = drafts[0] if drafts else 0.0
            ways.append((chance * (1 - accepted), token, False))
            chance *= accepted
        return [way for way in ways if way[0] > 0]


class Oracle:
    """The best conditional schedule: maximizes expected reward less the price of time.

    `V(s) = max_a r(s, a) - time T(a) + E V(s')`. Exponential in requests; for small instances.
    """

    def __init__(self, episode: Episode) -> None:
        self.episode = episode
        self._solve = lru_cache(maxsize=None)(self._solve_uncached)

    def value(self, state: State) -> float:
        """V(state)."""
        return self._solve(state)[0]

    def choose(self, state: State) -> Action:
        """A best action."""
        action = self._solve(state)[1]
        if action is None:
            raise ConfigError("the episode has ended, or no graph serves a live request")
        return action

    def action_value(self, state: State, action: Action) -> float:
        """Its value: r - time T + E V(s')."""
        outcomes = self.episode.outcomes(state, action)
        ahead = sum(outcome.chance * self.value(outcome.state) for outcome in outcomes)
        price = self.episode.prices.time * self.episode.duration(action)
        return self.episode.reward(state, action, outcomes) - price + ahead

    @property
    def num_states(self) -> int:
        """States solved so far."""
        return self._solve.cache_info().currsize

    def _solve_uncached(self, state: State) -> tuple[float, Action | None]:
        if all(request.ended for request in state):
            return 0.0, None
        return max(
            ((self.action_value(state, action), action) for action in self.episode.actions(state)),
            key=lambda pair: pair[0],
        )
