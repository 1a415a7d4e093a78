"""Three times too much work in virtual time: classes, shares, and what a refusal may not do.

The production scheduler on the reference device (18 ms + 0.022 ms a unit, 8 % noise, one batch at
a time), Poisson arrivals at 3x the rate of full batches of average requests for 30 s after 10 s of
warm-up; 30 % within 400 ms, 70 % within 1500 ms. The share on time of 3,900 critical requests has a
binomial deviation of 0.0016 at 0.99; the seeds are fixed.
"""

import heapq
import math
from collections import Counter
from dataclasses import dataclass, field

import pytest

from headway._core import Admission, BatchOutcome, RefusalReason, ReplicaCondition, Rng, Scheduler

MS = 1_000_000
SECOND = 1_000 * MS
WARM_UP = 10 * SECOND
END = 40 * SECOND
CRITICAL, STANDARD, SHEDDABLE = 1, 2, 3
CAPACITY = 32 / (0.018 + 32 * math.exp(4.8 + 0.9**2 / 2) * 0.000_022)


@dataclass
class Overload:
    """One run; `served` and `offered` count by (class, tenant)."""

    rate: float
    seed: int = 1
    flood: float = 0.25
    weights: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    flood_value: float = 1.0
    classes: tuple[float, float, float] = (0.2, 0.3, 0.5)
    offered: Counter[tuple[int, int]] = field(default_factory=Counter)
    served: Counter[tuple[int, int]] = field(default_factory=Counter)
    units: Counter[int] = field(default_factory=Counter)
    critical_refused: int = 0

    def gauss(self) -> float:
        return math.sqrt(-2 * math.log(1 - self.rng.uniform())) * math.cos(
            2 * math.pi * self.rng.uniform()
        )

    def choice(self, shares: tuple[float, ...]) -> int:
        point = self.rng.uniform() * sum(shares)
        for index, share in enumerate(shares):
            point -= share
            if point < 0:
                return index
        return len(shares) - 1

    def run(self) -> "Overload":
        self.rng = Rng(self.seed)
        self.core = core = Scheduler(seed=self.seed)
        self.tenants = [
            core.add_tenant(0, units_per_s=1e12, burst_units=1e12, weight=weight)
            for weight in self.weights
        ]
        self.model = core.add_model(salt=1)
        self.pool = core.add_pool(
            max_queued_requests=20_000,
            max_queued_units=50_000_000,
            prior_intercept_ns=18e6,
            prior_slope_ns=22e3,
        )
        core.set_policy(self.pool, priority_weights=(64, 1, 1 / 64))
        core.set_admission(
            self.pool, limit_initial=10_000, limit_min=16, limit_max=100_000,
            reserved_critical=0.2, reserved_standard=0.2,
        )  # fmt: skip
        core.set_split(self.model, [self.pool], [1.0])
        replica = core.add_replica(
            0, self.pool, max_outstanding=1, max_requests=32, max_rows=0, max_units=16_384
        )
        core.set_replica_condition(0, replica, ReplicaCondition.READY)
        self.live: dict[int, tuple[int, int, int, int, int]] = {}
        self.running: list[tuple[int, int, list[int], int, int]] = []
        due = 0
        while due < END:
            due += round(-math.log(1 - self.rng.uniform()) / self.rate * SECOND)
            while self.running and self.running[0][0] <= due:
                self.finish()
            self.arrive(due)
            self.start(due)
        return self

    def arrive(self, now: int) -> None:
        priority = 1 + self.choice(self.classes)
        others = len(self.tenants) - 1
        tenant = self.choice((self.flood, *[(1 - self.flood) / others] * others))
        units = min(max(round(math.exp(4.8 + 0.9 * self.gauss())), 16), 4096)
        deadline = now + (400 if self.rng.uniform() < 0.3 else 1500) * MS
        if now > WARM_UP:
            self.offered[priority, tenant] += 1
        answer = self.core.admit(
            now, self.tenants[tenant], self.model, -1, self.rng.next_u64(), units, 1, deadline,
            priority, 1, self.flood_value if tenant == 0 else 1.0,
        )  # fmt: skip
        if isinstance(answer, Admission):
            for ticket in answer.displaced:
                del self.live[ticket]
            self.live[answer.ticket] = (priority, tenant, deadline, now, units)
        elif priority == CRITICAL and answer.reason != RefusalReason.DEADLINE_UNREACHABLE:
            self.critical_refused += 1

    def start(self, now: int) -> None:
        for ended in self.core.expire(now):
            del self.live[ended.ticket]
        batch = self.core.form_batch(now, self.pool)
        if batch is None:
            return
        took = round((18 * MS + 22_000 * batch.units) * max(0.5, 1 + 0.08 * self.gauss()))
        heapq.heappush(self.running, (now + took, batch.id, batch.tickets, took, batch.units))

    def finish(self) -> None:
        now, batch, tickets, took, units = heapq.heappop(self.running)
        self.start(now)
        self.core.complete(now, batch, BatchOutcome.OK, took, units)
        for ticket in tickets:
            priority, tenant, deadline, arrived, size = self.live.pop(ticket, (0, 0, 0, 0, 0))
            if priority and now <= deadline and arrived > WARM_UP:
                self.served[priority, tenant] += 1
                self.units[tenant] += size
        self.start(now)

    def on_time(self, priority: int) -> float:
        offered = sum(count for (of, _), count in self.offered.items() if of == priority)
        return sum(count for (of, _), count in self.served.items() if of == priority) / offered


@pytest.fixture(scope="module")
def overloaded() -> Overload:
    return Overload(3 * CAPACITY).run()


def test_critical_requests_are_on_time_while_sheddable_ones_are_shed(overloaded: Overload) -> None:
    assert overloaded.on_time(CRITICAL) >= 0.99
    assert overloaded.on_time(SHEDDABLE) < 0.05


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_critical_request_is_refused_while_lower_classes_ask(seed: int) -> None:
    run = Overload(3 * CAPACITY, seed=seed).run()
    assert run.critical_refused == 0
    assert run.on_time(CRITICAL) >= 0.99


def test_goodput_at_3x_is_at_least_nine_tenths_of_that_at_capacity(overloaded: Overload) -> None:
    at_capacity = Overload(CAPACITY).run()
    assert overloaded.served.total() >= 0.9 * at_capacity.served.total()


def test_a_flood_of_one_class_leaves_the_others_their_shares() -> None:
    run = Overload(3 * CAPACITY, flood=0.7, classes=(0, 1, 0)).run()
    shares = [run.units[tenant] / run.units.total() for tenant in range(4)]
    # The others ask for 0.3 of capacity each, more than a quarter of what is served.
    assert min(shares[1:]) >= 0.2
    assert shares[0] <= 0.4


def test_weights_of_its_own_choosing_buy_a_tenant_nothing_of_others() -> None:
    run = Overload(3 * CAPACITY, classes=(0, 1, 0), flood_value=1000.0).run()
    shares = [run.units[tenant] / run.units.total() for tenant in range(4)]
    assert shares == pytest.approx([0.25] * 4, abs=0.06)


def test_shares_are_by_weight() -> None:
    run = Overload(3 * CAPACITY, classes=(0, 1, 0), weights=(1.0, 1.0, 1.0, 3.0)).run()
    # The last one offers a quarter of 3x and may have half of it.
    assert run.units[3] / run.units.total() == pytest.approx(0.5, abs=0.08)
