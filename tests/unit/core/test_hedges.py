"""Second copies of late batches: when they are sent, and who ends their members."""

import pytest
from tests.unit.core.fleet import MS, SECOND, Fleet, exact_ns

from headway._core import Batch, BatchOutcome, BreakerState

FAR = 3_600 * SECOND


def hedging_fleet(replicas: int = 2) -> tuple[Fleet, list[int]]:
    """A fleet that knows what is late, and has device time for some copies."""
    fleet = Fleet()
    fleet.core.set_resilience(hedge_share=0.05)
    handles = [fleet.replica() for _ in range(replicas)]
    for _ in range(60):
        fleet.ticket(slack=FAR)
        fleet.run(fleet.batch(), exact_ns(100))
    return fleet, handles


def late(fleet: Fleet, members: int = 3, slack: int = FAR, others: tuple[int, ...] = ()) -> Batch:
    """A batch that has executed for longer than any before."""
    for _ in range(members):
        fleet.ticket(slack=slack)
    batch = fleet.batch()
    assert len(batch) == members
    assert fleet.now < batch.look_at_ns <= fleet.now + 2 * exact_ns(100 * members)
    assert fleet.core.next_event_ns() in (batch.look_at_ns, *others)
    fleet.now = batch.look_at_ns
    return batch


def test_a_late_batch_is_sent_again_to_a_spare_replica() -> None:
    fleet, _ = hedging_fleet()
    primary = late(fleet)
    fleet.now -= 1
    assert fleet.form() is None, "it was not late yet"
    fleet.now += 1
    copy = fleet.batch()
    assert copy.hedge_of == primary.id
    assert copy.replica != primary.replica
    assert (copy.tickets, copy.attempts) == (primary.tickets, [1, 1, 1])
    assert fleet.form() is None, "one copy is enough"
    stats = fleet.core.pool_stats(fleet.pool)
    assert (stats.executing_batches, stats.executing_requests, stats.hedges_sent) == (2, 3, 1)


@pytest.mark.parametrize("first", ["copy", "primary"])
def test_the_first_to_answer_ends_the_members_once(first: str) -> None:
    fleet, _ = hedging_fleet()
    primary = late(fleet)
    copy = fleet.batch()
    winner, loser = (copy, primary) if first == "copy" else (primary, copy)
    assert fleet.run(winner) == []
    assert fleet.core.num_live() == 0
    assert fleet.core.complete(fleet.now, loser.id, BatchOutcome.OK) == []
    assert fleet.core.num_executing() == 0
    assert fleet.core.pool_stats(fleet.pool).hedges_won == (first == "copy")


@pytest.mark.parametrize("how", [BatchOutcome.FAILED, BatchOutcome.LOST, BatchOutcome.BUSY])
@pytest.mark.parametrize("first", ["copy", "primary"])
def test_one_that_fails_leaves_its_members_to_the_other(first: str, how: BatchOutcome) -> None:
    fleet, _ = hedging_fleet()
    primary = late(fleet)
    copy = fleet.batch()
    failed, other = (copy, primary) if first == "copy" else (primary, copy)
    assert fleet.core.complete(fleet.now, failed.id, how) == []
    assert fleet.core.num_live() == 3
    assert fleet.core.pool_stats(fleet.pool).queued_requests == 0
    assert fleet.run(other) == []
    assert fleet.core.num_live() == 0


def test_what_one_copy_leaves_out_the_other_may_still_answer() -> None:
    fleet, _ = hedging_fleet()
    primary = late(fleet)
    copy = fleet.batch()
    left_out = copy.tickets[1]
    assert fleet.core.complete(fleet.now, copy.id, BatchOutcome.OK, MS, 300, retry=[left_out]) == []
    assert fleet.core.num_live() == 1
    ended = fleet.core.cancel(fleet.now, left_out)
    assert ended is not None
    assert (ended.batch, ended.replica) == (primary.id, primary.replica)


