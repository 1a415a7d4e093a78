"""How long does it take to admit a request?

Question:  the cost of one `offer` (quota, split, feasibility, early refusal, queue) as the queue
           grows.
Workload:  32 offers a round into a queue of 10, 1,000 and 100,000; deadlines fall anywhere in it,
           and requests come one and a half times as fast as the device can serve them. Between
           rounds the 32 are cancelled and a batch is served. Beside it the same in plain Python,
           and 32 calls that do nothing. The table's time is for 32.
Command:   python -m pytest bench/micro/test_offer.py --benchmark-only
"""

from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.fleet import CoreFleet, PlainFleet

CALLS = 32
ROUNDS = 600
QUEUED = (10, 1_000, 100_000)

Arrivals = list[tuple[int, int, int]]


def measure(
    benchmark: BenchmarkFixture,
    arrivals: Callable[[], Arrivals],
    run: Callable[[Arrivals], list[object]],
    between: Callable[[list[object]], object],
) -> None:
    answers: list[object] = []

    def setup() -> tuple[tuple[Arrivals], dict[str, object]]:
        between(answers)
        answers.clear()
        return (arrivals(),), {}

    def target(requests: Arrivals) -> None:
        answers.extend(run(requests))

    benchmark.pedantic(target, setup=setup, rounds=ROUNDS, warmup_rounds=5)


@pytest.mark.parametrize("queued", QUEUED)
def test_core(benchmark: BenchmarkFixture, queued: int) -> None:
    benchmark.group = f"32 offers, {queued} queued"
    fleet = CoreFleet(queued).settle()
    offer = fleet.core.offer

    def run(requests: Arrivals) -> list[object]:
        return [offer(now, 0, 0, -1, 5, units, 1, due, 2, 1, 1.0) for now, units, due in requests]

    def between(answers: list[object]) -> None:
        for answer in answers:
            if isinstance(answer, int):
                fleet.core.cancel(fleet.now_ns, answer)
        # The batch also takes in what has come, so that no offer of the round has to.
        fleet.end(fleet.form())

    measure(benchmark, lambda: [fleet.request() for _ in range(CALLS)], run, between)


@pytest.mark.parametrize("queued", QUEUED)
def test_plain_python(benchmark: BenchmarkFixture, queued: int) -> None:
    benchmark.group = f"32 offers, {queued} queued"
    fleet = PlainFleet(queued)
    offer = fleet.plain.offer

    def run(requests: Arrivals) -> list[object]:
        return [offer(now, units, 1, due) for now, units, due in requests]

    def between(answers: list[object]) -> None:
        for answer in answers:
            assert isinstance(answer, int)
            fleet.plain.cancel(answer)

    measure(benchmark, lambda: [fleet.request() for _ in range(CALLS)], run, between)


@pytest.mark.parametrize("queued", QUEUED)
def test_null_call(benchmark: BenchmarkFixture, queued: int) -> None:
    benchmark.group = f"32 offers, {queued} queued"
    fleet = CoreFleet(10)
    nothing = fleet.core.num_executing

    def run(requests: Arrivals) -> list[object]:
        for _ in requests:
            nothing()
        return []

    measure(benchmark, lambda: [fleet.request() for _ in range(CALLS)], run, lambda answers: None)
