"""Quotas settled with what was used, classes, limits, and shares among tenants."""

import pytest
from tests.unit.core.fleet import MS, SECOND, Fleet

from headway._core import Admission, BatchOutcome, RefusalReason, Verdict


class Tenants(Fleet):
    """A fleet whose offers say who asks and how important it is."""

    def add(self, *, rate: float = 1e9, burst: float = 1e9, **terms: float) -> int:
        return self.core.add_tenant(self.now, units_per_s=rate, burst_units=burst, **terms)  # type: ignore[arg-type]

    def admit(
        self,
        tenant: int | None = None,
        *,
        priority: int = 2,
        units: int = 100,
        slack: int = 900 * MS,
        weight: float = 1.0,
    ) -> Admission | Verdict:
        who = self.tenant if tenant is None else tenant
        due = self.now + slack
        return self.core.admit(
            self.now, who, self.model, -1, 0, units, 1, due, priority, 1, weight
        )  # fmt: skip

    def admitted(self, tenant: int | None = None, **request: int) -> Admission:
        answer = self.admit(tenant, **request)
        assert isinstance(answer, Admission)
        return answer

    def refused(self, tenant: int | None = None, **request: int) -> Verdict:
        answer = self.admit(tenant, **request)
        assert isinstance(answer, Verdict)
        return answer

    def level(self, tenant: int) -> float:
        """Units in a tenant's bucket, as the next admission sees them."""
        answer = self.admit(tenant, units=1)
        if isinstance(answer, Admission):
            self.core.cancel(self.now, answer.ticket)
        return answer.reading.tenant_units


class TestSettlement:
    def test_what_was_used_is_charged(self) -> None:
        fleet = Tenants()
        fleet.replica()
        tenant = fleet.add(rate=1e-9, burst=1_000)
        ticket = fleet.admitted(tenant, units=100).ticket
        batch = fleet.batch()
        fleet.core.complete(fleet.now, batch.id, BatchOutcome.OK, 20 * MS, used=[(ticket, 140)])
        assert fleet.level(tenant) == pytest.approx(860)

    def test_a_share_of_the_batch_where_nothing_else_is_told(self) -> None:
        fleet = Tenants()
        fleet.replica()
        one, other = (fleet.add(rate=1e-9, burst=1_000) for _ in range(2))
        fleet.admitted(one, units=100)
        fleet.admitted(other, units=300)
        batch = fleet.batch()
        assert len(batch) == 2
        fleet.core.complete(fleet.now, batch.id, BatchOutcome.OK, 20 * MS, 200)
        assert fleet.level(one) == pytest.approx(950)
        assert fleet.level(other) == pytest.approx(850)

    def test_more_than_the_bucket_holds_leaves_a_debt(self) -> None:
        fleet = Tenants()
        fleet.replica()
        tenant = fleet.add(rate=100, burst=100)
        ticket = fleet.admitted(tenant, units=100).ticket
        batch = fleet.batch()
        fleet.core.complete(fleet.now, batch.id, BatchOutcome.OK, 20 * MS, used=[(ticket, 150)])
        verdict = fleet.refused(tenant, units=50)
        assert verdict.reason == RefusalReason.QUOTA_EXCEEDED
        # 50 in debt and 50 wanted, at 100 a second.
        assert verdict.retry_after_ns == SECOND
        assert verdict.reading.tenant_units == -50

    @pytest.mark.parametrize("ending", ["cancel", "expire"])
    def test_what_never_ran_is_given_back(self, ending: str) -> None:
        fleet = Tenants()
        fleet.replica()
        tenant = fleet.add(rate=1e-9, burst=100)
        ticket = fleet.admitted(tenant, units=100).ticket
        assert fleet.refused(tenant, units=1).reason == RefusalReason.QUOTA_EXCEEDED
        if ending == "cancel":
            fleet.core.cancel(fleet.now, ticket)
        else:
            fleet.now += SECOND
            assert len(fleet.core.expire(fleet.now)) == 1
        assert fleet.level(tenant) == 100

    def test_what_was_cancelled_while_it_ran_is_paid(self) -> None:
        fleet = Tenants()
        fleet.replica()
        tenant = fleet.add(rate=1e-9, burst=100)
        ticket = fleet.admitted(tenant, units=60).ticket
        batch = fleet.batch()
        fleet.core.cancel(fleet.now, ticket)
        fleet.core.complete(fleet.now, batch.id, BatchOutcome.OK, 20 * MS, 60)
        assert fleet.level(tenant) == pytest.approx(40)

    def test_a_failure_of_ours_is_given_back(self) -> None:
        fleet = Tenants(max_attempts=1)
        fleet.replica()
        tenant = fleet.add(rate=1e-9, burst=100)
        fleet.admitted(tenant, units=60)
        assert fleet.core.complete(fleet.now, fleet.batch().id, BatchOutcome.LOST)
        assert fleet.level(tenant) == 100

    def test_a_request_beyond_a_divided_burst_waits_for_a_full_bucket(self) -> None:
        fleet = Tenants()
        fleet.replica()
        tenant = fleet.add(rate=50, burst=50, largest_units=100)
        assert fleet.refused(tenant, units=101).reason == RefusalReason.QUOTA_IMPOSSIBLE
        fleet.admitted(tenant, units=100)
        verdict = fleet.refused(tenant, units=100)
        # 50 in debt, and a full bucket of 50 wanted: 100 units at 50 a second.
        assert verdict.retry_after_ns == 2 * SECOND
        fleet.now += 2 * SECOND
        fleet.admitted(tenant, units=100)


