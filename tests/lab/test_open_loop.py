from headway.lab.dispatch.catalog import GraphSpec
from headway.lab.dispatch.decode_first import DecodeFirstPolicy
from headway.lab.dispatch.fixed_value import FixedValuePolicy
from headway.lab.dispatch.head_of_line import cpu_catalog
from headway.lab.dispatch.open_loop import SLOTS, arrivals, policies, waits
from headway.lab.dispatch.request import RequestSpec
from headway.lab.dispatch.simulator import Simulation

MS = 1_000_000


def test_a_bound_on_waiting_shortens_the_tail_of_long_prompts() -> None:
    graphs = cpu_catalog()
    specs = arrivals(graphs, load=0.8, mean_prompt=350, mean_output=150, seconds=600, seed=21)
    assert specs == arrivals(
        graphs, load=0.8, mean_prompt=350, mean_output=150, seconds=600, seed=21
    )
    makers = policies(graphs)
    tails = {
        name: waits(
            Simulation(graphs, specs, makers[name](), slots=SLOTS).run(600_000 * MS), 600
        ).p99_first_token_of_long
        for name in ("patience 0", "patience 3")
    }
    assert tails["patience 3"] < 0.9 * tails["patience 0"]


def test_requests_beyond_the_slots_wait_outside_in_order() -> None:
    graphs = (GraphSpec("d", 10 * MS, 0, 4),)
    streams = [RequestSpec(f"s-{i}", 0, 2, 2) for i in range(4)]
    run = Simulation(graphs, streams, FixedValuePolicy(graphs, 1.0), slots=2).run(100 * MS)
    ends = [progress.ended_at_ns for progress in run.requests]
    assert ends == [20 * MS, 20 * MS, 40 * MS, 40 * MS]
    # What they waited outside counts.
    assert run.requests[3].gaps_ns[0] == 30 * MS


def test_decode_first_serves_all_streams_and_chunks_prompts() -> None:
    graphs = cpu_catalog()
    requests = [RequestSpec("s-0", 0, 50, 50), RequestSpec("p-0", 600, 1, 1)]
    run = Simulation(graphs, requests, DecodeFirstPolicy(graphs, 256)).run(1_000 * MS)
    first = run.steps[0].selection
    assert (graphs[first.graph].name, first.prompts, first.rows) == ("m256d1", ((1, 256),), (0,))
