"""A core scheduler in the state that a benchmark wants, and its plain twin."""

from typing import Self

from bench.micro.reference import FIXED_NS, UNIT_NS, PlainScheduler
from headway._core import Batch, BatchOutcome, ReplicaCondition, Rng, Scheduler

SECOND = 1_000_000_000
SLOTS = 1_000
"""Batches that a replica takes at once: benchmarks of the queue never run out of them."""
GAP_NS = 2_500_000
"""Between arrivals: one and a half times what the device can do. So each is judged, some are
refused early, and the shadows that learn the quantum have batches to form, as under overload."""
DEVICE_NS = 80_000_000
SETTLING = 3_000
"""Batches until the best of a queue that was filled at once have had their turn. Until then
requests come to stand where others did that have not been touched since the filling."""


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
        self.now_ns = 0
        self.fill(queued)

    def settle(self) -> Self:
        """Serves batches until the queue is as it is under lasting overload."""
        for _ in range(SETTLING):
            self.end(self.form())
        return self

    def request(self) -> tuple[int, int, int]:
        """Time, units and deadline of the next arrival; deadlines fall anywhere in the queue."""
        self.now_ns += GAP_NS
        return self.now_ns, *drawn(self.draws, self.now_ns)

    def fill(self, count: int) -> None:
        """Queues so many requests; as many more may come as are refused."""
        while count:
            now, units, deadline = self.request()
            answer = self.core.offer(now, 0, 0, -1, 5, units, 1, deadline, 2, 1, 1.0)
            count -= isinstance(answer, int)

    def form(self) -> Batch | None:
        """The next batch."""
        return self.core.form_batch(self.now_ns, 0)

    def end(self, batch: Batch | None) -> None:
        """Ends a batch well, and queues as many requests as it had."""
        assert batch is not None
        self.core.complete(self.now_ns, batch.id, BatchOutcome.OK, DEVICE_NS, batch.units)
        self.fill(len(batch))


class PlainFleet:
    """The same in plain Python."""

    def __init__(self, queued: int, *, replicas: int = 1) -> None:
        self.plain = PlainScheduler(free=list(range(replicas)))
        self.draws = Rng(2)
        self.now_ns = 0
        self.fill(queued)

    def request(self) -> tuple[int, int, int]:
        """Time, units and deadline of the next arrival."""
        self.now_ns += GAP_NS
        return self.now_ns, *drawn(self.draws, self.now_ns)

    def fill(self, count: int) -> None:
        """Queues so many requests."""
        for _ in range(count):
            now, units, deadline = self.request()
            assert self.plain.offer(now, units, 1, deadline) is not None


def drawn(draws: Rng, now_ns: int) -> tuple[int, int]:
    """Units and deadline of a request that comes now."""
    return 50 + draws.below(200), now_ns + 1_000 * SECOND + draws.below(3_600 * SECOND)