class TestTenantQueue:
    def test_requests(self) -> None:
        fleet = Tenants()
        fleet.replica()
        tenant = fleet.add(max_queued_requests=2)
        first = fleet.admitted(tenant)
        fleet.admitted(tenant)
        verdict = fleet.refused(tenant)
        assert verdict.reason == RefusalReason.TENANT_QUEUE_FULL
        assert (verdict.needed, verdict.available) == (3, 2)
        assert isinstance(fleet.admit(), Admission), "another tenant is not concerned"
        fleet.core.cancel(fleet.now, first.ticket)
        fleet.admitted(tenant)

    def test_executing_requests_are_not_queued(self) -> None:
        fleet = Tenants()
        fleet.replica()
        tenant = fleet.add(max_queued_units=150)
        fleet.admitted(tenant, units=150)
        assert fleet.refused(tenant, units=1).reason == RefusalReason.TENANT_QUEUE_FULL
        fleet.batch()
        fleet.admitted(tenant, units=150)

    def test_a_request_above_the_bound_never_fits(self) -> None:
        fleet = Tenants()
        fleet.replica()
        tenant = fleet.add(max_queued_units=99)
        verdict = fleet.refused(tenant)
        assert (verdict.reason, verdict.retry_after_ns) == (RefusalReason.TENANT_QUEUE_FULL, 0)


