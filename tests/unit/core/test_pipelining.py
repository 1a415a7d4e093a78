"""The next batch leaves just before its replica is free."""

import pytest
from tests.unit.core.fleet import MS, SECOND, Fleet, exact_ns

from headway._core import Batch, BatchOutcome

FAR = 3_600 * SECOND
HANDOFF = 3 * MS
# Beside the handoff: a timer may be a millisecond late.
TIMER = MS


def pipelining_fleet(replicas: int = 1) -> Fleet:
    """Each replica takes exactly what is predicted, and 3 ms for the way there and back."""
    fleet = Fleet()
    fleet.core.set_resilience(pipelined=True)
    for _ in range(replicas):
        fleet.replica()
    for _ in range(60):
        fleet.ticket(slack=FAR)
        fleet.run(fleet.batch(), handoff_ns=HANDOFF)
    return fleet


def running(fleet: Fleet) -> Batch:
    fleet.ticket(slack=FAR)
    batch = fleet.batch()
    assert not batch.is_pipelined
    return batch


def test_it_leaves_one_handoff_before_the_replica_is_free() -> None:
    fleet = pipelining_fleet()
    first = running(fleet)
    free_at = fleet.now + HANDOFF + exact_ns(100)
    assert first.look_at_ns == 0, "nothing is queued that would wait for it"
    fleet.ticket(slack=FAR)
    assert fleet.form() is None
    leaves_at = free_at - HANDOFF - TIMER
    assert fleet.core.look_at_ns(fleet.pool) == leaves_at
    assert fleet.core.next_event_ns() == leaves_at
    fleet.now = leaves_at - 1
    assert fleet.form() is None
    fleet.now = leaves_at
    second = fleet.batch()
    assert second.is_pipelined
    assert second.replica == first.replica
    fleet.ticket(slack=FAR)
    assert fleet.form() is None, "at most two are outstanding"


def test_handoff_is_charged_only_where_it_leaves_the_device_idle() -> None:
    fleet = pipelining_fleet()
    assert fleet.core.replica_stats(0).handoff_ns == HANDOFF
    start = fleet.now
    first = running(fleet)
    assert first.look_at_ns == 0
    assert first.slack_ns == [FAR - HANDOFF - exact_ns(100)]
    fleet.now += exact_ns(100) - TIMER
    ticket_at = fleet.now
    fleet.ticket(slack=FAR)
    second = fleet.batch()
    # It begins when the first one's result is due, not a handoff later.
    ends_at = start + HANDOFF + 2 * exact_ns(100)
    assert second.slack_ns == [ticket_at + FAR - ends_at]


def test_waiting_behind_another_batch_is_neither_latency_nor_handoff() -> None:
    fleet = pipelining_fleet()
    before = fleet.core.replica_stats(0)
    first = running(fleet)
    fleet.now += exact_ns(100) - TIMER
    fleet.ticket(slack=FAR)
    second = fleet.batch()
    fleet.now += HANDOFF + TIMER
    fleet.core.complete(fleet.now, first.id, BatchOutcome.OK, exact_ns(100), 100)
    fleet.now += exact_ns(100)
    fleet.core.complete(fleet.now, second.id, BatchOutcome.OK, exact_ns(100), 100)
    after = fleet.core.replica_stats(0)
    assert after.handoff_ns == before.handoff_ns
    assert after.latency_ns <= exact_ns(100) + HANDOFF


def test_nothing_waits_behind_a_batch_that_is_over_its_time() -> None:
    fleet = pipelining_fleet()
    first = running(fleet)
    fleet.now += 10 * SECOND
    fleet.ticket(slack=FAR)
    assert fleet.form() is None
    fleet.core.complete(fleet.now, first.id, BatchOutcome.OK, 10 * SECOND, 100)
    assert not fleet.batch().is_pipelined


def test_a_replica_with_more_slots_is_filled_at_once_as_before() -> None:
    fleet = Fleet()
    fleet.core.set_resilience(pipelined=True)
    fleet.replica(max_outstanding=2)
    for _ in range(2):
        fleet.ticket(slack=FAR)
        fleet.batch()
    fleet.ticket(slack=FAR)
    assert fleet.form() is None
    fleet.now += 10 * SECOND
    assert fleet.form() is None


def test_without_it_the_next_batch_leaves_when_the_replica_is_free() -> None:
    fleet = pipelining_fleet()
    fleet.core.set_resilience(pipelined=False)
    first = running(fleet)
    assert first.look_at_ns == 0
    fleet.now += exact_ns(100) + HANDOFF
    fleet.ticket(slack=FAR)
    assert fleet.form() is None
    fleet.core.complete(fleet.now, first.id, BatchOutcome.OK, exact_ns(100), 100)
    assert not fleet.batch().is_pipelined


def turned_away(fleet: Fleet, free_in_ns: int) -> Batch:
    """A batch finds others' work at the worker, which ends in `free_in_ns`."""
    fleet.ticket(slack=FAR)
    batch = fleet.batch()
    fleet.core.complete(fleet.now, batch.id, BatchOutcome.BUSY, retry_after_ns=free_in_ns)
    return batch


def test_it_leaves_as_long_before_the_end_of_others_work() -> None:
    fleet = pipelining_fleet()
    turned_away(fleet, 50 * MS)
    leaves_at = fleet.now + 50 * MS - HANDOFF - TIMER
    assert fleet.form() is None
    assert fleet.core.next_event_ns() == leaves_at
    fleet.now = leaves_at
    batch = fleet.batch()
    assert batch.is_pipelined
    # It begins when that ends, and what it waited is nobody's handoff.
    assert batch.slack_ns == [FAR - (50 * MS - HANDOFF - TIMER) - HANDOFF - TIMER - exact_ns(100)]
    replica = batch.replica
    fleet.run(batch, handoff_ns=40 * MS)
    assert fleet.core.replica_stats(replica).handoff_ns == HANDOFF


def test_a_worker_that_calls_ends_the_rest() -> None:
    fleet = pipelining_fleet()
    replica = turned_away(fleet, 50 * MS).replica
    fleet.now += 10 * MS
    fleet.core.end_rest(fleet.now, replica, 5 * MS)
    batch = fleet.batch()
    assert batch.is_pipelined
    fleet.run(batch, handoff_ns=HANDOFF)
    turned_away(fleet, 50 * MS)
    fleet.core.end_rest(fleet.now, replica, 0)
    assert not fleet.batch().is_pipelined


def test_a_call_to_a_replica_that_does_not_rest_changes_nothing() -> None:
    fleet = pipelining_fleet()
    batch = running(fleet)
    fleet.core.end_rest(fleet.now, batch.replica, 5 * MS)
    fleet.ticket(slack=FAR)
    leaves_at = fleet.now + exact_ns(100) - TIMER
    assert fleet.core.look_at_ns(fleet.pool) == leaves_at
    with pytest.raises(KeyError):
        fleet.core.end_rest(fleet.now, 99, 0)
