"""A scheduler's bookkeeping in plain Python: who is where, and nothing of how it is decided.

It knows no batch policy: it is told what the core decided and says whether that was allowed.
"""

from dataclasses import dataclass, field

from headway._core import Batch, BatchOutcome, BatchReason


@dataclass
class PlainRequest:
    pool: int
    units: int
    rows: int
    deadline_ns: int
    priority: int = 2
    batch: int = 0
    attempts: int = 0


@dataclass
class PlainReplica:
    pool: int
    max_outstanding: int
    max_requests: int
    max_rows: int
    max_units: int
    ready: bool = True
    capacity: bool = True

    def takes(self, requests: int, rows: int, units: int) -> bool:
        limits = ((requests, self.max_requests), (rows, self.max_rows), (units, self.max_units))
        return all(limit == 0 or value <= limit for value, limit in limits)


@dataclass
class PlainScheduler:
    """What must be true whatever the policy."""

    max_queued_requests: int
    max_live: int
    max_attempts: int
    live: dict[int, PlainRequest] = field(default_factory=dict)
    replicas: dict[int, PlainReplica] = field(default_factory=dict)
    batches: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    # Late batches and their copies, both ways.
    twins: dict[int, int] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)

    def queued(self, pool: int) -> list[PlainRequest]:
        return [r for r in self.live.values() if r.pool == pool and not r.batch]

    def outstanding(self, replica: int) -> int:
        return sum(1 for held, _ in self.batches.values() if held == replica)

    def has_capacity(self, pool: int) -> bool:
        return any(r.pool == pool and r.capacity for r in self.replicas.values())

    def could_take(self, pool: int, rows: int, units: int) -> bool:
        return any(
            r.pool == pool and r.capacity and r.takes(1, rows, units)
            for r in self.replicas.values()
        )

    def admit(self, ticket: int, request: PlainRequest) -> None:
        assert ticket > 0
        assert ticket not in self.live
        assert ticket not in self.ended, "a ticket came twice"
        self.live[ticket] = request

    def displace(self, ticket: int, pool: int, priority: int) -> None:
        """A queued request of a lower class leaves for another one."""
        request = self.end(ticket)
        assert (request.pool, request.batch) == (pool, 0)
        assert request.priority > priority
        waiting = [other.priority for other in self.queued(pool)]
        assert request.priority >= max(waiting, default=0), "a lower class stayed"

    def end(self, ticket: int) -> PlainRequest:
        assert ticket not in self.ended, "ended twice"
        self.ended.add(ticket)
        return self.live.pop(ticket)

    def begin(self, batch: Batch) -> None:
        replica = self.replicas[batch.replica]
        assert replica.ready
        assert replica.pool == batch.pool
        in_hand = self.outstanding(batch.replica)
        # One more than its only slot may be on its way to where it waits.
        assert in_hand < max(2, replica.max_outstanding)
        assert batch.is_pipelined == (in_hand > 0)
        if batch.hedge_of:
            self.begin_copy(batch)
            return
        members = [self.live[ticket] for ticket in batch.tickets]
        assert len(members) == len(set(batch.tickets)) == len(batch) > 0
        assert replica.takes(len(members), batch.rows, batch.units)
        assert batch.rows == sum(member.rows for member in members)
        assert batch.units == sum(member.units for member in members)
        # A lone probe of a doubted cost model may be late; nobody else is.
        if not (len(members) == 1 and batch.reason == BatchReason.DEADLINE):
            assert min(batch.slack_ns) >= 0
        for member, attempts in zip(members, batch.attempts, strict=True):
            assert (member.pool, member.batch) == (batch.pool, 0)
            member.batch = batch.id
            member.attempts += 1
            assert member.attempts == attempts <= self.max_attempts
        assert batch.id not in self.batches
        self.batches[batch.id] = (batch.replica, batch.tickets)

    def begin_copy(self, batch: Batch) -> None:
        """The live members of a late batch, on another replica that had nothing to do."""
        on, tickets = self.batches[batch.hedge_of]
        assert batch.replica != on
        assert not batch.is_pipelined
        assert batch.tickets == [ticket for ticket in tickets if ticket in self.live]
        assert not any(r.pool == batch.pool and not r.batch for r in self.live.values())
        assert batch.id not in self.twins
        assert batch.hedge_of not in self.twins
        self.twins[batch.id], self.twins[batch.hedge_of] = batch.hedge_of, batch.id
        self.batches[batch.id] = (batch.replica, batch.tickets)

    def complete(
        self, batch: int, outcome: BatchOutcome, retry: list[int], without_answer: list[int]
    ) -> None:
        _, tickets = self.batches.pop(batch)
        twin = self.twins.pop(batch, 0)
        self.twins.pop(twin, None)
        for ticket in tickets:
            member = self.live.get(ticket)
            if member is None or member.batch not in (batch, twin):
                assert ticket not in without_answer
                continue
            answered = outcome == BatchOutcome.OK and ticket not in retry
            if twin and not answered:
                # The other copy goes on.
                assert ticket not in without_answer
                member.batch = twin
                continue
            member.attempts -= outcome == BatchOutcome.BUSY
            member.batch = 0
            if answered or ticket in without_answer:
                assert answered != (ticket in without_answer)
                self.end(ticket)
            else:
                assert member.attempts < self.max_attempts
