from collections.abc import Sequence

from headway.lab.analysis import prefill_completion_ms
from headway.lab.dispatch.catalog import GraphSpec
from headway.lab.dispatch.fixed_value import FixedValuePolicy
from headway.lab.dispatch.ongoing import OngoingServicePolicy
from headway.lab.dispatch.policy import Selection
from headway.lab.dispatch.production import ProductionPolicy
from headway.lab.dispatch.request import RequestSpec, RequestView
from headway.lab.dispatch.simulator import Simulation

MS = 1_000_000
PREFILLS = (
    GraphSpec("p64", 2 * MS, prefill_capacity=64),
    GraphSpec("p128", 3 * MS, prefill_capacity=128),
    GraphSpec("p256", 4 * MS, prefill_capacity=256),
)
PROMPT_129 = (RequestSpec("prompt", 129, output_tokens=1, output_limit=1),)


def test_greedy_takes_128_of_129_tokens_first_and_needs_5_ms() -> None:
    run = Simulation(PREFILLS, PROMPT_129, FixedValuePolicy(PREFILLS, 1.0)).run(100 * MS)
    assert [PREFILLS[step.selection.graph].name for step in run.steps] == ["p128", "p64"]
    assert run.ended_at_ns == 5 * MS
    assert prefill_completion_ms(129, [(64, 2), (128, 3), (256, 4)]) == 4


def test_the_price_policies_plan_a_lone_prompt_to_its_end() -> None:
    for policy in (OngoingServicePolicy(PREFILLS), ProductionPolicy(PREFILLS)):
        run = Simulation(PREFILLS, PROMPT_129, policy).run(100 * MS)
        assert [PREFILLS[step.selection.graph].name for step in run.steps] == ["p256"]
        assert run.ended_at_ns == 4 * MS


def test_a_high_constant_token_value_starves_a_prefill_over_the_horizon() -> None:
    graphs = (*PREFILLS, GraphSpec("decode", 10 * MS, decode_capacity=4))
    stream = RequestSpec("stream", 0, output_tokens=100_000, output_limit=100_000)
    prompt = RequestSpec("prompt", 4096, output_tokens=8, output_limit=8)
    starved = Simulation(graphs, (stream, prompt), FixedValuePolicy(graphs, 10_000.0))
    assert starved.run(5_000 * MS).requests[1].prompt_left == 4096
    for policy in (OngoingServicePolicy(graphs), ProductionPolicy(graphs)):
        served = Simulation(graphs, (stream, prompt), policy).run(5_000 * MS)
        assert served.requests[1].ended_at_ns is not None


class OldestServicePolicy(FixedValuePolicy):
    """Rotates by who was served longest ago, as a scheduler without entitlement would."""

    def __init__(self, graphs: Sequence[GraphSpec]) -> None:
        super().__init__(graphs, 1.0)
        self.served: dict[int, int] = {}

    def select(self, now_ns: int, views: Sequence[RequestView]) -> Selection:
        views = sorted(views, key=lambda view: (self.served.get(view.index, -1), view.index))
        chosen = views[: self.graphs[0].decode_capacity]
        selection = super().select(now_ns, chosen)
        self.served.update({view.index: now_ns for view in chosen})
        return selection


def test_rotating_by_last_service_does_not_track_entitlement() -> None:
    # Five streams whose drafts are never accepted; four rows; ten rounds, ties by index.
    graphs = (GraphSpec("decode-4", MS, decode_capacity=4, width=1),)
    streams = [RequestSpec(f"s{i}", 0, 1000, 1000, acceptance=(0.0,)) for i in range(5)]
    rotated = Simulation(graphs, streams, OldestServicePolicy(graphs)).run(10 * MS)
    assert [progress.generated for progress in rotated.requests] == [10, 10, 10, 5, 5]
