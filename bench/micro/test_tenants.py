"""Does a request cost more where there are many tenants?

Question:  the cost of a request at admission with 10, 10,000 and 1,000,000 tenants, each with a
           quota; and of the bucket alone. At 10,000 it is to be within 1.2 of that at ten.
Workload:  100 admissions a round of tenants drawn at random, cancelled between rounds, so that
           reserving and giving back are both in it; queue of 10. Beside it `charge` alone, which
           is one bucket, and a call that does nothing. The table's time is for 100. A million
           tenants in a table of a million: memory is in the extra information, MiB.
Command:   python -m pytest bench/micro/test_tenants.py --benchmark-only
"""

import resource

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.fleet import CoreFleet

CALLS = 100
ROUNDS = 300
TENANTS = (10, 10_000, 1_000_000)
MS = 1_000_000
KIB = 1024


def with_tenants(count: int) -> tuple[CoreFleet, list[int], float]:
    """A fleet, its tenants' handles, and the MiB that the tenants took."""
    fleet = CoreFleet(10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    add = fleet.core.add_tenant
    handles = [add(0, units_per_s=1e6, burst_units=1e6) for _ in range(count)]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return fleet, handles, grown / KIB


@pytest.mark.parametrize("count", TENANTS)
def test_admission(benchmark: BenchmarkFixture, count: int) -> None:
    benchmark.group = "100 admissions and their ends"
    fleet, handles, mib = with_tenants(count)
    benchmark.extra_info["mib"] = round(mib, 1)
    admit, cancel, draws = fleet.core.admit, fleet.core.cancel, fleet.draws
    now = 0

    def setup() -> tuple[tuple[list[int]], dict[str, object]]:
        nonlocal now
        now += MS
        return ([handles[draws.below(count)] for _ in range(CALLS)],), {}

    def run(tenants: list[int]) -> None:
        due = now + 10_000 * MS
        for tenant in tenants:
            answer = admit(now, tenant, 0, -1, 5, 100, 1, due, 2, 1, 1.0)
            cancel(now, answer.ticket)  # type: ignore[union-attr]  # none is refused

    benchmark.pedantic(run, setup=setup, rounds=ROUNDS, warmup_rounds=5)


@pytest.mark.parametrize("count", TENANTS)
def test_bucket(benchmark: BenchmarkFixture, count: int) -> None:
    benchmark.group = "100 charges"
    fleet, handles, _ = with_tenants(count)
    charge, draws = fleet.core.charge, fleet.draws

    def setup() -> tuple[tuple[list[int]], dict[str, object]]:
        return ([handles[draws.below(count)] for _ in range(CALLS)],), {}

    def run(tenants: list[int]) -> None:
        for tenant in tenants:
            charge(0, tenant, 1)

    benchmark.pedantic(run, setup=setup, rounds=ROUNDS, warmup_rounds=5)


def test_null_call(benchmark: BenchmarkFixture) -> None:
    benchmark.group = "100 charges"
    nothing = CoreFleet(10).core.num_executing

    def run() -> None:
        for _ in range(CALLS):
            nothing()

    benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=5)
