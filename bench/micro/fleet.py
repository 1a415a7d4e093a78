"""A core scheduler in the state that a benchmark wants, and its plain twin."""

from bench.micro.reference import FIXED_NS, UNIT_NS, PlainScheduler
from headway._core import ReplicaCondition, Rng, Scheduler

SECOND = 1_000_000_000
SLOTS = 1_000
"""Batches that a replica takes at once: benchmarks of the queue never run out of them."""


class CoreFleet:
    """One tenant, model and pool, `replicas` replicas, `queued` requests of 50 to 250 units."""

    def __init__(self, queued: int, *, replicas: int = 1, slots: int = SLOTS) -> None:
        self.core = Scheduler(seed=1, max_live=2**18)
        self.core.add_tenant(0, units_per_s=1e18, burst_units=1e18)
        self.core.add_model(salt=7)
        self.core.add_pool(
            max_queued_requests=2**20,
            max_queued_units=2**40,
            prior_intercept_ns=FIXED_NS,
            prior_slope_ns=UNIT_NS,
        )
        self.core.set_split(0, [0], [1.0])
        for _ in range(replicas):
            replica = self.core.add_replica(
                0, 0, max_outstanding=slots, max_requests=32, max_rows=0, max_units=16_384
            )
            self.core.set_replica_condition(0, replica, ReplicaCondition.READY)
        self.draws = Rng(2)
        self.fill(queued)

    def request(self) -> tuple[int, int]:
        """Units and deadline of the next arrival; deadlines fall anywhere in the queue."""
        return 50 + self.draws.below(200), 100 * SECOND + self.draws.below(3_600 * SECOND)

    def fill(self, count: int) -> list[int]:
        """Queues so many requests."""
        tickets = []
        for _ in range(count):
            units, deadline = self.request()
            answer = self.core.offer(0, 0, 0, -1, 5, units, 1, deadline, 2, 1, 1.0)
            assert isinstance(answer, int)
            tickets.append(answer)
        return tickets


class PlainFleet:
    """The same in plain Python."""

    def __init__(self, queued: int, *, replicas: int = 1) -> None:
        self.plain = PlainScheduler(free=list(range(replicas)))
        self.draws = Rng(2)
        self.fill(queued)

    def request(self) -> tuple[int, int]:
        """Units and deadline of the next arrival."""
        return 50 + self.draws.below(200), 100 * SECOND + self.draws.below(3_600 * SECOND)

    def fill(self, count: int) -> list[int]:
        """Queues so many requests."""
        tickets = []
        for _ in range(count):
            units, deadline = self.request()
            ticket = self.plain.offer(0, units, 1, deadline)
            assert ticket is not None
            tickets.append(ticket)
        return tickets
