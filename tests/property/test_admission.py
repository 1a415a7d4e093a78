"""What tenants are charged, and what classes have in hand, beside plain sums over all requests."""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headway._core import (
    Admission,
    BatchOutcome,
    RefusalReason,
    ReplicaCondition,
    Scheduler,
    Verdict,
)

MS = 1_000_000
BURST = 2_000.0
# One unit in 31 years: what a bucket holds is its burst less what was charged.
RATE = 1e-9
LIMIT = 6
TENANTS = st.integers(0, 2)
ANY = st.integers(0, 10**6)


@dataclass
class Paid:
    """One request that was taken in."""

    tenant: int
    priority: int
    units: int
    deadline_ns: int
    batch: int = 0


@dataclass
class Books:
    """Who has what in hand, and who has used what."""

    live: dict[int, Paid] = field(default_factory=dict)
    used: list[int] = field(default_factory=lambda: [0, 0, 0])
    batches: dict[int, list[int]] = field(default_factory=dict)

    def charged(self, tenant: int) -> int:
        return self.used[tenant] + sum(p.units for p in self.live.values() if p.tenant == tenant)

    def level(self, tenant: int) -> float:
        return max(-BURST, BURST - self.charged(tenant))

    def queued(self, tenant: int) -> int:
        return sum(1 for p in self.live.values() if p.tenant == tenant and not p.batch)

    def end(self, ticket: int, used: int) -> None:
        paid = self.live.pop(ticket)
        self.used[paid.tenant] += used


