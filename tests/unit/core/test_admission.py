"""Who is taken in, who is refused, and with which numbers."""

import pytest
from tests.unit.core.fleet import MS, SECOND, Fleet, exact_ns, key_at

from headway._core import BatchOutcome, RefusalReason, ReplicaCondition, Scheduler


def test_a_fitting_request_gets_a_ticket() -> None:
    fleet = Fleet()
    fleet.replica()
    ticket = fleet.ticket()
    assert ticket > 0
    assert fleet.core.pool_of(ticket) == fleet.pool
    assert fleet.core.num_live() == 1
    stats = fleet.core.pool_stats(fleet.pool)
    assert (stats.queued_requests, stats.queued_units, stats.queued_rows) == (1, 100, 1)


class TestQuota:
    def test_exceeded_says_when(self) -> None:
        fleet = Fleet()
        fleet.replica()
        tenant = fleet.core.add_tenant(0, units_per_s=100, burst_units=150)
        assert isinstance(fleet.offer(tenant=tenant), int)
        verdict = fleet.refusal(tenant=tenant)
        assert verdict.reason == RefusalReason.QUOTA_EXCEEDED
        # 50 units are left and 50 are missing, at 100 a second.
        assert verdict.retry_after_ns == SECOND // 2
        assert (verdict.pool, verdict.needed, verdict.available) == (-1, 100, 50)
        fleet.now += SECOND // 2
        assert isinstance(fleet.offer(tenant=tenant), int)

    def test_above_the_burst_never_fits(self) -> None:
        fleet = Fleet()
        fleet.replica()
        tenant = fleet.core.add_tenant(0, units_per_s=100, burst_units=99)
        verdict = fleet.refusal(tenant=tenant)
        assert verdict.reason == RefusalReason.QUOTA_IMPOSSIBLE
        assert verdict.retry_after_ns == 0

    def test_a_refused_request_is_charged_nothing(self) -> None:
        fleet = Fleet()
        fleet.replica(max_units=99)
        tenant = fleet.core.add_tenant(0, units_per_s=1e-9, burst_units=100)
        assert fleet.refusal(tenant=tenant).reason == RefusalReason.TOO_LARGE
        assert isinstance(fleet.offer(tenant=tenant, units=99), int)

    def test_a_change_takes_effect(self) -> None:
        fleet = Fleet()
        fleet.replica()
        tenant = fleet.core.add_tenant(0, units_per_s=1, burst_units=1)
        assert fleet.refusal(tenant=tenant).reason == RefusalReason.QUOTA_IMPOSSIBLE
        fleet.core.set_tenant_quota(0, tenant, units_per_s=1e6, burst_units=1e6)
        fleet.now += SECOND
        assert isinstance(fleet.offer(tenant=tenant), int)


class TestCapacity:
    def test_a_model_without_versions(self) -> None:
        fleet = Fleet()
        fleet.model = fleet.core.add_model(salt=1)
        verdict = fleet.refusal()
        assert verdict.reason == RefusalReason.NO_CAPACITY
        assert (verdict.pool, verdict.retry_after_ns) == (-1, SECOND)

    def test_a_pool_without_replicas(self) -> None:
        fleet = Fleet()
        verdict = fleet.refusal()
        assert verdict.reason == RefusalReason.NO_CAPACITY
        assert (verdict.pool, verdict.retry_after_ns) == (fleet.pool, SECOND)

    @pytest.mark.parametrize(
        ("condition", "admitted"),
        [
            (ReplicaCondition.CONNECTING, True),
            (ReplicaCondition.READY, True),
            (ReplicaCondition.DRAINING, False),
        ],
    )
    def test_a_replica_to_come_counts(self, condition: ReplicaCondition, admitted: bool) -> None:
        fleet = Fleet()
        fleet.replica(condition=condition)
        assert isinstance(fleet.offer(), int) == admitted


class TestSize:
    def test_more_units_than_any_replica_takes(self) -> None:
        fleet = Fleet()
        fleet.replica(max_units=500)
        verdict = fleet.refusal(units=501)
        assert verdict.reason == RefusalReason.TOO_LARGE
        assert (verdict.needed, verdict.available, verdict.retry_after_ns) == (501, 500, 0)

    def test_more_rows_than_any_replica_takes(self) -> None:
        fleet = Fleet()
        fleet.replica(max_rows=8)
        verdict = fleet.refusal(rows=9)
        assert verdict.reason == RefusalReason.TOO_LARGE
        assert (verdict.needed, verdict.available) == (9, 8)

    def test_one_replica_must_take_both(self) -> None:
        fleet = Fleet()
        fleet.replica(max_rows=8, max_units=100)
        fleet.replica(max_rows=2, max_units=1_000)
        assert isinstance(fleet.offer(rows=8, units=100), int)
        assert isinstance(fleet.offer(rows=2, units=1_000), int)
        verdict = fleet.refusal(rows=3, units=1_000)
        assert (verdict.needed, verdict.available) == (1_000, 100)

    def test_no_limit_is_no_limit(self) -> None:
        fleet = Fleet(max_queued_units=2**62)
        fleet.replica(max_rows=0, max_units=0)
        assert isinstance(fleet.offer(rows=2**31, units=2**38, slack=2**61), int)

    def test_a_new_limit_takes_effect(self) -> None:
        fleet = Fleet()
        replica = fleet.replica(max_units=500)
        fleet.core.set_replica_limits(
            replica, max_outstanding=1, max_requests=0, max_rows=0, max_units=501
        )
        assert isinstance(fleet.offer(units=501), int)


