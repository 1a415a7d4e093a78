"""Which requests share a batch, and why it closed."""

from itertools import pairwise

import pytest
from tests.unit.core.fleet import MS, SECOND, Fleet, exact_ns

from headway._core import BatchOutcome, BatchReason, ReplicaCondition


def test_earliest_deadline_first() -> None:
    fleet = Fleet()
    fleet.replica(max_requests=2)
    late = fleet.ticket(slack=800 * MS)
    early = fleet.ticket(slack=200 * MS)
    middle = fleet.ticket(slack=400 * MS)
    assert fleet.batch().tickets == [early, middle]
    assert fleet.form() is None, "no replica is free"
    assert fleet.core.pool_of(late) == fleet.pool


def test_a_batch_says_what_it_holds() -> None:
    fleet = Fleet()
    replica = fleet.replica()
    first = fleet.ticket(units=100, rows=2, slack=300 * MS)
    fleet.now += 5 * MS
    second = fleet.ticket(units=50, rows=1, slack=400 * MS)
    batch = fleet.batch()
    assert (batch.id, batch.pool, batch.replica) == (1, fleet.pool, replica)
    assert (batch.units, batch.rows, len(batch)) == (150, 3, 2)
    assert batch.tickets == [first, second]
    assert batch.queued_ns == [5 * MS, 0]
    assert batch.attempts == [1, 1]
    assert batch.predicted_ns == exact_ns(150)
    assert batch.slack_ns == [295 * MS - exact_ns(150), 400 * MS - exact_ns(150)]
    assert batch.reason == BatchReason.QUEUE_EMPTIED
    assert int(batch.reason) == 1


def test_no_linger() -> None:
    fleet = Fleet()
    fleet.replica()
    fleet.ticket()
    assert len(fleet.batch()) == 1


@pytest.mark.parametrize(
    ("limits", "sizes", "taken", "reason"),
    [
        ({"max_requests": 3}, [(10, 1)] * 5, 3, BatchReason.MAX_REQUESTS),
        ({"max_requests": 5}, [(10, 1)] * 5, 5, BatchReason.QUEUE_EMPTIED),
        ({"max_rows": 5}, [(10, 2)] * 5, 2, BatchReason.MAX_ROWS),
        ({"max_units": 35}, [(10, 1)] * 5, 3, BatchReason.MAX_UNITS),
        ({"max_units": 35}, [(35, 1), (10, 1)], 1, BatchReason.OVERSIZED),
        ({"max_requests": 0, "max_units": 0}, [(10, 1)] * 100, 100, BatchReason.QUEUE_EMPTIED),
    ],
)
def test_limits(
    limits: dict[str, int], sizes: list[tuple[int, int]], taken: int, reason: BatchReason
) -> None:
    fleet = Fleet()
    fleet.replica(condition=ReplicaCondition.READY, **limits)
    for units, rows in sizes:
        fleet.ticket(units=units, rows=rows)
    batch = fleet.batch()
    assert (len(batch), batch.reason) == (taken, reason)


def test_small_ones_pass_a_large_one_that_does_not_fit() -> None:
    fleet = Fleet()
    fleet.replica(max_units=1_000)
    head = fleet.ticket(units=600, slack=300 * MS)
    large = fleet.ticket(units=600, slack=400 * MS)
    small = [fleet.ticket(units=100, slack=500 * MS) for _ in range(4)]
    batch = fleet.batch()
    assert batch.tickets == [head, *small]
    fleet.run(batch)
    assert fleet.batch().tickets == [large]


def test_nobody_is_in_a_batch_that_would_be_late_for_it() -> None:
    fleet = Fleet()
    fleet.replica()
    fleet.teach()
    urgent = fleet.ticket(units=100, slack=exact_ns(250))
    relaxed = [fleet.ticket(units=100, slack=SECOND) for _ in range(2)]
    batch = fleet.batch()
    assert batch.tickets == relaxed, "two answers in time for the price of one"
    assert batch.reason == BatchReason.DEADLINE
    assert min(batch.slack_ns) > 0
    assert fleet.core.pool_of(urgent) == fleet.pool


def test_what_became_infeasible_in_the_queue_is_not_run() -> None:
    fleet = Fleet()
    fleet.replica()
    fleet.teach()
    running = fleet.ticket(units=4_000)
    first = fleet.batch()
    hopeless = fleet.ticket(slack=exact_ns(4_000) + exact_ns(100) - MS)
    fine = fleet.ticket(slack=exact_ns(4_000) + exact_ns(200))
    fleet.run(first)
    batch = fleet.batch()
    assert batch.tickets == [fine]
    assert fleet.core.pool_of(hopeless) == fleet.pool, "it stays until its deadline"
    assert fleet.core.pool_of(running) == -1
    fleet.now += exact_ns(100) - MS
    assert [ended.ticket for ended in fleet.core.expire(fleet.now)] == [hopeless]


