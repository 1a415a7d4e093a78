"""Every request ends exactly once, whatever happens to it first."""

from collections.abc import Callable

import pytest
from tests.unit.core.fleet import MS, SECOND, Fleet, exact_ns

from headway._core import BatchOutcome, RefusalReason, ReplicaCondition


def assert_empty(fleet: Fleet) -> None:
    """Nothing is queued, executing or awaited."""
    stats = fleet.core.pool_stats(fleet.pool)
    assert (stats.queued_requests, stats.queued_units, stats.queued_rows) == (0, 0, 0)
    assert (stats.executing_batches, stats.executing_requests) == (0, 0)
    assert stats.drain_ns == 0
    assert (fleet.core.num_live(), fleet.core.num_executing()) == (0, 0)
    assert fleet.core.next_event_ns() is None


def test_an_answer_ends_it() -> None:
    fleet = Fleet()
    replica = fleet.replica()
    ticket = fleet.ticket()
    assert fleet.run(fleet.batch()) == []
    assert fleet.core.pool_of(ticket) == -1
    assert fleet.core.cancel(fleet.now, ticket) is None
    assert fleet.core.replica_stats(replica).completed_batches == 1
    assert_empty(fleet)


def test_cancelled_while_queued() -> None:
    fleet = Fleet()
    fleet.replica()
    ticket, other = fleet.ticket(), fleet.ticket()
    ended = fleet.core.cancel(0, ticket)
    assert ended is not None
    assert (ended.ticket, ended.batch, ended.replica) == (ticket, 0, -1)
    assert fleet.core.cancel(0, ticket) is None
    assert fleet.batch().tickets == [other]


def test_cancelled_while_executing_leaves_the_others() -> None:
    fleet = Fleet()
    replica = fleet.replica()
    tickets = [fleet.ticket() for _ in range(3)]
    batch = fleet.batch()
    ended = fleet.core.cancel(0, tickets[1])
    assert ended is not None
    assert (ended.ticket, ended.batch, ended.replica) == (tickets[1], batch.id, replica)
    assert fleet.core.pool_stats(fleet.pool).executing_requests == 2
    assert fleet.run(batch) == []
    assert_empty(fleet)


def test_expired_queued_and_executing_alike() -> None:
    fleet = Fleet()
    replica = fleet.replica(max_requests=1)
    executing = fleet.ticket(slack=100 * MS)
    batch = fleet.batch()
    queued = fleet.ticket(slack=50 * MS)
    relaxed = fleet.ticket(slack=500 * MS)
    assert fleet.core.next_event_ns() == 50 * MS
    assert fleet.core.expire(50 * MS - 1) == []
    ended = fleet.core.expire(100 * MS)
    assert [(e.ticket, e.batch, e.replica) for e in ended] == [
        (queued, 0, -1),
        (executing, batch.id, replica),
    ]
    assert fleet.core.expire(100 * MS) == []
    fleet.now = 100 * MS
    assert fleet.core.complete(fleet.now, batch.id, BatchOutcome.OK) == []
    assert fleet.batch().tickets == [relaxed]


def test_next_event_is_nothing_when_nothing_is_there() -> None:
    fleet = Fleet()
    fleet.replica()
    assert fleet.core.next_event_ns() is None


