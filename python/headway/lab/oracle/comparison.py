"""Small instances, and how far each policy is from the best schedule on them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from headway.lab.dispatch.catalog import NS_PER_MS, GraphSpec
from headway.lab.dispatch.fixed_value import FixedValuePolicy
from headway.lab.dispatch.ongoing import OngoingServicePolicy
from headway.lab.dispatch.policy import Policy
from headway.lab.dispatch.production import ProductionPolicy
from headway.lab.oracle.episode import (
    Action,
    Episode,
    EpisodePrices,
    EpisodeRequest,
    Oracle,
    State,
)
from headway.lab.oracle.evaluation import MarkovValue, improve, policy_value


@dataclass(frozen=True)
class Instance:
    """An episode with a name for tables."""

    name: str
    episode: Episode


@dataclass(frozen=True)
class Gap:
    """What a policy costs on an instance, over the least cost; 0 is optimal."""

    instance: str
    policy: str
    cost: float
    optimum: float

    @property
    def ratio(self) -> float:
        """Extra cost as a share of the optimum."""
        return self.cost / self.optimum - 1


def small_instances() -> list[Instance]:
    """Eighteen episodes of two or three requests: two machines, three mixes, three age prices."""
    priors = {"geometric": (0.4, 0.24, 0.36), "heavy": (0.7, 0.1, 0.2)}
    mixes = {
        "prompts": [EpisodeRequest(5, priors["geometric"]), EpisodeRequest(2, priors["heavy"])],
        "beside": [
            EpisodeRequest(0, priors["geometric"], (0.7,)),
            EpisodeRequest(5, priors["geometric"]),
        ],
        "three": [
            EpisodeRequest(0, priors["heavy"], (0.5,)),
            EpisodeRequest(0, (0.0, 0.0, 1.0)),
            EpisodeRequest(3, (0.5, 0.5)),
        ],
    }
    prices = [EpisodePrices(waiting=1.0, age=age) for age in (0.0, 0.02, 0.1)]
    return [
        Instance(f"{machine}/{mix}/age {price.age:g}", Episode(graphs, mixes[mix], price))
        for (machine, graphs), mix, price in product(machines().items(), mixes, prices)
    ]


def machines() -> dict[str, tuple[GraphSpec, ...]]:
    """Two made-up catalogues in ms: rows are dear on the first, nearly free on the second."""

    def graph(name: str, ms: int, prefill: int, rows: int, width: int = 1) -> GraphSpec:
        return GraphSpec(name, ms * NS_PER_MS, prefill, rows, width)

    slow_rows = (
        graph("d1", 7, 0, 1),
        graph("d2", 9, 0, 2),
        graph("d1w2", 9, 0, 1, 2),
        graph("p2", 8, 2, 0),
        graph("p4", 12, 4, 0),
        graph("m2d2", 14, 2, 2),
    )
    free_rows = (
        graph("d1", 7, 0, 1),
        graph("d2", 8, 0, 2),
        graph("d2w2", 9, 0, 2, 2),
        graph("p2", 3, 2, 0),
        graph("p4", 4, 4, 0),
        graph("m4d2", 10, 4, 2),
    )
    return {"slow rows": slow_rows, "free rows": free_rows}


def policies(graphs: Sequence[GraphSpec]) -> list[Callable[[], Policy]]:
    """Dispatch policies to compare, as makers: each run needs a fresh one."""
    return [
        lambda: FixedValuePolicy(graphs, 1.0),
        lambda: FixedValuePolicy(graphs, 16.0),
        lambda: OngoingServicePolicy(graphs),
        lambda: ProductionPolicy(graphs),
    ]


def compare(instances: Sequence[Instance]) -> list[Gap]:
    """Every policy on every instance, exactly; and one improvement of the first-action policy."""
    gaps = []
    for instance in instances:
        episode = instance.episode
        optimum = -Oracle(episode).value(episode.start)
        for make in policies(episode.graphs):
            policy = make()
            cost = -policy_value(episode, policy)
            gaps.append(Gap(instance.name, policy.name, cost, optimum))
        base = MarkovValue(episode, prefill_first(episode))
        improved = MarkovValue(episode, improve(base))
        for name, value in (("prefill-first", base), ("improved", improved)):
            gaps.append(Gap(instance.name, name, -value.value(episode.start), optimum))
    return gaps


def prefill_first(episode: Episode) -> Callable[[State], Action]:
    """Prompts before streams, then as much as fits, then the shorter graph."""

    def rank(state: State, action: Action) -> tuple[int, int, int]:
        tokens = sum(tokens for _, tokens in action.prompts)
        return tokens, len(action.rows), -episode.duration(action)

    def choose(state: State) -> Action:
        return max(episode.actions(state), key=lambda action: rank(state, action))

    return choose
