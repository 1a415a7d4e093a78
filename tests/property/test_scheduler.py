"""The scheduler beside its bookkeeping model, on random histories."""

from collections.abc import Mapping

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.property.scheduler_model import PlainReplica, PlainRequest, PlainScheduler

from headway._core import (
    BatchOutcome,
    RefusalReason,
    ReplicaCondition,
    Scheduler,
    Verdict,
)

MS = 1_000_000
POOLS = st.integers(0, 1)
ANY = st.integers(0, 10**6)


def pick(among: Mapping[int, object], number: int) -> int | None:
    """One of the keys, None if there are none."""
    return sorted(among)[number % len(among)] if among else None


class SchedulerMachine(RuleBasedStateMachine):
    """Drives the core and the model with the same calls."""

    @initialize(seed=st.integers(0, 2**64 - 1), max_attempts=st.integers(1, 4))
    def begin(self, seed: int, max_attempts: int) -> None:
        self.now = 0
        self.core = Scheduler(seed=seed, max_live=12, max_attempts=max_attempts)
        self.tenant = self.core.add_tenant(0, units_per_s=1e12, burst_units=1e12)
        self.model = self.core.add_model(salt=seed)
        for _ in range(2):
            self.core.add_pool(
                max_queued_requests=7,
                max_queued_units=10**9,
                prior_intercept_ns=18e6,
                prior_slope_ns=22e3,
            )
        self.core.set_split(self.model, [0, 1], [0.4, 0.6])
        self.core.set_resilience(hedge_share=1, pipelined=True)
        for pool in (0, 1):
            self.core.set_policy(pool, shed_early=False)
        self.plain = PlainScheduler(max_queued_requests=7, max_live=12, max_attempts=max_attempts)
        self.learn_what_is_late()

    def learn_what_is_late(self) -> None:
        """Serves some batches in each pool: without them nothing would be copied."""
        for pool in (0, 1):
            self.add_replica(pool, 1, 0, 0, 0)
            for index in range(22):
                self.offer(pool, 0, 10 + 20 * index, 1, 300, 1, 2, 1.0)
                self.form(pool)
                (batch,) = self.plain.batches
                self.now += 20 * MS
                assert self.core.complete(self.now, batch, BatchOutcome.OK, 20 * MS) == []
                self.plain.complete(batch, BatchOutcome.OK, [], [])
            self.add_replica(pool, 1, 0, 0, 0)

    @rule(ms=st.integers(0, 80))
    def wait(self, ms: int) -> None:
        self.now += ms * MS

    @rule(
        pool=st.integers(-1, 1),
        key=ANY,
        units=st.integers(1, 500),
        rows=st.integers(1, 4),
        slack=st.integers(-10, 400),
        lane=st.integers(1, 2),
        priority=st.integers(1, 3),
        weight=st.floats(0.1, 10),
    )
    def offer(
        self,
        pool: int,
        key: int,
        units: int,
        rows: int,
        slack: int,
        lane: int,
        priority: int,
        weight: float,
    ) -> None:
        deadline = self.now + slack * MS
        answer = self.core.admit(
            self.now,
            self.tenant,
            self.model,
            pool,
            key,
            units,
            rows,
            deadline,
            priority,
            lane,
            weight,
        )
        if not isinstance(answer, Verdict):
            chosen = self.core.pool_of(answer.ticket)
            assert pool in (-1, chosen)
            assert chosen == answer.pool
            full = len(self.plain.queued(chosen)) == self.plain.max_queued_requests
            assert bool(answer.displaced) == (full or len(self.plain.live) == self.plain.max_live)
            for ticket in answer.displaced:
                self.plain.displace(ticket, chosen, priority)
            assert slack > 0
            assert self.plain.could_take(chosen, rows, units)
            assert len(self.plain.queued(chosen)) < self.plain.max_queued_requests
            assert len(self.plain.live) < self.plain.max_live
            self.plain.admit(answer.ticket, PlainRequest(chosen, units, rows, deadline, priority))
            return
        assert pool in (-1, answer.pool)
        chosen, reason = answer.pool, answer.reason
        assert (reason == RefusalReason.DEADLINE_EXPIRED) == (slack <= 0)
        if reason == RefusalReason.NO_CAPACITY:
            assert not self.plain.has_capacity(chosen)
        elif reason == RefusalReason.TOO_LARGE:
            assert not self.plain.could_take(chosen, rows, units)
        elif reason == RefusalReason.QUEUE_FULL:
            assert len(self.plain.queued(chosen)) == self.plain.max_queued_requests
            assert answer.retry_after_ns >= MS
            assert all(r.priority <= priority for r in self.plain.queued(chosen))
        elif reason == RefusalReason.OVERLOADED:
            assert len(self.plain.live) == self.plain.max_live
            assert all(r.priority <= priority for r in self.plain.queued(chosen))
        elif reason == RefusalReason.DEADLINE_UNREACHABLE:
            assert answer.needed > answer.available == slack * MS

    @rule(pool=POOLS)
    def form(self, pool: int) -> None:
        batch = self.core.form_batch(self.now, pool)
        if batch is not None:
            self.plain.begin(batch)

    @rule(pool=POOLS, arrivals=st.integers(0, 2))
    def look(self, pool: int, arrivals: int) -> None:
        """What a gateway's timer does: it waits for the next event and asks again."""
        for _ in range(arrivals):
            self.offer(pool, 0, 100, 1, 2_000, 1, 2, 1.0)
        self.form(pool)
        event = self.core.next_event_ns()
        earliest = min((r.deadline_ns for r in self.plain.live.values()), default=None)
        if event is not None and (earliest is None or event < earliest):
            self.now = max(self.now, event)
        self.form(pool)

    @precondition(lambda self: self.plain.batches)
    @rule(
        number=ANY,
        outcome=st.sampled_from(["OK", "OK", "BUSY", "FAILED", "LOST"]),
        missing=st.integers(0, 2**12 - 1),
        device=st.integers(-1, 10**9),
        units=st.integers(-1, 10**6),
        retry_after=st.integers(-1, 10**8),
        failed=st.integers(-1, 3),
    )
    def complete(
        self,
        number: int,
        outcome: str,
        missing: int,
        device: int,
        units: int,
        retry_after: int,
        failed: int,
    ) -> None:
        batch = pick(self.plain.batches, number)
        assert batch is not None
        _, tickets = self.plain.batches[batch]
        retry = [t for index, t in enumerate(tickets) if missing >> index & 1]
        how: BatchOutcome = getattr(BatchOutcome, outcome)
        without = self.core.complete(
            self.now, batch, how, device, units, retry_after, retry, failed
        )
        self.plain.complete(batch, how, retry, without)
        assert self.core.complete(self.now, batch, how) == []

    @precondition(lambda self: self.plain.live)
    @rule(number=ANY)
    def cancel(self, number: int) -> None:
        ticket = pick(self.plain.live, number)
        assert ticket is not None
        ended = self.core.cancel(self.now, ticket)
        assert ended is not None
        assert (ended.ticket, ended.batch) == (ticket, self.plain.live[ticket].batch)
        self.plain.end(ticket)
        assert self.core.cancel(self.now, ticket) is None

    @rule()
    def expire(self) -> None:
        due = {t for t, r in self.plain.live.items() if r.deadline_ns <= self.now}
        ended = self.core.expire(self.now)
        told = {one.ticket for one in ended}
        assert due <= told
        # Beyond the due ones, only queued requests that nobody can serve in time any more.
        assert all(not self.plain.live[ticket].batch for ticket in told - due)
        for one in ended:
            request = self.plain.end(one.ticket)
            assert one.batch == request.batch
            assert (one.replica >= 0) == (request.batch > 0)

    @rule(
        pool=POOLS,
        outstanding=st.integers(1, 3),
        requests=st.integers(0, 5),
        rows=st.integers(0, 6),
        units=st.integers(0, 900),
    )
    def add_replica(
        self, pool: int, outstanding: int, requests: int, rows: int, units: int
    ) -> None:
        handle = self.core.add_replica(
            self.now,
            pool,
            max_outstanding=outstanding,
            max_requests=requests,
            max_rows=rows,
            max_units=units,
        )
        assert handle not in self.plain.replicas
        self.core.set_replica_condition(self.now, handle, ReplicaCondition.READY)
        self.plain.replicas[handle] = PlainReplica(pool, outstanding, requests, rows, units)

    @precondition(lambda self: self.plain.replicas)
    @rule(number=ANY, condition=st.sampled_from(["CONNECTING", "READY", "DRAINING"]))
    def set_condition(self, number: int, condition: str) -> None:
        handle = pick(self.plain.replicas, number)
        assert handle is not None
        self.core.set_replica_condition(self.now, handle, getattr(ReplicaCondition, condition))
        self.plain.replicas[handle].ready = condition == "READY"
        self.plain.replicas[handle].capacity = condition != "DRAINING"

    @precondition(lambda self: self.plain.replicas)
    @rule(number=ANY)
    def remove_replica(self, number: int) -> None:
        handle = pick(self.plain.replicas, number)
        assert handle is not None
        lost = self.core.remove_replica(self.now, handle)
        assert set(lost) == {b for b, (on, _) in self.plain.batches.items() if on == handle}
        del self.plain.replicas[handle]
        for batch in lost:
            without = self.core.complete(self.now, batch, BatchOutcome.LOST)
            self.plain.complete(batch, BatchOutcome.LOST, [], without)

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "plain"):
            return
        assert self.core.num_live() == len(self.plain.live)
        assert self.core.num_executing() == len(self.plain.batches)
        for ticket, request in self.plain.live.items():
            assert self.core.pool_of(ticket) == request.pool
        for pool in (0, 1):
            stats = self.core.pool_stats(pool)
            queued = self.plain.queued(pool)
            assert stats.queued_requests == len(queued)
            assert stats.queued_units == sum(r.units for r in queued)
            assert stats.queued_rows == sum(r.rows for r in queued)
            assert stats.ready_replicas == sum(
                r.ready for r in self.plain.replicas.values() if r.pool == pool
            )
            assert stats.drain_ns == self.core.drain_ns(pool) >= 0
        if self.plain.live:
            event = self.core.next_event_ns()
            assert event is not None
            assert event <= min(r.deadline_ns for r in self.plain.live.values())

    def teardown(self) -> None:
        """Ends everything; nothing may be left."""
        if not hasattr(self, "plain"):
            return
        for batch in sorted(self.plain.batches):
            self.core.complete(self.now, batch, BatchOutcome.OK)
        for ticket in sorted(self.plain.live):
            self.core.cancel(self.now, ticket)
        assert self.core.num_live() == self.core.num_executing() == 0
        for pool in (0, 1):
            stats = self.core.pool_stats(pool)
            assert stats.queued_requests == stats.queued_units == stats.queued_rows == 0
            assert stats.executing_batches == stats.executing_requests == stats.drain_ns == 0
        assert self.core.next_event_ns() is None


TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = settings(max_examples=150, stateful_step_count=40)
