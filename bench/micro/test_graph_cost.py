"""How long does it take to learn what a graph costs?

Question:  the time of one observation and one reading of a graph's cost, the median of its last
           nine device times.
Workload:  one graph; device times of 8 to 12 ms that never repeat for long. Beside it the same in
           plain Python, and two calls that do nothing.
Command:   python -m pytest bench/micro/test_graph_cost.py --benchmark-only
"""

from collections import deque
from itertools import count
from statistics import median_low

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from headway._core import EdfQueue, StepGraph, StepScheduler

MS = 1_000_000
pytestmark = pytest.mark.benchmark(group="graph cost")


def scheduler() -> StepScheduler:
    graph = StepGraph(name="d8", decode_rows=8)
    return StepScheduler([graph])


def test_core(benchmark: BenchmarkFixture) -> None:
    engine, times = scheduler(), count()

    def target() -> None:
        at = next(times)
        device_ns = 8 * MS + at * 7_919 % (4 * MS)
        engine.observe(0, device_ns=device_ns, wall_ns=device_ns, completed_at_ns=at * MS)
        engine.costs_ns()

    benchmark(target)
    assert 8 * MS <= engine.costs_ns()[0] <= 12 * MS


def test_plain_python(benchmark: BenchmarkFixture) -> None:
    recent: deque[int] = deque(maxlen=9)
    times = count()

    def target() -> None:
        recent.append(8 * MS + next(times) * 7_919 % (4 * MS))
        median_low(recent)

    benchmark(target)


def test_null_call(benchmark: BenchmarkFixture) -> None:
    nothing, times = EdfQueue().pop, count()

    def target() -> None:
        next(times) * 7_919 % (4 * MS)
        nothing()
        nothing()

    benchmark(target)
