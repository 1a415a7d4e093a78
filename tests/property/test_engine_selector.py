"""The step selector against plain models, on random catalogues and requests."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from headway.lab.dispatch.catalog import GraphSpec
from headway.lab.dispatch.fixed_value import FixedValuePolicy, best_cohort, prompt_value, row_value
from headway.lab.dispatch.ongoing import OngoingServicePolicy
from headway.lab.dispatch.policy import Policy
from headway.lab.dispatch.production import ProductionPolicy
from headway.lab.dispatch.request import RequestSpec, RequestView
from headway.lab.dispatch.service import ServicePrices
from headway.lab.dispatch.simulator import Simulation

MS = 1_000_000

Graphs = tuple[GraphSpec, ...]
Specs = tuple[RequestSpec, ...]

chances = st.lists(st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]), max_size=3).map(tuple)


@st.composite
def catalogs(draw: st.DrawFn, max_prompts: int = 1) -> Graphs:
    kinds = draw(
        st.lists(
            st.tuples(
                st.sampled_from([0, 16, 64, 100]),
                st.integers(0, 4),
                st.integers(1, 4),
                st.integers(1, 40),
                st.integers(1, max_prompts),
            ).filter(lambda kind: kind[0] or kind[1]),
            min_size=1,
            max_size=5,
        )
    )
    graphs = [
        GraphSpec("prefill", 9 * MS, prefill_capacity=48),
        GraphSpec("decode", 7 * MS, decode_capacity=2),
    ]
    graphs += [
        GraphSpec(f"g{index}", ms * MS, prefill, rows, width, prompts)
        for index, (prefill, rows, width, ms, prompts) in enumerate(kinds)
    ]
    return tuple(graphs)


@st.composite
def requests(draw: st.DrawFn) -> Specs:
    kinds = draw(
        st.lists(
            st.tuples(
                st.sampled_from([0, 0, 30, 129, 400]),
                st.integers(1, 12),
                st.integers(1, 12),
                st.integers(0, 80),
                chances,
                st.sampled_from([1.0, 0.5, 3.0]),
            ),
            min_size=1,
            max_size=7,
        )
    )
    return tuple(
        RequestSpec(f"r-{i}", prompt, output, limit, arrives * MS, acceptance, weight)
        for i, (prompt, output, limit, arrives, acceptance, weight) in enumerate(kinds)
    )


def decisions(policy: Policy, graphs: Graphs, specs: Specs) -> list[object]:
    run = Simulation(graphs, specs, policy, seed=3).run(10**13)
    assert all(progress.ended_at_ns is not None for progress in run.requests)
    return [
        (step.selection.graph, step.selection.prompts, step.selection.rows) for step in run.steps
    ]


@settings(max_examples=120, deadline=None)
@given(graphs=catalogs(max_prompts=3), specs=requests(), patience=st.sampled_from([3.0, 0.05, 0.0]))
def test_native_and_plain_selectors_agree(graphs: Graphs, specs: Specs, patience: float) -> None:
    prices = ServicePrices(patience=patience)
    assert decisions(ProductionPolicy(graphs, prices), graphs, specs) == decisions(
        OngoingServicePolicy(graphs, prices), graphs, specs
    )


def slower(graphs: Graphs, specs: Specs, factor: int) -> tuple[Graphs, Specs]:
    """The same experiment with every time `factor` times as long."""
    return (
        tuple(
            GraphSpec(
                g.name,
                g.duration_ns * factor,
                g.prefill_capacity,
                g.decode_capacity,
                g.width,
                g.prompts,
            )
            for g in graphs
        ),
        tuple(
            RequestSpec(
                s.name,
                s.prompt_tokens,
                s.output_tokens,
                s.output_limit,
                s.arrives_at_ns * factor,
                s.acceptance,
                s.weight,
            )
            for s in specs
        ),
    )


@settings(max_examples=100, deadline=None)
@given(graphs=catalogs(), specs=requests(), factor=st.sampled_from([2, 3, 10, 64]))
def test_scaling_all_times_changes_no_decision(graphs: Graphs, specs: Specs, factor: int) -> None:
    slow_graphs, slow_specs = slower(graphs, specs, factor)
    for make in (lambda graphs: FixedValuePolicy(graphs, 8.0), ProductionPolicy):
        fast = decisions(make(graphs), graphs, specs)
        assert decisions(make(slow_graphs), slow_graphs, slow_specs) == fast


views = st.lists(
    st.builds(
        RequestView,
        index=st.just(0),
        arrived_at_ns=st.just(0),
        prompt_tokens=st.just(500),
        prompt_left=st.sampled_from([0, 0, 20, 64, 129]),
        generated=st.integers(0, 5),
        output_limit=st.integers(6, 9),
        published_at_ns=st.just(0),
        acceptance=chances,
        weight=st.sampled_from([0.5, 1.0, 2.0]),
    ),
    min_size=1,
    max_size=6,
).map(
    lambda all_views: [
        RequestView(**{**vars(view), "index": index}) for index, view in enumerate(all_views)
    ]
)


@settings(max_examples=200, deadline=None)
@given(
    live=views,
    prefill=st.sampled_from([0, 16, 64, 256]),
    rows=st.integers(0, 4),
    width=st.integers(1, 4),
    decode_value=st.sampled_from([0.5, 1.0, 64.0]),
)
def test_the_greedy_cohort_is_the_best_of_all_cohorts(
    live: list[RequestView], prefill: int, rows: int, width: int, decode_value: float
) -> None:
    graph = GraphSpec("g", MS, prefill, max(rows, int(not prefill)), width)
    cohort = best_cohort(graph, live, decode_value)
    streams = [view for view in live if view.prompt_left == 0]
    waiting = [view for view in live if view.prompt_left > 0] if prefill else []
    best = max(
        sum(row_value(view, width, decode_value) for view in chosen)
        + (prompt_value(prompt, min(prompt.prompt_left, prefill), decode_value) if prompt else 0)
        for size in range(min(graph.decode_capacity, len(streams)) + 1)
        for chosen in combinations(streams, size)
        for prompt in [None, *waiting]
    )
    assert (cohort.value if cohort else 0) == best or abs(cohort.value - best) < 1e-9 * best