class TestBusy:
    def test_members_go_back_to_their_place_unharmed(self) -> None:
        fleet = Fleet()
        replica = fleet.replica(max_requests=2)
        tickets = [fleet.ticket(slack=(300 + index) * MS) for index in range(3)]
        batch = fleet.batch()
        assert fleet.core.complete(0, batch.id, BatchOutcome.BUSY) == []
        fleet.now = 2 * MS
        again = fleet.batch()
        assert again.tickets == tickets[:2]
        assert again.attempts == [1, 1], "it was not begun"
        stats = fleet.core.replica_stats(replica)
        assert (stats.busy_answers, stats.failed_batches, stats.latency_ns) == (1, 0, 0)

    def test_the_replica_rests_longer_each_time_and_not_for_ever(self) -> None:
        fleet = Fleet()
        fleet.replica()
        fleet.ticket(slack=3_600 * SECOND)
        rests = []
        for _ in range(10):
            batch = fleet.batch()
            fleet.core.complete(fleet.now, batch.id, BatchOutcome.BUSY)
            assert fleet.form() is None
            wakes = fleet.core.next_event_ns()
            assert wakes is not None
            rests.append((wakes - fleet.now) // MS)
            fleet.now = wakes - 1
            assert fleet.form() is None
            fleet.now = wakes
        assert rests == [2, 4, 8, 16, 32, 64, 128, 256, 256, 256]

    @pytest.mark.parametrize(
        ("asked_ns", "rest_ns"),
        [(0, 2 * MS), (50 * MS, 50 * MS), (3_600 * SECOND, 10 * SECOND), (-5, 2 * MS)],
    )
    def test_the_worker_may_say_for_how_long(self, asked_ns: int, rest_ns: int) -> None:
        fleet = Fleet()
        fleet.replica()
        fleet.ticket(slack=3_600 * SECOND)
        fleet.core.complete(0, fleet.batch().id, BatchOutcome.BUSY, retry_after_ns=asked_ns)
        assert fleet.core.next_event_ns() == rest_ns

    def test_another_replica_takes_it_at_once(self) -> None:
        fleet = Fleet()
        fleet.replica()
        fleet.replica()
        ticket = fleet.ticket()
        batch = fleet.batch()
        fleet.core.complete(0, batch.id, BatchOutcome.BUSY)
        again = fleet.batch()
        assert (again.tickets, again.replica) == ([ticket], 1 - batch.replica)


class TestFailure:
    @pytest.mark.parametrize("outcome", [BatchOutcome.FAILED, BatchOutcome.LOST])
    def test_members_are_tried_again_until_no_attempt_is_left(self, outcome: BatchOutcome) -> None:
        fleet = Fleet(max_attempts=2)
        replica = fleet.replica()
        ticket = fleet.ticket()
        assert fleet.core.complete(0, fleet.batch().id, outcome) == []
        batch = fleet.batch()
        assert (batch.tickets, batch.attempts) == ([ticket], [2])
        assert fleet.core.complete(0, batch.id, outcome) == [ticket]
        assert fleet.core.replica_stats(replica).failed_batches == 2
        assert_empty(fleet)

    def test_a_member_without_time_is_returned(self) -> None:
        fleet = Fleet()
        fleet.replica()
        hurried, patient = fleet.ticket(slack=50 * MS), fleet.ticket(slack=500 * MS)
        batch = fleet.batch()
        fleet.now = 40 * MS
        assert fleet.core.complete(fleet.now, batch.id, BatchOutcome.FAILED) == [hurried]
        assert fleet.batch().tickets == [patient]

    def test_one_poison_request_fails_alone(self) -> None:
        fleet = Fleet()
        fleet.replica()
        tickets = [fleet.ticket(slack=3_600 * SECOND) for _ in range(8)]
        poison = tickets[3]
        sizes, failed = [], []
        while (batch := fleet.form()) is not None:
            sizes.append(len(batch))
            if poison in batch.tickets:
                failed += fleet.core.complete(fleet.now, batch.id, BatchOutcome.FAILED)
            else:
                fleet.run(batch)
        assert failed == [poison]
        # Eight fail; four of them fail again and four succeed; then each alone.
        assert sorted(sizes) == [1, 1, 1, 1, 4, 4, 8]
        assert_empty(fleet)

    def test_missing_members_are_queued_again_and_only_they(self) -> None:
        fleet = Fleet()
        fleet.replica()
        tickets = [fleet.ticket() for _ in range(3)]
        batch = fleet.batch()
        stranger = 12345
        lost = fleet.core.complete(
            0, batch.id, BatchOutcome.OK, retry=[tickets[1], stranger], failed=1
        )
        assert lost == []
        assert [fleet.core.pool_of(ticket) for ticket in tickets] == [-1, fleet.pool, -1]
        again = fleet.batch()
        assert (again.tickets, again.attempts) == ([tickets[1]], [2])


def test_a_batch_of_a_removed_replica_is_given_back() -> None:
    fleet = Fleet()
    replica = fleet.replica()
    ticket = fleet.ticket()
    batch = fleet.batch()
    assert fleet.core.remove_replica(0, replica) == [batch.id]
    assert fleet.refusal().reason == RefusalReason.NO_CAPACITY
    assert fleet.core.complete(0, batch.id, BatchOutcome.LOST) == []
    other = fleet.replica()
    again = fleet.batch()
    assert (again.tickets, again.replica) == ([ticket], other)


def test_a_pool_goes_with_what_is_in_it() -> None:
    fleet = Fleet()
    replica = fleet.replica(max_requests=1)
    tickets = [fleet.ticket(), fleet.ticket()]
    batch = fleet.batch()
    with pytest.raises(ValueError, match="pool 0 still has 1 replicas; remove them first"):
        fleet.core.remove_pool(0, fleet.pool)
    fleet.core.remove_replica(0, replica)
    assert sorted(fleet.core.remove_pool(0, fleet.pool)) == sorted(tickets)
    assert fleet.core.complete(0, batch.id, BatchOutcome.LOST) == []
    assert (fleet.core.num_live(), fleet.core.num_executing()) == (0, 0)
    with pytest.raises(KeyError, match="no pool has the handle 0"):
        fleet.core.pool_stats(fleet.pool)


def test_a_handle_is_not_given_out_again() -> None:
    fleet = Fleet()
    first = fleet.replica()
    fleet.core.remove_replica(0, first)
    second = fleet.replica()
    assert second != first
    with pytest.raises(KeyError):
        fleet.core.replica_stats(first)


def _answer(fleet: Fleet, batch: int) -> None:
    fleet.core.complete(fleet.now, batch, BatchOutcome.OK)


def _fail(fleet: Fleet, batch: int) -> None:
    fleet.core.complete(fleet.now, batch, BatchOutcome.FAILED)


def _remove(fleet: Fleet, batch: int) -> None:
    if batch == 1 and fleet.core.pool_stats(fleet.pool).ready_replicas:
        for lost in fleet.core.remove_replica(fleet.now, 0):
            fleet.core.complete(fleet.now, lost, BatchOutcome.LOST)


def _expire(fleet: Fleet, batch: int) -> None:
    fleet.core.expire(10 * SECOND)


def _cancel(fleet: Fleet, batch: int) -> None:
    fleet.core.cancel(fleet.now, 1 << 24)


@pytest.mark.parametrize("first", [_answer, _fail, _remove, _expire, _cancel])
@pytest.mark.parametrize("second", [_answer, _fail, _remove, _expire, _cancel])
def test_any_two_ends_race_and_nothing_leaks(
    first: Callable[[Fleet, int], None], second: Callable[[Fleet, int], None]
) -> None:
    fleet = Fleet(max_attempts=1)
    fleet.replica()
    ticket = fleet.ticket()
    assert ticket == 1 << 24
    batch = fleet.batch()
    first(fleet, batch.id)
    second(fleet, batch.id)
    fleet.core.complete(fleet.now, batch.id, BatchOutcome.LOST)
    assert fleet.core.cancel(fleet.now, ticket) is None
    assert_empty(fleet)


def test_hundreds_cancelled_at_once_leave_nothing() -> None:
    fleet = Fleet()
    fleet.replica(max_outstanding=3)
    tickets = [fleet.ticket() for _ in range(500)]
    batches = [fleet.batch(), fleet.batch(), fleet.batch()]
    assert all(fleet.core.cancel(0, ticket) for ticket in tickets)
    assert fleet.form() is None
    for batch in batches:
        assert fleet.core.complete(0, batch.id, BatchOutcome.OK) == []
    assert_empty(fleet)
    assert fleet.core.pool_stats(fleet.pool).free_slots == 3


def test_time_never_goes_back() -> None:
    fleet = Fleet()
    fleet.replica()
    fleet.now = 10 * SECOND
    ticket = fleet.ticket(slack=SECOND)
    fleet.now = 7 * SECOND
    assert fleet.core.expire(fleet.now) == []
    assert fleet.batch().queued_ns == [0]
    assert fleet.core.pool_of(ticket) == fleet.pool


def test_draining_finishes_what_it_has() -> None:
    fleet = Fleet()
    replica = fleet.replica()
    fleet.ticket()
    batch = fleet.batch()
    fleet.core.set_replica_condition(0, replica, ReplicaCondition.DRAINING)
    assert fleet.core.replica_stats(replica).outstanding_batches == 1
    assert fleet.run(batch) == []
    assert fleet.core.pool_stats(fleet.pool).free_slots == 0
    assert fleet.refusal().reason == RefusalReason.NO_CAPACITY
    fleet.core.set_replica_condition(0, replica, ReplicaCondition.READY)
    fleet.ticket()
    assert fleet.batch().replica == replica


def test_drain_time_knows_the_fleet() -> None:
    fleet = Fleet()
    fleet.replica()
    for _ in range(320):
        fleet.ticket(units=100)
    # Ten batches of 32: ten times 18 ms, and 32000 units.
    alone = 10 * 18 * MS + 32_000 * 22_000
    assert fleet.core.drain_ns(fleet.pool) == alone
    for _ in range(3):
        fleet.replica()
    assert fleet.core.drain_ns(fleet.pool) == alone // 4
    batch = fleet.batch()
    left = 9 * 18 * MS + 28_800 * 22_000
    assert fleet.core.drain_ns(fleet.pool) == (left + exact_ns(batch.units)) // 4