class TestLimit:
    def limited(self, limit: int, **reserved: float) -> Tenants:
        fleet = Tenants()
        fleet.replica()
        fleet.core.set_admission(
            fleet.pool, limit_initial=limit, limit_min=1, limit_max=limit, **reserved
        )
        return fleet

    def test_no_more_than_the_limit_is_in_hand(self) -> None:
        fleet = self.limited(3)
        fleet.admitted()
        fleet.admitted()
        batch = fleet.batch()
        fleet.admitted()
        verdict = fleet.refused()
        assert verdict.reason == RefusalReason.LIMIT_REACHED
        assert (verdict.needed, verdict.available) == (4, 3)
        assert (verdict.reading.limit, verdict.reading.inflight) == (3, 3)
        fleet.run(batch)
        fleet.admitted()

    def test_a_part_is_kept_for_a_class_that_asks(self) -> None:
        fleet = self.limited(10, reserved_critical=0.3)
        fleet.core.cancel(fleet.now, fleet.admitted(priority=1).ticket)
        for _ in range(7):
            fleet.admitted(priority=2)
        verdict = fleet.refused(priority=2)
        assert (verdict.reason, verdict.available) == (RefusalReason.LIMIT_REACHED, 7)
        assert verdict.reading.reserved == 3
        for _ in range(3):
            assert fleet.admitted(priority=1).displaced == []

    def test_nothing_is_kept_for_a_class_that_did_not_ask_of_late(self) -> None:
        fleet = self.limited(10, reserved_critical=0.3, reserved_standard=0.3)
        fleet.core.cancel(fleet.now, fleet.admitted(priority=1).ticket)
        fleet.now += 10 * SECOND
        for _ in range(10):
            fleet.admitted(priority=3, slack=20 * SECOND)

    def test_the_stats_say_so(self) -> None:
        fleet = self.limited(10)
        fleet.admitted(priority=1)
        fleet.admitted(priority=3)
        stats = fleet.core.pool_stats(fleet.pool)
        assert (stats.limit, stats.limit_gradient) == (10, 1.0)
        assert stats.inflight == (1, 0, 1)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            (
                {"limit_initial": 0, "limit_min": 1, "limit_max": 5},
                "limit_initial must be from limit_min to limit_max, got 0",
            ),
            (
                {"limit_initial": 6, "limit_min": 1, "limit_max": 5},
                "limit_initial must be from limit_min to limit_max, got 6",
            ),
            (
                {"limit_initial": 1, "limit_min": 0, "limit_max": 5},
                "limit_min must be from 1 to 2**24, got 0",
            ),
            (
                {"limit_initial": 1, "limit_min": 1, "limit_max": 5,
                 "reserved_critical": 0.5, "reserved_standard": 0.5},
                "reserved_standard must be at most 0.95 together with reserved_critical, got 0.5",
            ),
        ],
    )  # fmt: skip
    def test_bad_settings(self, settings: dict[str, float], message: str) -> None:
        fleet = Tenants()
        with pytest.raises(ValueError) as error:
            fleet.core.set_admission(fleet.pool, **settings)  # type: ignore[arg-type]
        assert str(error.value) == message


class TestDisplacement:
    def test_the_lowest_class_leaves_first_and_of_it_the_least_valuable(self) -> None:
        fleet = Tenants(max_queued_requests=3)
        fleet.replica()
        fleet.admitted(priority=2)
        small = fleet.admitted(priority=3, units=10).ticket
        large = fleet.admitted(priority=3, units=200).ticket
        assert fleet.admitted(priority=1).displaced == [large]
        assert fleet.admitted(priority=1).displaced == [small]
        verdict = fleet.refused(priority=3)
        assert verdict.reason == RefusalReason.QUEUE_FULL
        assert fleet.core.pool_stats(fleet.pool).displaced == (0, 0, 2)

    def test_as_many_as_are_needed_or_none(self) -> None:
        fleet = Tenants(max_queued_units=300)
        fleet.replica()
        low = [fleet.admitted(priority=3).ticket for _ in range(2)]
        fleet.admitted(priority=1)
        assert fleet.refused(priority=2, units=250).reason == RefusalReason.QUEUE_FULL
        assert sorted(fleet.admitted(priority=2, units=200).displaced) == low

    def test_what_executes_stays(self) -> None:
        fleet = Tenants(max_queued_requests=1)
        fleet.replica()
        fleet.admitted(priority=3)
        fleet.batch()
        fleet.admitted(priority=2)
        assert fleet.refused(priority=2).reason == RefusalReason.QUEUE_FULL

    def test_a_tenant_over_its_share_gives_way_to_one_within(self) -> None:
        fleet = Tenants(max_queued_requests=4)
        fleet.replica()
        greedy, modest = fleet.add(), fleet.add()
        fleet.core.cancel(fleet.now, fleet.admitted(modest).ticket)
        tickets = [fleet.admitted(greedy).ticket for _ in range(4)]
        assert fleet.refused(greedy).reason == RefusalReason.QUEUE_FULL
        left = fleet.admitted(modest).displaced
        assert len(left) == 1
        assert left[0] in tickets[1:], "its first one was within its share"


