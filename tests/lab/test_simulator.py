import pytest

from headway.errors import ConfigError
from headway.lab.dispatch.acceptance import draw, published_tokens
from headway.lab.dispatch.catalog import GraphSpec, synthetic_catalog
from headway.lab.dispatch.fixed_value import FixedValuePolicy, best_cohort
from headway.lab.dispatch.measure import request_rows, summary_row
from headway.lab.dispatch.ongoing import OngoingServicePolicy
from headway.lab.dispatch.production import ProductionPolicy
from headway.lab.dispatch.request import RequestSpec, RequestView, expected_tokens
from headway.lab.dispatch.simulator import Simulation
from headway.lab.dispatch.workload import workload

MS = 1_000_000


def view(**fields: object) -> RequestView:
    base = {
        "index": 0,
        "arrived_at_ns": 0,
        "prompt_tokens": 0,
        "prompt_left": 0,
        "generated": 0,
        "output_limit": 10,
        "published_at_ns": 0,
    }
    return RequestView(**{**base, **fields})  # type: ignore[arg-type]


def test_expected_tokens_count_accepted_prefixes_up_to_the_limit() -> None:
    stream = view(acceptance=(0.5, 0.5, 0.6))
    assert [expected_tokens(stream, width) for width in (1, 2, 3, 4, 8)] == pytest.approx(
        [1, 1.5, 1.75, 1.9, 1.9]
    )
    assert expected_tokens(view(acceptance=(0.5, 0.5), output_limit=2), 3) == 1.5


def test_draws_are_keyed_by_place_and_match_their_probabilities() -> None:
    assert draw(1, 2, 3, 4) == draw(1, 2, 3, 4)
    assert (
        len(
            {draw(seed, r, p, d) for seed in (0, 1) for r in (0, 1) for p in (0, 1) for d in (0, 1)}
        )
        == 16
    )
    spec = RequestSpec("s", 0, 100_000, 100_000, acceptance=(0.5, 0.5, 0.6))
    tokens = [published_tokens(spec, 0, position, 4, seed=1) for position in range(40_000)]
    # Standard error of the mean is 0.006.
    assert sum(tokens) / len(tokens) == pytest.approx(1.9, abs=0.02)


def test_different_schedules_see_the_same_luck() -> None:
    graphs = synthetic_catalog()
    requests = workload("heterogeneous_acceptance")
    totals = []
    for policy in (FixedValuePolicy(graphs, 1.0), FixedValuePolicy(graphs, 1.0)):
        run = Simulation(graphs, requests, policy, seed=5).run(600 * MS)
        totals.append([progress.deliveries for progress in run.requests])
    assert totals[0] == totals[1]
    other = Simulation(graphs, requests, FixedValuePolicy(graphs, 1.0), seed=6).run(600 * MS)
    assert [progress.deliveries for progress in other.requests] != totals[0]


def test_output_is_published_at_completion_and_a_step_outlives_the_horizon() -> None:
    graphs = (GraphSpec("p", 30 * MS, prefill_capacity=100), GraphSpec("d", 20 * MS, 0, 1))
    requests = (RequestSpec("r", 100, output_tokens=3, output_limit=9),)
    run = Simulation(graphs, requests, FixedValuePolicy(graphs, 1.0)).run(31 * MS)
    assert run.requests[0].deliveries == [(30 * MS, 1), (50 * MS, 1)]
    assert run.ended_at_ns == 50 * MS
    row = request_rows(run)[0]
    assert (row.first_token_ms, row.completed_ms, row.max_gap_ms) == (30, None, 20)
    assert row.age_area_ms2 == 20 * 20 / 2
    assert summary_row(run).incomplete == 1


def test_ages_grow_for_every_decoding_stream_served_or_not() -> None:
    graphs = (GraphSpec("d", 20 * MS, 0, 1),)
    streams = [RequestSpec(f"s-{i}", 0, 9, 9) for i in range(2)]
    run = Simulation(graphs, streams, FixedValuePolicy(graphs, 1.0)).run(40 * MS)
    served, neglected = request_rows(run)
    # Served twice: 2 x 20²/2. Never served: 40²/2, and still open.
    assert (served.age_area_ms2, neglected.age_area_ms2) == (400, 800)
    assert (served.open_stall_ms, neglected.open_stall_ms) == (0, 40)


def test_a_stream_that_arrives_during_a_step_waits_from_its_arrival() -> None:
    graphs = (GraphSpec("d", 20 * MS, 0, 2),)
    streams = [RequestSpec("s-0", 0, 9, 9), RequestSpec("s-1", 0, 9, 9, arrives_at_ns=5 * MS)]
    run = Simulation(graphs, streams, FixedValuePolicy(graphs, 1.0)).run(40 * MS)
    late = request_rows(run)[1]
    assert late.age_area_ms2 == 35 * 35 / 2
    assert late.max_gap_ms == 35


def test_nothing_runs_before_the_first_arrival() -> None:
    graphs = (GraphSpec("p", 30 * MS, prefill_capacity=100),)
    requests = (RequestSpec("r", 100, 1, 1, arrives_at_ns=500 * MS),)
    run = Simulation(graphs, requests, FixedValuePolicy(graphs, 1.0)).run(1_000 * MS)
    assert (run.steps[0].started_at_ns, run.busy_ns) == (500 * MS, 30 * MS)


def test_a_tail_takes_the_fastest_graph_that_holds_it() -> None:
    padded = GraphSpec("p4096", 2 * MS, prefill_capacity=4096)
    graphs = (GraphSpec("p64", 3 * MS, prefill_capacity=64), padded)
    selection = FixedValuePolicy(graphs, 1.0).select(0, [view(prompt_tokens=64, prompt_left=64)])
    assert graphs[selection.graph] is padded
    assert selection.prompts == ((0, 64),)


def test_wide_verification_wins_when_its_tokens_outweigh_its_time() -> None:
    graphs = (GraphSpec("w1", 17 * MS, 0, 1), GraphSpec("w8", 30 * MS, 0, 1, 8))
    for chance, name in ((0.9, "w8"), (0.2, "w1")):
        stream = view(acceptance=(chance,) * 7, output_limit=100)
        selection = FixedValuePolicy(graphs, 1.0).select(0, [stream])
        assert graphs[selection.graph].name == name


def test_completing_a_prompt_earns_its_first_token_once() -> None:
    graph = GraphSpec("p", MS, prefill_capacity=64)
    cohort = best_cohort(graph, [view(prompt_tokens=64, prompt_left=64, weight=2.0)], 16.0)
    assert cohort is not None and cohort.value == 2 * (64 + 16)


@pytest.mark.parametrize("make", [OngoingServicePolicy, ProductionPolicy])
def test_a_catalog_without_a_needed_graph_is_refused(make: type) -> None:
    graphs = (GraphSpec("d", 20 * MS, 0, 1),)
    with pytest.raises(ConfigError, match="no graph of the catalog serves"):
        Simulation(graphs, workload("solo_prefill"), make(graphs)).run(100 * MS)


def test_a_cold_start_measures_and_then_serves_as_well() -> None:
    graphs = synthetic_catalog()
    requests = workload("sixteen_mixed")
    ends = []
    for known in (True, False):
        policy = ProductionPolicy(graphs, known_costs=known)
        run = Simulation(graphs, requests, policy).run(60_000 * MS)
        reasons = [step.selection.reason for step in run.steps]
        assert ("bootstrap" in reasons) is not known
        ends.append(run.ended_at_ns)
    assert ends[1] < 1.5 * ends[0]
