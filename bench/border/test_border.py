"""What does it cost to cross from Python into Rust and back?

Question:  the price of a call by what it carries, so that one crossing a decision can be weighed
           against several, and holding the GIL against letting go of it.
Workload:  calls that do next to nothing: without arguments; with one, two and eleven; returning
           an object of eleven fields, and a list of 32 integers read from it. The Python function
           is the yardstick.
Command:   python -m pytest bench/border --benchmark-only
"""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.fleet import CoreFleet
from headway._core import EdfQueue, Rng, TokenBucket, split_point

pytestmark = pytest.mark.benchmark(group="one crossing")


def test_python_function(benchmark: BenchmarkFixture) -> None:
    def nothing() -> None:
        pass

    benchmark(nothing)


def test_no_argument_none_back(benchmark: BenchmarkFixture) -> None:
    benchmark(EdfQueue().pop)


def test_no_argument_int_back(benchmark: BenchmarkFixture) -> None:
    benchmark(Rng(1).next_u64)


def test_one_argument(benchmark: BenchmarkFixture) -> None:
    benchmark(EdfQueue().remove, 7)


def test_two_arguments_float_back(benchmark: BenchmarkFixture) -> None:
    benchmark(split_point, 123, 456)


def test_two_arguments_locked(benchmark: BenchmarkFixture) -> None:
    benchmark(TokenBucket(0, units_per_s=1e6, burst_units=1e15).try_take, 0, 1)


def test_eleven_arguments_refusal_back(benchmark: BenchmarkFixture) -> None:
    offer = CoreFleet(0).core.offer
    benchmark(offer, 0, 0, 0, -1, 5, 100, 1, 0, 2, 1, 1.0)


def test_statistics_back(benchmark: BenchmarkFixture) -> None:
    benchmark(CoreFleet(0).core.pool_stats, 0)


def test_list_of_32_read(benchmark: BenchmarkFixture) -> None:
    batch = CoreFleet(32).core.form_batch(0, 0)
    assert batch is not None
    assert len(benchmark(lambda: batch.tickets)) == 32
