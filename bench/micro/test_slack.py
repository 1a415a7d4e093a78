"""How long does it take to say whether a deadline can be met?

Question:  the slack of an arrival: its deadline less now, the work queued before that deadline,
           and its own device time at a quantile of the cost, as the queue grows.
Workload:  1,000 deadlines at random a round, into a queue of 10, 1,000 and 100,000 requests of 50
           to 250 units (the table's time is for 1,000). Beside it the same in plain Python, a
           sorted list and a sum; and as many calls that do nothing.
Command:   python -m pytest bench/micro/test_slack.py --benchmark-only
"""

from bisect import bisect_right, insort

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.reference import FIXED_NS, UNIT_NS
from headway._core import CostModel, EdfQueue, Rng

QUESTIONS = 1_000
HORIZON_NS = 3_600_000_000_000
QUANTILE = 2 / 3


def arrivals(count: int) -> list[tuple[int, int]]:
    """(deadline, units) each."""
    draws = Rng(1)
    return [(draws.below(HORIZON_NS), 50 + draws.below(200)) for _ in range(count)]


def questions() -> list[int]:
    draws = Rng(2)
    return [draws.below(HORIZON_NS) for _ in range(QUESTIONS)]


@pytest.mark.parametrize("queued", [10, 1_000, 100_000])
class TestSlack:
    """1,000 arrivals judged."""

    def test_core(self, benchmark: BenchmarkFixture, queued: int) -> None:
        benchmark.group = f"1k slacks, {queued} queued"
        queue, cost = EdfQueue(), CostModel(prior_intercept_ns=FIXED_NS, prior_slope_ns=UNIT_NS)
        for ticket, (deadline_ns, units) in enumerate(arrivals(queued)):
            queue.push(ticket, deadline_ns, units)
        for units in range(1_000, 1_064):
            cost.observe(units, FIXED_NS + UNIT_NS * units + units % 7 * 100_000)
        asked = questions()

        def target() -> None:
            for due_ns in asked:
                due_ns - cost.quantile_ns(queue.units_before(due_ns) + 100, QUANTILE)

        benchmark.pedantic(target, rounds=100, warmup_rounds=2)

    def test_plain_python(self, benchmark: BenchmarkFixture, queued: int) -> None:
        benchmark.group = f"1k slacks, {queued} queued"
        queue: list[tuple[int, int]] = []
        for arrival in arrivals(queued):
            insort(queue, arrival)
        asked = questions()

        def target() -> None:
            for due_ns in asked:
                ahead = queue[: bisect_right(queue, (due_ns, 0))]
                due_ns - (FIXED_NS + UNIT_NS * (sum(units for _, units in ahead) + 100))

        benchmark.pedantic(target, rounds=2 if queued > 1_000 else 20, warmup_rounds=0)

    def test_null_call(self, benchmark: BenchmarkFixture, queued: int) -> None:
        benchmark.group = f"1k slacks, {queued} queued"
        nothing, asked = EdfQueue().pop, questions()

        def target() -> None:
            for _ in asked:
                nothing()

        benchmark.pedantic(target, rounds=100, warmup_rounds=2)
