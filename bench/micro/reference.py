"""The same decisions in plain Python: what the core is measured against.

Written as one would without a native module: a sorted list, dictionaries, floats. It decides the
same way (bucket, deadline, earliest deadline first, affine cost, power of two choices) with less
bookkeeping than the core does, so the comparison flatters it.
"""

import random
from bisect import bisect_left, insort
from dataclasses import dataclass, field

FIXED_NS = 18_000_000
UNIT_NS = 22_000


@dataclass
class PlainBucket:
    """A token bucket in floats."""

    units_per_s: float
    burst: float
    level: float
    at_ns: int = 0

    def try_take(self, now_ns: int, units: int) -> bool:
        """Takes `units` if it holds them."""
        elapsed_s = (now_ns - self.at_ns) / 1e9
        level = min(self.burst, self.level + elapsed_s * self.units_per_s)
        if units > level:
            return False
        self.level, self.at_ns = level - units, now_ns
        return True


@dataclass
class PlainRequest:
    """A queued request."""

    ticket: int
    units: int
    rows: int
    deadline_ns: int
    arrived_ns: int


@dataclass
class PlainScheduler:
    """One pool."""

    max_requests: int = 32
    max_units: int = 16_384
    bucket: PlainBucket = field(default_factory=lambda: PlainBucket(1e18, 1e18, 1e18))
    queue: list[tuple[int, int]] = field(default_factory=list)
    live: dict[int, PlainRequest] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    latency_ns: dict[int, float] = field(default_factory=dict)
    batches: dict[int, tuple[int, int, list[int]]] = field(default_factory=dict)
    next_ticket: int = 1
    next_batch: int = 1
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    def offer(self, now_ns: int, units: int, rows: int, deadline_ns: int) -> int | None:
        """A ticket, or None."""
        if now_ns + FIXED_NS + UNIT_NS * units > deadline_ns:
            return None
        if not self.bucket.try_take(now_ns, units):
            return None
        ticket = self.next_ticket
        self.next_ticket += 1
        self.live[ticket] = PlainRequest(ticket, units, rows, deadline_ns, now_ns)
        insort(self.queue, (deadline_ns, ticket))
        return ticket

    def cancel(self, ticket: int) -> None:
        """Forgets a queued request."""
        request = self.live.pop(ticket)
        del self.queue[bisect_left(self.queue, (request.deadline_ns, ticket))]

    def pick(self) -> int:
        """The better of two free replicas."""
        if len(self.free) == 1:
            return self.free[0]
        one, two = self.chance.sample(self.free, 2)
        return min(one, two, key=lambda replica: self.latency_ns.get(replica, FIXED_NS))

    def form_batch(self, now_ns: int) -> int | None:
        """A batch's id, or None."""
        if not self.free or not self.queue:
            return None
        replica = self.pick()
        tickets: list[int] = []
        units = 0
        earliest = self.queue[0][0]
        for _, ticket in self.queue:
            request = self.live[ticket]
            after = units + request.units
            if len(tickets) == self.max_requests or after > self.max_units:
                break
            if now_ns + FIXED_NS + UNIT_NS * after > earliest:
                break
            tickets.append(ticket)
            units = after
        del self.queue[: len(tickets)]
        self.free.remove(replica)
        batch = self.next_batch
        self.next_batch += 1
        self.batches[batch] = (replica, now_ns, tickets)
        return batch

    def complete(self, now_ns: int, batch: int) -> None:
        """Ends a batch and learns its latency."""
        replica, began_ns, tickets = self.batches.pop(batch)
        for ticket in tickets:
            del self.live[ticket]
        before = self.latency_ns.get(replica, 0.0)
        self.latency_ns[replica] = max(before * 0.9, now_ns - began_ns)
        self.free.append(replica)
