"""Does choosing a replica depend on the size of the fleet?

Question:  the cost of choosing one of 10, 1,000 and 10,000 free replicas by two random draws.
Workload:  `form_batch` for a queue of one request, so that nearly all of it is the choice; the
           batch is completed and another request queued between rounds. Beside it the choice
           alone in plain Python, and a call that does nothing.
Command:   python -m pytest bench/micro/test_pick.py --benchmark-only
"""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.fleet import CoreFleet, PlainFleet
from headway._core import Batch

ROUNDS = 2_000
REPLICAS = (10, 1_000, 10_000)


@pytest.mark.parametrize("replicas", REPLICAS)
def test_core(benchmark: BenchmarkFixture, replicas: int) -> None:
    benchmark.group = f"pick, {replicas} replicas"
    fleet = CoreFleet(1, replicas=replicas, slots=1)
    formed: list[Batch | None] = []

    def setup() -> None:
        while formed:
            fleet.end(formed.pop())

    def target() -> None:
        formed.append(fleet.form())

    benchmark.pedantic(target, setup=setup, rounds=ROUNDS, warmup_rounds=5)


@pytest.mark.parametrize("replicas", REPLICAS)
def test_plain_python(benchmark: BenchmarkFixture, replicas: int) -> None:
    benchmark.group = f"pick, {replicas} replicas"
    fleet = PlainFleet(1, replicas=replicas)
    benchmark.pedantic(fleet.plain.pick, rounds=ROUNDS, warmup_rounds=5)


@pytest.mark.parametrize("replicas", REPLICAS)
def test_null_call(benchmark: BenchmarkFixture, replicas: int) -> None:
    benchmark.group = f"pick, {replicas} replicas"
    fleet = CoreFleet(10)
    benchmark.pedantic(fleet.core.num_executing, rounds=ROUNDS, warmup_rounds=5)
