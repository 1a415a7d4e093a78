"""The product's native selector and the plain formula decide alike, step for step."""

import pytest

from headway.lab.dispatch.catalog import GraphSpec, synthetic_catalog
from headway.lab.dispatch.ongoing import OngoingServicePolicy
from headway.lab.dispatch.policy import Policy, Selection
from headway.lab.dispatch.production import ProductionPolicy
from headway.lab.dispatch.request import RequestSpec
from headway.lab.dispatch.service import ServicePrices
from headway.lab.dispatch.simulator import Simulation
from headway.lab.dispatch.workload import workloads

HORIZON_NS = 4_000_000_000


def decisions(
    policy: Policy, graphs: tuple[GraphSpec, ...], requests: tuple[RequestSpec, ...]
) -> tuple[list[object], list[Selection]]:
    run = Simulation(graphs, requests, policy, seed=7).run(HORIZON_NS)
    return [
        (step.selection.graph, step.selection.prompts, step.selection.rows, step.selection.reason)
        for step in run.steps
    ], [step.selection for step in run.steps]


@pytest.mark.parametrize("mixed", [False, True], ids=["separate", "mixed"])
@pytest.mark.parametrize("name", list(workloads()))
def test_decision_for_decision(name: str, mixed: bool) -> None:
    graphs = synthetic_catalog(mixed)
    native, native_steps = decisions(ProductionPolicy(graphs), graphs, workloads()[name])
    plain, plain_steps = decisions(OngoingServicePolicy(graphs), graphs, workloads()[name])
    assert len(native) > 3
    assert native == plain
    for mine, theirs in zip(native_steps, plain_steps, strict=True):
        assert mine.score == pytest.approx(theirs.score, rel=1e-6, abs=1e-6)
        if mine.reason == "best_score":
            assert dict(mine.scores) == pytest.approx(dict(theirs.scores), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    "prices",
    [
        ServicePrices(delivery_fairness=0.5),
        ServicePrices(retirement_value=5.0),
        ServicePrices(fairness=1.0, age=0.0, stall=0.0),
        ServicePrices(patience=0.05),
        ServicePrices(stall=16.0, prompt_weight=4.0),
    ],
    ids=["deliveries", "retirement", "fairness", "patience", "stall"],
)
def test_they_agree_under_other_prices_and_shared_prefill(prices: ServicePrices) -> None:
    graphs = (
        *synthetic_catalog(mixed=False),
        GraphSpec("packed", 9_000_000, prefill_capacity=384, prompts=4),
        GraphSpec("packed-mixed", 24_000_000, 256, 4, 2, prompts=3),
    )
    requests = workloads()["sixteen_mixed"]
    native, _ = decisions(ProductionPolicy(graphs, prices), graphs, requests)
    plain, _ = decisions(OngoingServicePolicy(graphs, prices), graphs, requests)
    assert native == plain
