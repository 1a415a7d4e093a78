"""One model, its pools and replicas, so that a test says only what matters to it."""

from headway._core import (
    Batch,
    BatchOutcome,
    ReplicaCondition,
    Scheduler,
    Verdict,
    split_point,
)

MS = 1_000_000
SECOND = 1_000 * MS
PRIOR_INTERCEPT_NS = 18 * MS
PRIOR_SLOPE_NS = 22_000


def exact_ns(units: int, speed: float = 1.0) -> int:
    """Device time of a batch on the reference device: 18 ms + 22 us a unit."""
    return round((PRIOR_INTERCEPT_NS + PRIOR_SLOPE_NS * units) / speed)


class Fleet:
    """A scheduler with one unlimited tenant, one model and one pool; time is a field."""

    def __init__(
        self,
        *,
        max_queued_requests: int = 1_000,
        max_queued_units: int = 10**9,
        prior_intercept_ns: float = PRIOR_INTERCEPT_NS,
        prior_slope_ns: float = PRIOR_SLOPE_NS,
        max_live: int = 65_536,
        max_attempts: int = 3,
        seed: int = 1,
    ) -> None:
        self.core = Scheduler(seed=seed, max_live=max_live, max_attempts=max_attempts)
        self.now = 0
        self.tenant = self.core.add_tenant(0, units_per_s=float("inf"), burst_units=float("inf"))
        self.model = self.core.add_model(salt=7)
        self.pool = self.core.add_pool(
            max_queued_requests=max_queued_requests,
            max_queued_units=max_queued_units,
            prior_intercept_ns=prior_intercept_ns,
            prior_slope_ns=prior_slope_ns,
        )
        self.core.set_split(self.model, [self.pool], [1.0])

    def add_pool(self) -> int:
        return self.core.add_pool(
            max_queued_requests=1_000,
            max_queued_units=10**9,
            prior_intercept_ns=PRIOR_INTERCEPT_NS,
            prior_slope_ns=PRIOR_SLOPE_NS,
        )

    def replica(
        self,
        pool: int | None = None,
        *,
        max_outstanding: int = 1,
        max_requests: int = 32,
        max_rows: int = 0,
        max_units: int = 16_384,
        condition: ReplicaCondition = ReplicaCondition.READY,
    ) -> int:
        replica = self.core.add_replica(
            self.now,
            self.pool if pool is None else pool,
            max_outstanding=max_outstanding,
            max_requests=max_requests,
            max_rows=max_rows,
            max_units=max_units,
        )
        self.core.set_replica_condition(self.now, replica, condition)
        return replica

    def offer(
        self,
        *,
        slack: int = 900 * MS,
        units: int = 100,
        rows: int = 1,
        lane: int = 1,
        tenant: int | None = None,
        pool: int = -1,
        key_hash: int = 0,
    ) -> int | Verdict:
        return self.core.offer(
            self.now,
            self.tenant if tenant is None else tenant,
            self.model,
            pool,
            key_hash,
            units,
            rows,
            self.now + slack,
            2,
            lane,
            1.0,
        )

    def ticket(
        self,
        *,
        slack: int = 900 * MS,
        units: int = 100,
        rows: int = 1,
        lane: int = 1,
        pool: int = -1,
    ) -> int:
        """Offers a request that must be admitted."""
        answer = self.offer(slack=slack, units=units, rows=rows, lane=lane, pool=pool)
        assert isinstance(answer, int)
        return answer

    def refusal(
        self,
        *,
        slack: int = 900 * MS,
        units: int = 100,
        rows: int = 1,
        tenant: int | None = None,
        pool: int = -1,
        key_hash: int = 0,
    ) -> Verdict:
        """Offers a request that must be refused."""
        answer = self.offer(
            slack=slack, units=units, rows=rows, tenant=tenant, pool=pool, key_hash=key_hash
        )
        assert isinstance(answer, Verdict)
        return answer

    def form(self, pool: int | None = None) -> Batch | None:
        return self.core.form_batch(self.now, self.pool if pool is None else pool)

    def batch(self) -> Batch:
        """Forms a batch that must be there."""
        batch = self.form()
        assert batch is not None
        return batch

    def run(self, batch: Batch, device_ns: int | None = None, handoff_ns: int = 0) -> list[int]:
        """Lets time pass until `batch` is answered; by default it takes what the prior says."""
        took = exact_ns(batch.units) if device_ns is None else device_ns
        self.now += took + handoff_ns
        return self.core.complete(self.now, batch.id, BatchOutcome.OK, took, batch.units)

    def share_of(self, replica: int) -> float:
        """Share of a replica in the batches of a second, of one request each."""
        until, taken, total = self.now + SECOND, 0, 0
        while self.now < until:
            self.ticket(slack=3_600 * SECOND)
            batch = self.batch()
            taken += batch.replica == replica
            total += 1
            self.run(batch, exact_ns(100))
        return taken / total

    def teach(self, batches: int = 6, *, scale: float = 1.0) -> None:
        """Runs batches of different sizes whose device time is `scale` times the prior's."""
        for index in range(batches):
            self.ticket(units=100 + 100 * (index % 3), slack=3_600 * SECOND)
            batch = self.batch()
            self.run(batch, round(scale * exact_ns(batch.units)))


def key_at(share: float, salt: int) -> int:
    """A key hash whose point in the split lies within 0.01 of `share`."""
    return next(key for key in range(10_000) if abs(split_point(key, salt) - share) < 0.01)
