"""What does choosing a replica for an output cost as the fleet grows, its admission, a deadline?

Question:  the cost of `StreamPool.choose`, of taking an output in, of refusing one by the limit and
           by its deadline, and of taking note of a replica's new capacity, with 10, 1,000 and
           10,000 replicas; of a deadline set and struck out, with 10 to 100,000 live.
Workload:  100 calls a round (the table's time is for 100). Replicas have a lane each and memory at
           random; every second one has enough. For refusals no lane is free, each replica has an
           output under way, and for those by the limit as many wait. Beside it scans of the fleet,
           of the outputs under way and of the deadlines, which this replaced, 10 calls a round (1
           of 10,000 replicas); and calls that do nothing.
Command:   python -m pytest bench/micro/test_stream_choice.py --benchmark-only -p no:xdist
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from headway import errors
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
            [
                each
                for each in pool.replicas.values()
                if each.replica.condition == ReplicaCondition.READY and each.would_take(needed)
            ]

        benchmark.pedantic(repeated(scan, SCANS), rounds=10)

    def test_null_call(self, benchmark: BenchmarkFixture, count: int) -> None:
        benchmark.group = f"100 stream choices, {count} replicas"
        benchmark.pedantic(repeated(EdfQueue().pop, CALLS), rounds=300)


class Door:
    """Admission of outputs to a fleet with an output under way on each replica."""

    def __init__(self, count: int, *, limit: int, is_open: bool) -> None:
        self.core = Scheduler(seed=1, max_live=1 << 20)
        self.tenants = [self.add_tenant() for _ in range(2)]
        self.pool = self.core.add_pool(
            max_queued_requests=1 << 40, max_queued_units=1 << 62, prior_intercept_ns=1,
            prior_slope_ns=1,
        )  # fmt: skip
        self.core.set_admission(self.pool, limit_initial=limit, limit_min=1, limit_max=limit)
        self.fleet = fleet(count)
        self.fleet.forecast.learn_first(1, 100, 1_000)
        self.version = cast(Any, SimpleNamespace(name="m", num_replicas=count, handle=self.pool))
        self.door = StreamAdmission(self.core, renew=lambda caller: 0)
        draws = Rng(5)
        for replica in self.fleet.replicas.values():
            self.admit(0, 1 << 60)
            hold_ns = 1_000_000_000 + draws.below(9_000_000_000)
            ticket = self.core.next_output(self.pool)
            assert ticket is not None
            self.core.begin_output(1, ticket, hold_ns, 10 * hold_ns, 1.0)
            replica.inflight[ticket] = cast(Any, SimpleNamespace(stream_id=ticket))
            replica.free_lanes = int(is_open)
            replica.gap_ns = 1e7 + draws.below(90_000_000)
            self.fleet.note(replica)

    def add_tenant(self) -> int:
        return self.core.add_tenant(0, units_per_s=1e12, burst_units=1e15)

    def admit(self, tenant: int, deadline_ns: int) -> int | None:
        """The ticket; None where it is refused."""
        caller = SimpleNamespace(handle=self.tenants[tenant], tenant="t")
        record: Any = SimpleNamespace(
            arrived_ns=1, deadline_ns=deadline_ns, units=100, pinned=False, caller=caller,
            priority=2, reading=None,
        )  # fmt: skip
        try:
            expected = self.fleet.forecast.lengths.expected(budget=50)
            return self.door.admit(record, self.version, self.fleet, expected).ticket
        except errors.RequestError:
            return None


@pytest.mark.parametrize("count", REPLICAS)
class TestAdmission:
    """100 arrivals with a lane free and time enough; they end at once."""

    def test_core(self, benchmark: BenchmarkFixture, count: int) -> None:
        benchmark.group = f"100 stream admissions, {count} replicas"
        door = Door(count, limit=1 << 20, is_open=True)

        def admit() -> None:
            ticket = door.admit(0, 1 << 60)
            assert ticket is not None
            door.core.end_output(1, ticket)

        benchmark.pedantic(repeated(admit, CALLS), rounds=300)


@pytest.mark.parametrize("count", REPLICAS)
class TestRefusal:
    """100 arrivals that are refused, with the error that their callers get."""

    def test_by_the_limit(self, benchmark: BenchmarkFixture, count: int) -> None:
        benchmark.group = f"100 stream refusals, {count} replicas"
        # As many wait as are written, and the arrival's tenant has no less in hand.
        door = Door(count, limit=2 * count, is_open=False)
        for _ in range(count):
            door.admit(0, 1 << 60)
        assert door.admit(0, 1 << 60) is None
        benchmark.pedantic(repeated(lambda: door.admit(0, 1 << 60), CALLS), rounds=300)

    def test_by_deadline(self, benchmark: BenchmarkFixture, count: int) -> None:
        benchmark.group = f"100 stream refusals, {count} replicas"
        door = Door(count, limit=1 << 20, is_open=False)
        assert door.admit(1, 1_000_000) is None
        benchmark.pedantic(repeated(lambda: door.admit(1, 1_000_000), CALLS), rounds=300)

    def test_scan(self, benchmark: BenchmarkFixture, count: int) -> None:
        """What it was: each replica's time, and the rest of each output under way, in order."""
        calls = SCANS if count < REPLICAS[-1] else 1
        benchmark.group = f"{calls} scans for a refusal, {count} replicas"
        door = Door(count, limit=1 << 20, is_open=False)
        forecast, replicas = door.fleet.forecast, list(door.fleet.replicas.values())
        lengths = forecast.lengths

        def scan() -> None:
            num_gaps = lengths.expected(budget=50) - 1
            min(forecast.first_ns(each, 100) + num_gaps * each.gap_ns for each in replicas)
            sorted(
                (lengths.expected(generated=10, budget=50) - 10) * each.gap_ns
                for each in replicas
                for _ in each.inflight
            )

        benchmark.pedantic(repeated(scan, calls), rounds=10)


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