class AdmissionMachine(RuleBasedStateMachine):
    """Drives the core and keeps the books."""

    @initialize(seed=ANY)
    def begin(self, seed: int) -> None:
        self.now = 0
        self.core = Scheduler(seed=seed, max_live=32, max_attempts=2)
        for index in range(3):
            self.core.add_tenant(
                0, units_per_s=RATE, burst_units=BURST, weight=1 + index, max_queued_requests=4
            )
        self.model = self.core.add_model(salt=seed)
        self.pool = self.core.add_pool(
            max_queued_requests=5,
            max_queued_units=10**9,
            prior_intercept_ns=18e6,
            prior_slope_ns=22e3,
        )
        self.core.set_split(self.model, [self.pool], [1.0])
        self.core.set_admission(
            self.pool, limit_initial=LIMIT, limit_min=LIMIT, limit_max=LIMIT,
            reserved_critical=0.34,
        )  # fmt: skip
        replica = self.core.add_replica(
            0, self.pool, max_outstanding=2, max_requests=3, max_rows=0, max_units=0
        )
        self.core.set_replica_condition(0, replica, ReplicaCondition.READY)
        self.books = Books()

    @rule(ms=st.integers(0, 60))
    def wait(self, ms: int) -> None:
        self.now += ms * MS

    @rule(
        tenant=TENANTS,
        priority=st.integers(1, 3),
        units=st.integers(1, 400),
        slack=st.integers(50, 500),
    )
    def admit(self, tenant: int, priority: int, units: int, slack: int) -> None:
        due = self.now + slack * MS
        level, queued = self.books.level(tenant), self.books.queued(tenant)
        in_hand = len(self.books.live)
        answer = self.core.admit(
            self.now, tenant, self.model, -1, 0, units, 1, due, priority, 1, 1.0
        )
        seen = answer.reading
        assert seen.tenant_units == pytest.approx(level)
        assert seen.tenant_queued == queued
        if isinstance(answer, Admission):
            for ticket in answer.displaced:
                left = self.books.live[ticket]
                assert left.priority >= priority
                assert not left.batch
                self.books.end(ticket, 0)
            assert units <= level + 1e-3
            assert queued < 4
            assert len(self.books.live) < LIMIT
            self.books.live[answer.ticket] = Paid(tenant, priority, units, due)
            return
        self.check_refusal(answer, units, level, queued, in_hand, priority)

    def check_refusal(
        self, verdict: Verdict, units: int, level: float, queued: int, in_hand: int, priority: int
    ) -> None:
        reason = verdict.reason
        lower = [p for p in self.books.live.values() if p.priority > priority and not p.batch]
        if reason == RefusalReason.QUOTA_EXCEEDED:
            assert units > level
        elif reason == RefusalReason.TENANT_QUEUE_FULL:
            assert queued >= 4  # what comes back from a replica is not turned away
        elif reason == RefusalReason.LIMIT_REACHED:
            assert verdict.reading.inflight == in_hand
            assert in_hand + verdict.reading.reserved >= LIMIT
            assert not lower
        elif reason == RefusalReason.QUEUE_FULL:
            assert not lower
        else:
            assert reason in (RefusalReason.DEADLINE_UNREACHABLE, RefusalReason.OVERLOADED)

    @rule()
    def form(self) -> None:
        batch = self.core.form_batch(self.now, self.pool)
        if batch is not None:
            self.books.batches[batch.id] = batch.tickets
            for ticket in batch.tickets:
                self.books.live[ticket].batch = batch.id

    @precondition(lambda self: self.books.batches)
    @rule(
        number=ANY,
        outcome=st.sampled_from(["OK", "OK", "OK", "BUSY", "FAILED", "LOST"]),
        factor=st.integers(0, 3),
    )
    def complete(self, number: int, outcome: str, factor: int) -> None:
        batch = sorted(self.books.batches)[number % len(self.books.batches)]
        tickets = self.books.batches.pop(batch)
        members = [t for t in tickets if t in self.books.live]
        used = [(t, factor * self.books.live[t].units) for t in members]
        how: BatchOutcome = getattr(BatchOutcome, outcome)
        ended = self.core.complete(self.now, batch, how, 20 * MS, used=used)
        for ticket, units in used:
            if outcome == "OK":
                self.books.end(ticket, units)
            elif ticket in ended:
                self.books.end(ticket, 0)
            else:
                self.books.live[ticket].batch = 0

    @precondition(lambda self: self.books.live)
    @rule(number=ANY)
    def cancel(self, number: int) -> None:
        ticket = sorted(self.books.live)[number % len(self.books.live)]
        assert self.core.cancel(self.now, ticket) is not None
        self.end_early(ticket)

    @rule()
    def expire(self) -> None:
        for ended in self.core.expire(self.now):
            self.end_early(ended.ticket)

    def end_early(self, ticket: int) -> None:
        """What never ran costs nothing; what ran is paid as estimated."""
        paid = self.books.live[ticket]
        self.books.end(ticket, paid.units if paid.batch else 0)

    @invariant()
    def classes_agree(self) -> None:
        if not hasattr(self, "books"):
            return
        counts = [0, 0, 0]
        for paid in self.books.live.values():
            counts[paid.priority - 1] += 1
        stats = self.core.pool_stats(self.pool)
        assert stats.inflight == tuple(counts)
        assert stats.limit == LIMIT

    def teardown(self) -> None:
        """Ends everything: what was charged is what was used, and no count is left."""
        if not hasattr(self, "books"):
            return
        for ticket in sorted(self.books.live):
            self.core.cancel(self.now, ticket)
            self.end_early(ticket)
        stats = self.core.pool_stats(self.pool)
        assert stats.inflight == (0, 0, 0)
        due = self.now + 500 * MS
        for tenant in range(3):
            answer = self.core.admit(
                self.now, tenant, self.model, -1, 0, 1, 1, due, 1, 1, 1.0
            )  # fmt: skip
            seen = answer.reading
            assert seen.tenant_queued == 0
            if self.books.used[tenant] <= 2 * BURST:
                assert seen.tenant_units == pytest.approx(BURST - self.books.used[tenant])
            if isinstance(answer, Admission):
                self.core.cancel(self.now, answer.ticket)


TestAdmission = AdmissionMachine.TestCase
TestAdmission.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