class TestQueueBounds:
    def test_requests(self) -> None:
        fleet = Fleet(max_queued_requests=2)
        fleet.replica()
        fleet.ticket()
        fleet.ticket()
        verdict = fleet.refusal()
        assert verdict.reason == RefusalReason.QUEUE_FULL
        assert (verdict.needed, verdict.available) == (3, 2)
        # An eighth of 18 ms + 200 * 22 us.
        assert verdict.retry_after_ns == exact_ns(200) // 8
        assert fleet.form() is not None
        fleet.ticket()

    def test_units(self) -> None:
        fleet = Fleet(max_queued_units=150)
        fleet.replica()
        fleet.ticket()
        verdict = fleet.refusal()
        assert verdict.reason == RefusalReason.QUEUE_FULL
        assert (verdict.needed, verdict.available) == (200, 150)
        assert verdict.retry_after_ns > 0

    def test_units_beyond_the_bound_itself_never_fit(self) -> None:
        fleet = Fleet(max_queued_units=99)
        fleet.replica()
        assert fleet.refusal().retry_after_ns == 0

    def test_live_requests(self) -> None:
        fleet = Fleet(max_live=2)
        fleet.replica()
        first = fleet.ticket()
        fleet.ticket()
        assert fleet.refusal().reason == RefusalReason.OVERLOADED
        fleet.core.cancel(fleet.now, first)
        fleet.ticket()


class TestDeadline:
    def test_passed(self) -> None:
        fleet = Fleet()
        fleet.replica()
        assert fleet.refusal(slack=0).reason == RefusalReason.DEADLINE_EXPIRED
        assert fleet.refusal(slack=-5 * SECOND).reason == RefusalReason.DEADLINE_EXPIRED

    def test_unreachable_even_alone(self) -> None:
        fleet = Fleet()
        fleet.replica()
        fleet.teach()
        verdict = fleet.refusal(units=100, slack=exact_ns(100) - 1_000)
        assert verdict.reason == RefusalReason.DEADLINE_UNREACHABLE
        assert abs(verdict.needed - exact_ns(100)) < 100
        assert verdict.available == exact_ns(100) - 1_000
        assert verdict.retry_after_ns == 0
        assert isinstance(fleet.offer(units=100, slack=exact_ns(100) + 1_000), int)

    def test_a_busy_fleet_is_no_reason(self) -> None:
        # One replica works and one is idle: what is executing must not refuse anybody.
        fleet = Fleet()
        fleet.replica()
        fleet.replica()
        fleet.teach()
        fleet.ticket(units=16_000)
        assert fleet.form() is not None
        assert fleet.core.pool_stats(fleet.pool).free_slots == 1
        assert isinstance(fleet.offer(slack=exact_ns(100) + 1_000), int)

    def test_a_fit_that_refuses_everything_heals_within_seconds(self) -> None:
        # The device was 50 times slower for a while; nothing is admitted on that evidence.
        fleet = Fleet()
        fleet.replica()
        fleet.teach(20)
        fleet.teach(20, scale=50)
        started = fleet.now
        outcomes = []
        for _ in range(100):
            fleet.now += 50 * MS
            answer = fleet.offer(slack=120 * MS)
            outcomes.append(isinstance(answer, int))
            batch = fleet.form()
            if batch is not None:
                fleet.run(batch)
        assert not any(outcomes[:18]), "nothing has tested the evidence yet"
        assert all(outcomes[-10:]), "still refusing"
        assert fleet.now - started < 6 * SECOND

    def test_probes_are_one_a_second(self) -> None:
        fleet = Fleet(prior_intercept_ns=SECOND)
        fleet.replica()
        admitted = 0
        for _ in range(100):
            admitted += isinstance(fleet.offer(slack=100 * MS), int)
            batch = fleet.form()
            fleet.now += 100 * MS
            if batch is not None:
                fleet.core.expire(fleet.now)
                fleet.core.complete(fleet.now, batch.id, BatchOutcome.OK)
        assert 9 <= admitted <= 10


