"""How long does the choice of a step take, and what does its border cost?

Question:  time of one `StepScheduler.select` over 64 measured graphs, for 16, 64 and 256 lanes,
           of which one in eight is a prompt; at most 50 us for 256.
Workload:  graphs of 8 row counts x 8 shapes (verification widths 1 to 8, prefills up to 4096);
           streams of seven acceptance rates and different ages. Nothing is in flight. Beside it
           the same choice in plain Python, and a call that only reads a counter.
Command:   python -m pytest bench/micro/test_engine_select.py --benchmark-only
"""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from headway import _core
from headway.lab.dispatch.catalog import GraphSpec
from headway.lab.dispatch.ongoing import OngoingServicePolicy
from headway.lab.dispatch.production import ProductionPolicy
from headway.lab.dispatch.request import RequestView

MS = 1_000_000
NOW_NS = 1_000 * MS
LANES = (16, 64, 256)
SHAPES = ((0, 1), (0, 2), (0, 4), (0, 8), (64, 1), (256, 1), (512, 1), (1_024, 2))
PREFILLS = (32, 64, 128, 256, 512, 1_024, 2_048, 4_096)


def graphs() -> tuple[GraphSpec, ...]:
    mixed = [
        graph(prefill, rows, width)
        for rows in (4, 16, 32, 64, 128, 192, 256)
        for prefill, width in SHAPES
    ]
    return (*(graph(tokens, 0, 1) for tokens in PREFILLS), *mixed)


def graph(prefill: int, rows: int, width: int) -> GraphSpec:
    duration_ns = 8 * MS + rows * width * 40_000 + prefill * 12_000
    return GraphSpec(f"p{prefill}-d{rows}-w{width}", duration_ns, prefill, rows, width, 8)


def views(lanes: int) -> list[RequestView]:
    return [
        RequestView(
            index=lane,
            arrived_at_ns=NOW_NS - (lane % 40) * 4 * MS,
            prompt_tokens=300 + lane if lane % 8 == 0 else 0,
            prompt_left=300 + lane if lane % 8 == 0 else 0,
            generated=0,
            output_limit=500,
            published_at_ns=NOW_NS - (lane % 40) * 4 * MS,
            acceptance=(0.3 + (lane % 7) * 0.1,) * 7,
        )
        for lane in range(lanes)
    ]


def native(lanes: int) -> _core.StepScheduler:
    policy = ProductionPolicy(graphs())
    for view in views(lanes):
        policy.arrive(NOW_NS, view)
    return policy.scheduler


@pytest.mark.parametrize("lanes", LANES)
def test_core(benchmark: BenchmarkFixture, lanes: int) -> None:
    benchmark.group = f"step, {lanes} lanes"
    step = benchmark(native(lanes).select, NOW_NS)
    assert isinstance(step, _core.Step)


@pytest.mark.parametrize("lanes", LANES)
def test_plain_python(benchmark: BenchmarkFixture, lanes: int) -> None:
    benchmark.group = f"step, {lanes} lanes"
    policy = OngoingServicePolicy(graphs())
    live = views(lanes)
    for view in live:
        policy.arrive(NOW_NS, view)
    benchmark.pedantic(policy.select, args=(NOW_NS, live), rounds=20, warmup_rounds=1)


@pytest.mark.parametrize("lanes", LANES)
def test_null(benchmark: BenchmarkFixture, lanes: int) -> None:
    benchmark.group = f"step, {lanes} lanes"
    scheduler = native(lanes)
    assert benchmark(lambda: scheduler.num_lanes) == lanes