def test_both_failing_queues_the_members_again() -> None:
    fleet, _ = hedging_fleet(3)
    primary = late(fleet)
    copy = fleet.batch()
    for batch in (primary, copy):
        assert fleet.core.complete(fleet.now, batch.id, BatchOutcome.FAILED) == []
    again = fleet.batch()
    assert again.replica not in (copy.replica,)
    assert set(again.tickets) <= set(primary.tickets)
    assert again.attempts[0] == 2


def test_members_that_left_are_not_copied() -> None:
    fleet, _ = hedging_fleet()
    primary = late(fleet)
    fleet.core.cancel(fleet.now, primary.tickets[0])
    assert fleet.batch().tickets == primary.tickets[1:]


def test_nothing_is_copied_while_something_is_queued() -> None:
    fleet, _ = hedging_fleet()
    late(fleet)
    fleet.ticket(slack=FAR)
    assert fleet.batch().hedge_of == 0
    assert fleet.form() is None


def test_nothing_is_copied_without_a_spare_replica() -> None:
    fleet, _ = hedging_fleet()
    fleet.ticket(slack=FAR)
    other = fleet.batch()
    primary = late(fleet, others=(other.look_at_ns,))
    assert fleet.form() is None
    fleet.run(other)
    assert fleet.batch().hedge_of == primary.id, "it is free now, and the batch is still late"


def test_nothing_is_copied_that_would_be_too_late_anyway() -> None:
    fleet, _ = hedging_fleet()
    late(fleet, members=1, slack=round(1.4 * exact_ns(100)))
    assert fleet.form() is None


def test_copies_stay_within_their_share_of_the_device() -> None:
    """One batch in ten takes ten times as long; all that are late would like a copy."""
    fleet, _ = hedging_fleet()
    used = copies = 0
    for number in range(2_000):
        fleet.ticket(slack=FAR)
        primary = fleet.batch()
        if number % 10:
            used += exact_ns(100)
            fleet.run(primary, exact_ns(100))
            continue
        fleet.now = max(fleet.now, primary.look_at_ns)
        copy = fleet.form()
        if copy is not None:
            copies += exact_ns(100)
            fleet.run(copy, exact_ns(100))
            fleet.core.complete(fleet.now, primary.id, BatchOutcome.OK)
        else:
            used += 10 * exact_ns(100)
            fleet.run(primary, 10 * exact_ns(100))
    assert 0 < copies <= 0.05 * (used + 60 * exact_ns(100)) + exact_ns(100)


def test_an_aborted_copy_is_no_sample() -> None:
    fleet, _ = hedging_fleet()
    primary = late(fleet)
    copy = fleet.batch()
    before = fleet.core.replica_stats(copy.replica)
    fleet.run(primary, exact_ns(300))
    fleet.now += 1
    fleet.core.complete(fleet.now, copy.id, BatchOutcome.OK)
    after = fleet.core.replica_stats(copy.replica)
    assert after.recent_outcomes == before.recent_outcomes
    assert after.latency_ns >= before.latency_ns - MS
    assert after.breaker == BreakerState.CLOSED


def test_a_batch_that_was_stopped_for_its_copy_does_not_make_its_replica_look_quick() -> None:
    fleet, _ = hedging_fleet()
    primary = late(fleet)
    before = fleet.core.replica_stats(primary.replica).latency_ns
    copy = fleet.batch()
    fleet.run(copy, exact_ns(300))
    fleet.core.complete(fleet.now, primary.id, BatchOutcome.OK)
    assert fleet.core.replica_stats(primary.replica).latency_ns > before


def test_none_without_a_share() -> None:
    fleet, _ = hedging_fleet()
    fleet.core.set_resilience(hedge_share=0)
    fleet.ticket(slack=FAR)
    batch = fleet.batch()
    assert batch.look_at_ns == 0
    fleet.now += 100 * SECOND
    assert fleet.form() is None