class TestShares:
    def overloaded(self, weights: tuple[float, ...], rates: tuple[int, ...]) -> list[float]:
        """Device time that tenants get in 20 s; tenant i offers rates[i] requests a second."""
        fleet = Tenants()
        fleet.replica()
        tenants = [fleet.add(weight=weight) for weight in weights]
        owners: dict[int, int] = {}
        served = [0.0] * len(tenants)
        due = [SECOND // rate for rate in rates]
        running: tuple[int, int, list[int], int] | None = None
        while fleet.now < 30 * SECOND:
            nearest = min(range(len(due)), key=lambda index: due[index])
            if running is not None and running[0] <= due[nearest]:
                fleet.now, batch, members, units = running
                fleet.core.complete(fleet.now, batch, BatchOutcome.OK, 18 * MS + 22_000 * units)
                if fleet.now > 10 * SECOND:
                    for ticket in members:
                        served[owners[ticket]] += 1
                running = None
            else:
                fleet.now = due[nearest]
                due[nearest] += SECOND // rates[nearest]
                answer = fleet.admit(tenants[nearest], slack=600 * MS)
                if isinstance(answer, Admission):
                    owners[answer.ticket] = nearest
            fleet.core.expire(fleet.now)
            if running is None and (formed := fleet.form()) is not None:
                took = 18 * MS + 22_000 * formed.units
                running = (fleet.now + took, formed.id, formed.tickets, formed.units)
        total = sum(served)
        return [share / total for share in served]

    def test_a_flood_does_not_take_the_share_of_others(self) -> None:
        # About 350 requests a second are possible; the flood alone offers 1,000.
        flood, *others = self.overloaded((1, 1, 1, 1), (1_000, 100, 100, 100))
        assert min(others) > 0.2
        assert flood < 0.36

    def test_by_weight(self) -> None:
        shares = self.overloaded((3, 1), (600, 600))
        assert shares[0] == pytest.approx(0.75, abs=0.06)

    def test_what_one_leaves_the_others_get(self) -> None:
        light, *heavy = self.overloaded((1, 1, 1), (20, 500, 500))
        # 20 of some 350 requests a second: all it asks for, and no more.
        assert light == pytest.approx(20 / 350, abs=0.015)
        assert heavy[0] == pytest.approx(heavy[1], abs=0.05)

    def test_one_alone_is_never_over_its_share(self) -> None:
        fleet = Tenants()
        fleet.replica()
        tenant = fleet.add(weight=0.001)
        for _ in range(30):
            answer = fleet.admitted(tenant, priority=3)
            assert answer.reading.share_ratio <= 1.0
            assert answer.reading.weight_part == 1.0


class TestTable:
    def test_an_idle_tenant_is_forgotten_for_another_and_comes_back_as_new(self) -> None:
        from headway._core import Scheduler

        core = Scheduler(seed=1, max_tenants=2)
        one = core.add_tenant(0, units_per_s=10, burst_units=10)
        core.add_tenant(0, units_per_s=10, burst_units=10)
        third = core.add_tenant(0, units_per_s=10, burst_units=10)
        assert core.num_tenants() == (2, 0)
        with pytest.raises(KeyError, match=f"no tenant has the handle {one}"):
            core.charge(0, one, 1)
        assert core.charge(0, third, 10) == 0

    def test_a_full_table_of_active_tenants_says_so(self) -> None:
        from headway._core import Scheduler

        core = Scheduler(seed=1, max_tenants=1)
        only = core.add_tenant(0, units_per_s=10, burst_units=10)
        assert core.charge(0, only, 5) == 0
        with pytest.raises(ValueError, match="every place is taken by a tenant that is not idle"):
            core.add_tenant(0, units_per_s=10, burst_units=10)


def test_who_came_back_from_a_replica_can_be_displaced_like_anybody() -> None:
    fleet = Fleet(max_queued_requests=1)
    fleet.replica(max_requests=1)

    def arrive(priority: int) -> Admission:
        answer = fleet.core.admit(
            fleet.now, fleet.tenant, fleet.model, -1, 0, 100, 1, fleet.now + 900 * MS,
            priority, 1, 1.0,
        )  # fmt: skip
        assert isinstance(answer, Admission)
        return answer

    sheddable = arrive(3).ticket
    batch = fleet.batch()
    waiting = arrive(3).ticket
    assert arrive(1).displaced == [waiting]
    fleet.core.complete(fleet.now, batch.id, BatchOutcome.BUSY)
    assert arrive(1).displaced == [sheddable]