def test_many_hopeless_ones_do_not_hide_a_feasible_one() -> None:
    fleet = Fleet(max_queued_requests=10_000)
    fleet.core.set_policy(fleet.pool, shed_early=False)
    fleet.replica()
    fleet.teach()
    fleet.ticket(units=4_000)
    first = fleet.batch()
    wait = exact_ns(4_000)
    for _ in range(2_000):
        fleet.ticket(units=3_000, slack=wait + exact_ns(2_900))
    fine = fleet.ticket(units=100, slack=wait + exact_ns(3_050))
    fleet.run(first)
    assert fleet.batch().tickets == [fine]


def test_rows_count_not_requests() -> None:
    fleet = Fleet()
    fleet.replica(max_rows=32)
    wide = fleet.ticket(rows=32, slack=100 * MS)
    narrow = fleet.ticket(rows=1, slack=200 * MS)
    assert fleet.batch().tickets == [wide]
    assert fleet.core.pool_of(narrow) == fleet.pool


class TestLanes:
    def test_bulk_work_fills_what_is_left(self) -> None:
        fleet = Fleet()
        fleet.replica(max_requests=3)
        bulk = [fleet.ticket(lane=2, slack=200 * MS) for _ in range(3)]
        interactive = [fleet.ticket(lane=1, slack=800 * MS) for _ in range(2)]
        assert fleet.batch().tickets == [*interactive, bulk[0]]

    def test_both_bounds_hold_under_a_steady_interactive_stream(self) -> None:
        fleet = Fleet(max_queued_requests=10_000)
        fleet.replica(max_requests=4)
        for _ in range(400):
            fleet.ticket(lane=2, slack=3_600 * SECOND)
        led_by_bulk = []
        for _ in range(400):
            for _ in range(4):
                fleet.ticket(lane=1, slack=3_600 * SECOND)
            batch = fleet.batch()
            led_by_bulk.append(batch.tickets[0] <= (1 << 24) + 399)
            fleet.run(batch)
        # One bulk request is a quarter of a batch; 5 % of device time is one in five batches.
        turns = [index for index, led in enumerate(led_by_bulk) if led]
        gaps = [later - earlier for earlier, later in pairwise(turns)]
        assert len(turns) >= 75
        assert set(gaps) == {5}

    def test_bulk_gets_one_batch_of_twenty(self) -> None:
        fleet = Fleet(max_queued_requests=10_000)
        fleet.replica(max_requests=1)
        bulk = {fleet.ticket(lane=2, slack=3_600 * SECOND) for _ in range(100)}
        interactive_between = []
        count = 0
        for _ in range(200):
            fleet.ticket(lane=1, slack=3_600 * SECOND)
            batch = fleet.batch()
            fleet.run(batch)
            if batch.tickets[0] in bulk:
                interactive_between.append(count)
                count = 0
            else:
                count += 1
        assert len(interactive_between) >= 9
        assert set(interactive_between[1:]) == {19}


class TestUnlikeLimits:
    def test_a_large_request_goes_where_it_fits(self) -> None:
        fleet = Fleet()
        for _ in range(6):
            fleet.replica(max_units=100)
        roomy = fleet.replica(max_units=5_000)
        fleet.ticket(units=5_000)
        batch = fleet.batch()
        assert batch.replica == roomy

    def test_limits_are_those_of_the_chosen_replica(self) -> None:
        fleet = Fleet()
        sizes = {fleet.replica(max_requests=1): 1, fleet.replica(max_requests=5): 5}
        for _ in range(6):
            fleet.ticket()
        batches = [fleet.batch(), fleet.batch()]
        assert {batch.replica: len(batch) for batch in batches} == sizes


def test_units_counted_by_the_runtime_correct_the_estimate() -> None:
    # The gateway counts 100 where the runtime counts 300; predictions are for the estimates.
    fleet = Fleet()
    fleet.replica()
    for index in range(30):
        fleet.ticket(units=100 * (1 + index % 3), slack=SECOND)
        batch = fleet.batch()
        took = exact_ns(3 * batch.units)
        fleet.now += took
        fleet.core.complete(fleet.now, batch.id, BatchOutcome.OK, took, 3 * batch.units)
    fleet.ticket(units=200)
    assert abs(fleet.batch().predicted_ns - exact_ns(600)) < MS // 10


def test_the_handoff_counts_against_the_deadline() -> None:
    fleet = Fleet()
    fleet.replica()
    for _ in range(9):
        fleet.ticket()
        fleet.run(fleet.batch(), handoff_ns=10 * MS)
    assert fleet.refusal(slack=exact_ns(100) + 9 * MS).needed == exact_ns(100) + 10 * MS
    fleet.ticket(slack=exact_ns(100) + 11 * MS)
    slack = fleet.batch().slack_ns[0]
    assert abs(slack - MS) < 1_000


def test_a_second_batch_waits_for_the_first_on_its_replica() -> None:
    fleet = Fleet()
    fleet.replica(max_outstanding=2, max_requests=1)
    fleet.ticket(units=1_000, slack=100 * MS)
    fleet.ticket(units=1_000, slack=100 * MS)
    first, second = fleet.batch(), fleet.batch()
    assert first.slack_ns == [100 * MS - exact_ns(1_000)]
    assert second.slack_ns == [100 * MS - 2 * exact_ns(1_000)]
