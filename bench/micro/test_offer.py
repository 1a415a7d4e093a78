"""How long does it take to admit a request?

Question:  the cost of one `offer` (quota, split, feasibility, queue) as the queue grows.
Workload:  100 offers a round into a queue of 10, 1,000 and 100,000; deadlines fall anywhere in
           it; the 100 are cancelled between rounds. Beside it the same in plain Python, and 100
           calls that do nothing. The table's time is for 100.
Command:   python -m pytest bench/micro/test_offer.py --benchmark-only
"""

from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.fleet import CoreFleet, PlainFleet

CALLS = 100
ROUNDS = 200
QUEUED = (10, 1_000, 100_000)

Arrivals = list[tuple[int, int]]


def measure(
    benchmark: BenchmarkFixture,
    arrivals: Callable[[], Arrivals],
    run: Callable[[Arrivals], list[int]],
    undo: Callable[[int], object],
) -> None:
    tickets: list[int] = []

    def setup() -> tuple[tuple[Arrivals], dict[str, object]]:
        for ticket in tickets:
            undo(ticket)
        tickets.clear()
        return (arrivals(),), {}

    def target(requests: Arrivals) -> None:
        tickets.extend(run(requests))

    benchmark.pedantic(target, setup=setup, rounds=ROUNDS, warmup_rounds=5)


@pytest.mark.parametrize("queued", QUEUED)
def test_core(benchmark: BenchmarkFixture, queued: int) -> None:
    benchmark.group = f"100 offers, {queued} queued"
    fleet = CoreFleet(queued)
    offer = fleet.core.offer

    def run(requests: Arrivals) -> list[int]:
        return [offer(0, 0, 0, -1, 5, units, 1, due, 2, 1, 1.0) for units, due in requests]  # type: ignore[misc]  # none is refused

    measure(
        benchmark,
        lambda: [fleet.request() for _ in range(CALLS)],
        run,
        lambda ticket: fleet.core.cancel(0, ticket),
    )


@pytest.mark.parametrize("queued", QUEUED)
def test_plain_python(benchmark: BenchmarkFixture, queued: int) -> None:
    benchmark.group = f"100 offers, {queued} queued"
    fleet = PlainFleet(queued)
    offer = fleet.plain.offer

    def run(requests: Arrivals) -> list[int]:
        return [offer(0, units, 1, due) for units, due in requests]  # type: ignore[misc]  # none is refused

    measure(
        benchmark,
        lambda: [fleet.request() for _ in range(CALLS)],
        run,
        fleet.plain.cancel,
    )


@pytest.mark.parametrize("queued", QUEUED)
def test_null_call(benchmark: BenchmarkFixture, queued: int) -> None:
    benchmark.group = f"100 offers, {queued} queued"
    fleet = CoreFleet(10)
    nothing = fleet.core.num_executing

    def run(requests: Arrivals) -> list[int]:
        for _ in requests:
            nothing()
        return []

    measure(benchmark, lambda: [fleet.request() for _ in range(CALLS)], run, lambda ticket: None)