class TestSplit:
    def test_keys_stick_and_a_growing_share_moves_none_back(self) -> None:
        fleet = Fleet()
        canary = fleet.add_pool()
        for pool in (fleet.pool, canary):
            fleet.replica(pool, max_outstanding=1_000)

        def pools(canary_share: float) -> list[int]:
            fleet.core.set_split(
                fleet.model, [canary, fleet.pool], [canary_share, 1 - canary_share]
            )
            found = []
            for key in range(500):
                ticket = fleet.offer(key_hash=key)
                assert isinstance(ticket, int)
                found.append(fleet.core.pool_of(ticket))
                fleet.core.cancel(fleet.now, ticket)
            return found

        few, more = pools(0.1), pools(0.3)
        assert pools(0.1) == few
        # Binomial: 50 +- 7 and 150 +- 10; three deviations.
        assert 29 <= few.count(canary) <= 71
        assert 119 <= more.count(canary) <= 181
        moves = zip(few, more, strict=True)
        assert all(after == canary for before, after in moves if before == canary)

    def test_the_first_pool_stands_in_for_one_without_replicas(self) -> None:
        fleet = Fleet()
        canary = fleet.add_pool()
        fleet.core.set_split(fleet.model, [fleet.pool, canary], [0.5, 0.5])
        fleet.replica()
        in_canary = key_at(0.75, salt=7)
        answer = fleet.offer(key_hash=in_canary)
        assert isinstance(answer, int)
        assert fleet.core.pool_of(answer) == fleet.pool

    def test_the_canary_never_stands_in_for_the_first(self) -> None:
        fleet = Fleet()
        canary = fleet.add_pool()
        fleet.core.set_split(fleet.model, [fleet.pool, canary], [0.99, 0.01])
        fleet.replica(canary)
        verdict = fleet.refusal(key_hash=key_at(0.5, salt=7))
        assert verdict.reason == RefusalReason.NO_CAPACITY
        assert verdict.pool == fleet.pool

    def test_a_pin_wins(self) -> None:
        fleet = Fleet()
        other = fleet.add_pool()
        fleet.replica(other)
        assert fleet.core.pool_of(fleet.ticket(pool=other)) == other
        assert fleet.refusal(pool=fleet.pool).reason == RefusalReason.NO_CAPACITY

    @pytest.mark.parametrize(
        ("shares", "message"),
        [
            ([0.5, 0.4], "shares must be a sum of 1 (within 1e-6), got 0.9"),
            ([1.5, -0.5], "shares must be from 0 to 1, got 1.5"),
            ([float("nan"), 1.0], "shares must be from 0 to 1, got NaN"),
            ([1.0], "shares must be one for each pool, at least one, got 1 shares for 2 pools"),
        ],
    )
    def test_bad_shares(self, shares: list[float], message: str) -> None:
        fleet = Fleet()
        other = fleet.add_pool()
        with pytest.raises(ValueError) as error:
            fleet.core.set_split(fleet.model, [fleet.pool, other], shares)
        assert str(error.value) == message


def test_bad_arguments_name_field_value_and_range() -> None:
    fleet = Fleet()
    good: dict[str, int | float] = {
        "now_ns": 0,
        "tenant": 0,
        "model": 0,
        "pool": -1,
        "key_hash": 0,
        "units": 1,
        "rows": 1,
        "deadline_ns": 1,
        "priority": 1,
        "lane": 1,
        "weight": 1.0,
    }
    rows: list[tuple[str, int | float, str]] = [
        ("now_ns", 2**63, "now_ns must be an instant within +-2**62 ns"),
        ("key_hash", -1, "key_hash must be from 0 to 2**64 - 1, got -1"),
        ("units", 0, "units must be from 1 to 2**38, got 0"),
        ("units", 10**30, "units must be from 1 to 2**38"),
        ("rows", -3, "rows must be from 1 to 2**31, got -3"),
        ("deadline_ns", -(2**63), "deadline_ns must be an instant within +-2**62 ns"),
        ("priority", 4, "priority must be 1 (critical), 2 (standard) or 3 (sheddable), got 4"),
        ("lane", 0, "lane must be 1 (interactive) or 2 (bulk), got 0"),
        ("weight", 0.0, "weight must be above 0 and at most 1e18, got 0"),
        ("weight", float("nan"), "weight must be above 0 and at most 1e18, got NaN"),
        ("weight", float("inf"), "weight must be above 0 and at most 1e18, got inf"),
    ]
    for field, value, message in rows:
        arguments = {**good, field: value}
        with pytest.raises(ValueError) as error:
            fleet.core.offer(**arguments)  # type: ignore[arg-type]  # one of them is wrong
        assert str(error.value).startswith(message)
    handles = {"tenant": "no tenant has the handle 9", "model": "no model has the handle 9"}
    for field, message in {**handles, "pool": "no pool has the handle 9"}.items():
        arguments = {**good, field: 9}
        with pytest.raises(KeyError) as missing:
            fleet.core.offer(**arguments)  # type: ignore[arg-type]  # one of them is wrong
        assert missing.value.args == (message,)
    assert fleet.core.num_live() == 0


@pytest.mark.parametrize(
    ("max_live", "max_attempts", "message"),
    [
        (0, 3, "max_live must be from 1 to 2**24, got 0"),
        (2**24 + 1, 3, "max_live must be from 1 to 2**24, got 16777217"),
        (1, 0, "max_attempts must be from 1 to 2**20, got 0"),
    ],
)
def test_bounds_of_a_scheduler(max_live: int, max_attempts: int, message: str) -> None:
    with pytest.raises(ValueError) as error:
        Scheduler(seed=0, max_live=max_live, max_attempts=max_attempts)
    assert str(error.value) == message
