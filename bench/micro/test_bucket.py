"""How long does it take to charge a tenant?

Question:  the cost of one charge that succeeds, with one bucket and with a million tenants.
Workload:  one bucket with a burst it never reaches the end of; then 1,000 charges a round of
           tenants drawn at random, of 1,000, 100,000 and 1,000,000 (the table's is for 1,000). Time
           stands still. Beside it the same in plain Python, calls that do nothing, and reads of
           one byte at the same places of a plain array with a cache line of 64 bytes a tenant:
           the growth of these is that of the machine's memory.
Command:   python -m pytest bench/micro/test_bucket.py --benchmark-only
"""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.reference import PlainBucket
from headway._core import EdfQueue, Rng, Scheduler, TokenBucket

CHARGES = 1_000
ROUNDS = 200
LINE = 64
"""Bytes of a cache line."""
TENANTS = (1_000, 100_000, 1_000_000)


@pytest.mark.benchmark(group="token bucket")
class TestOneBucket:
    """A bucket by itself."""

    def test_core(self, benchmark: BenchmarkFixture) -> None:
        bucket = TokenBucket(0, units_per_s=1e6, burst_units=1e15)
        assert benchmark(bucket.try_take, 0, 100) == 0

    def test_plain_python(self, benchmark: BenchmarkFixture) -> None:
        bucket = PlainBucket(1e6, 1e15, 1e15)
        assert benchmark(bucket.try_take, 0, 100)

    def test_null_call(self, benchmark: BenchmarkFixture) -> None:
        benchmark(EdfQueue().pop)


@pytest.mark.parametrize("count", TENANTS)
class TestManyTenants:
    """1,000 charges of tenants at random."""

    def test_core(self, benchmark: BenchmarkFixture, count: int) -> None:
        benchmark.group = f"1k charges, {count} tenants"
        scheduler = Scheduler(seed=1)
        for _ in range(count):
            scheduler.add_tenant(0, units_per_s=1e6, burst_units=1e15)
        draws = Rng(2)
        charge = scheduler.charge

        def target(tenants: list[int]) -> None:
            for tenant in tenants:
                charge(0, tenant, 100)

        benchmark.pedantic(
            target,
            setup=lambda: (([draws.below(count) for _ in range(CHARGES)],), {}),
            rounds=ROUNDS,
        )

    def test_plain_python(self, benchmark: BenchmarkFixture, count: int) -> None:
        benchmark.group = f"1k charges, {count} tenants"
        buckets = [PlainBucket(1e6, 1e15, 1e15) for _ in range(count)]
        draws = Rng(2)

        def target(tenants: list[int]) -> None:
            for tenant in tenants:
                buckets[tenant].try_take(0, 100)

        benchmark.pedantic(
            target,
            setup=lambda: (([draws.below(count) for _ in range(CHARGES)],), {}),
            rounds=ROUNDS,
        )

    def test_bare_read(self, benchmark: BenchmarkFixture, count: int) -> None:
        benchmark.group = f"1k charges, {count} tenants"
        # Written to: untouched pages would all be one.
        lines, draws = bytearray(b"\x01") * (LINE * count), Rng(2)

        def target(places: list[int]) -> None:
            for place in places:
                lines[place]

        benchmark.pedantic(
            target,
            setup=lambda: (([LINE * draws.below(count) for _ in range(CHARGES)],), {}),
            rounds=ROUNDS,
        )

    def test_null_call(self, benchmark: BenchmarkFixture, count: int) -> None:
        benchmark.group = f"1k charges, {count} tenants"
        nothing = EdfQueue().pop

        def target() -> None:
            for _ in range(CHARGES):
                nothing()

        benchmark.pedantic(target, rounds=ROUNDS)
