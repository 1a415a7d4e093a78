"""How long does it take to charge a tenant?

Question:  the cost of one `try_take` that succeeds.
Workload:  one bucket with a burst it never reaches the end of; time stands still. Beside it the
           same in plain Python, and a call that does nothing.
Command:   python -m pytest bench/micro/test_bucket.py --benchmark-only
"""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.reference import PlainBucket
from headway._core import EdfQueue, TokenBucket

pytestmark = pytest.mark.benchmark(group="token bucket")


def test_core(benchmark: BenchmarkFixture) -> None:
    bucket = TokenBucket(0, units_per_s=1e6, burst_units=1e15)
    assert benchmark(bucket.try_take, 0, 100) == 0


def test_plain_python(benchmark: BenchmarkFixture) -> None:
    bucket = PlainBucket(1e6, 1e15, 1e15)
    assert benchmark(bucket.try_take, 0, 100)


def test_null_call(benchmark: BenchmarkFixture) -> None:
    benchmark(EdfQueue().pop)
