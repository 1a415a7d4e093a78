"""What does choosing a replica for an output cost as the fleet grows, and a deadline?

Question:  the cost of `StreamPool.choose`, of admitting an output and of taking note of a replica's
           new capacity, with 10, 1,000 and 10,000 replicas; of a deadline set and struck out, with
           10 to 100,000 live.
Workload:  100 calls a round (the table's time is for 100). Replicas have a lane each and
           memory at random; every second one has enough. Beside it a scan of the fleet and of the
           deadlines, which this replaced, 10 calls a round; and calls that do nothing.
Command:   python -m pytest bench/micro/test_stream_choice.py --benchmark-only -p no:xdist
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from headway._core import EdfQueue, ReplicaCondition, Rng, Scheduler
from headway.gateway.deadline_queue import DeadlineQueue
from headway.gateway.stream_admission import StreamAdmission
from headway.gateway.stream_pool import StreamPool
from headway.gateway.stream_replica import StreamReplica
from headway.gateway.stream_request import PendingStream
from headway.v1 import worker_pb2

CALLS = 100
SCANS = 10
REPLICAS = (10, 1_000, 10_000)
LIVE = (10, 1_000, 100_000)
MEMORY = 1_000


def fleet(count: int) -> StreamPool:
    """Replicas with a lane and up to 1,000 units each."""
    pool, draws = StreamPool(), Rng(1)
    for handle in range(count):
        known = SimpleNamespace(handle=handle, wire_handle=0, condition=ReplicaCondition.READY)
        replica = StreamReplica(cast(Any, known))
        units = draws.below(MEMORY)
        replica.take_note(worker_pb2.Capacity(free_lanes=1, free_kv_units=units))
        pool.note(replica)
    return pool


def output() -> PendingStream:
    """What is asked of a stream when its replica is chosen: half the fleet has memory for it."""
    return cast(PendingStream, SimpleNamespace(units=MEMORY // 4, budget=MEMORY // 4, blocks=[]))


def repeated(call: Callable[[], object], times: int) -> Callable[[], None]:
    def target() -> None:
        for _ in range(times):
            call()

    return target


@pytest.mark.parametrize("count", REPLICAS)
class TestChoose:
    """100 choices."""

    def test_core(self, benchmark: BenchmarkFixture, count: int) -> None:
        benchmark.group = f"100 stream choices, {count} replicas"
        pool, stream, rng = fleet(count), output(), Rng(2)
        benchmark.pedantic(repeated(lambda: pool.choose(stream, rng), CALLS), rounds=300)

    def test_scan(self, benchmark: BenchmarkFixture, count: int) -> None:
        benchmark.group = f"{SCANS} scans, {count} replicas"
        pool, stream = fleet(count), output()
        needed = stream.units + stream.budget

        def scan() -> None:
            [each for each in pool.ready_replicas() if each.would_take(needed)]

        benchmark.pedantic(repeated(scan, SCANS), rounds=10)

    def test_null_call(self, benchmark: BenchmarkFixture, count: int) -> None:
        benchmark.group = f"100 stream choices, {count} replicas"
        benchmark.pedantic(repeated(EdfQueue().pop, CALLS), rounds=300)


@pytest.mark.parametrize("count", REPLICAS)
class TestAdmission:
    """100 arrivals with a lane free and time enough."""

    def test_core(self, benchmark: BenchmarkFixture, count: int) -> None:
        benchmark.group = f"100 stream admissions, {count} replicas"
        pool, known = fleet(count), cast(Any, SimpleNamespace(name="m", num_replicas=count))
        pool.forecast.learn_first(1, 100, 1_000)
        pool.replicas[0].inflight[1] = output()
        admission = StreamAdmission(
            Scheduler(seed=1), max_live=1 << 20, max_queued=1 << 20, renew=lambda caller: 0
        )

        record: Any = SimpleNamespace(arrived_ns=1, deadline_ns=1 << 60, units=100, pinned=False)

        def check() -> None:
            admission.check(record, known, pool, 50, 0)

        benchmark.pedantic(repeated(check, CALLS), rounds=300)


@pytest.mark.parametrize("count", REPLICAS)
class TestCapacity:
    """100 replicas say how much memory they have left."""

    def test_core(self, benchmark: BenchmarkFixture, count: int) -> None:
        benchmark.group = f"100 capacities, {count} replicas"
        pool, draws = fleet(count), Rng(3)
        replicas = list(pool.replicas.values())

        def change() -> None:
            replica = replicas[draws.below(count)]
            replica.free_units = draws.below(MEMORY)
            pool.note(replica)

        benchmark.pedantic(repeated(change, CALLS), rounds=300)


@pytest.mark.parametrize("count", LIVE)
class TestDeadlines:
    """100 outputs come and end before their deadlines, beside those that stay."""

    def test_core(self, benchmark: BenchmarkFixture, count: int) -> None:
        benchmark.group = f"100 deadlines, {count} live"
        queue, draws = DeadlineQueue(), Rng(4)
        for number in range(count):
            queue.push(draws.below(1 << 40), number)

        def come_and_go() -> None:
            queue.push(draws.below(1 << 40), count)
            queue.discard(count)
            queue.next_ns()

        benchmark.pedantic(repeated(come_and_go, CALLS), rounds=300)

    def test_scan(self, benchmark: BenchmarkFixture, count: int) -> None:
        benchmark.group = f"{SCANS} scans, {count} live"
        draws = Rng(4)
        live = {number: draws.below(1 << 40) for number in range(count)}
        benchmark.pedantic(repeated(lambda: min(live.values()), SCANS), rounds=10)
