"""Which replica gets the batch."""

from collections import Counter

from tests.unit.core.fleet import MS, SECOND, Fleet, exact_ns

from headway._core import BatchOutcome, ReplicaCondition


def serve(fleet: Fleet, device_ns: dict[int, int], batches: int) -> Counter[int]:
    """One request at a time; a negative time fails the batch after so long."""
    chosen: Counter[int] = Counter()
    for _ in range(batches):
        fleet.ticket(slack=3_600 * SECOND)
        batch = fleet.batch()
        chosen[batch.replica] += 1
        took = device_ns[batch.replica]
        fleet.now += abs(took)
        if took >= 0:
            fleet.core.complete(fleet.now, batch.id, BatchOutcome.OK, took, batch.units)
            continue
        lost = fleet.core.complete(fleet.now, batch.id, BatchOutcome.FAILED)
        for ticket in {*batch.tickets} - {*lost}:
            fleet.core.cancel(fleet.now, ticket)
    return chosen


def test_a_lone_replica_gets_everything() -> None:
    fleet = Fleet()
    replica = fleet.replica()
    assert serve(fleet, {replica: 20 * MS}, 50) == {replica: 50}


def test_equals_share_equally() -> None:
    fleet = Fleet()
    replicas = [fleet.replica() for _ in range(4)]
    chosen = serve(fleet, dict.fromkeys(replicas, 20 * MS), 1_000)
    # The same latency everywhere leaves it to the draws: 250 +- 14, four deviations.
    assert all(194 <= chosen[replica] <= 306 for replica in replicas), chosen


def test_a_slow_one_gets_less_but_not_nothing() -> None:
    fleet = Fleet()
    fast, slow = fleet.replica(), fleet.replica()
    chosen = serve(fleet, {fast: 20 * MS, slow: 60 * MS}, 3_000)
    assert 0 < chosen[slow] < 300, chosen


def test_one_that_fails_fast_does_not_look_fast() -> None:
    fleet = Fleet()
    good, bad = fleet.replica(), fleet.replica()
    chosen = serve(fleet, {good: 20 * MS, bad: -2 * MS}, 1_000)
    assert chosen[bad] <= 10, chosen
    stats = fleet.core.replica_stats(bad)
    assert (stats.latency_ns, stats.completed_batches) == (0, 0)
    assert stats.failed_batches == chosen[bad]


def test_one_that_works_again_is_used_again() -> None:
    fleet = Fleet()
    good, bad = fleet.replica(), fleet.replica()
    serve(fleet, {good: 20 * MS, bad: -2 * MS}, 100)
    fleet.core.set_replica_condition(fleet.now, good, ReplicaCondition.DRAINING)
    serve(fleet, {bad: 20 * MS}, 1)
    fleet.core.set_replica_condition(fleet.now, good, ReplicaCondition.READY)
    chosen = serve(fleet, {good: 20 * MS, bad: 20 * MS}, 1_000)
    assert 400 <= chosen[bad] <= 600, chosen


def test_a_new_replica_gets_a_share_not_everything() -> None:
    fleet = Fleet()
    old = [fleet.replica() for _ in range(3)]
    serve(fleet, dict.fromkeys(old, 20 * MS), 200)
    new = fleet.replica()
    chosen = serve(fleet, dict.fromkeys([*old, new], 20 * MS), 400)
    assert 60 <= chosen[new] <= 140, chosen


def test_an_idle_slow_one_relaxes_toward_the_others() -> None:
    fleet = Fleet()
    fast, slow = fleet.replica(), fleet.replica()
    serve(fleet, {fast: 20 * MS, slow: 2 * SECOND}, 20)
    shunned = fleet.core.replica_stats(slow).latency_ns
    fleet.now += 60 * SECOND
    serve(fleet, {fast: 20 * MS, slow: 20 * MS}, 1)
    relaxed = fleet.core.replica_stats(slow).latency_ns
    assert shunned > SECOND
    assert relaxed < shunned / 10


def test_unlike_speeds_are_learned_and_do_not_blur() -> None:
    fleet = Fleet()
    speeds = {fleet.replica(): 1.0, fleet.replica(): 1.0, fleet.replica(): 0.6}
    for index in range(600):
        fleet.ticket(units=50 + 97 * (index % 7), slack=3_600 * SECOND)
        batch = fleet.batch()
        # The other two are taken, so that each learns as much.
        taken = []
        for _ in range(index % 3):
            fleet.ticket(units=100 + 31 * (index % 5), slack=3_600 * SECOND)
            taken.append(fleet.batch())
        for done in (batch, *taken):
            fleet.run(done, exact_ns(done.units, speeds[done.replica]))
    learned = [fleet.core.replica_stats(replica).speed for replica in speeds]
    assert abs(learned[0] / learned[1] - 1) < 0.02
    assert abs(learned[2] / learned[0] - 0.6) < 0.02
    for _ in speeds:
        fleet.ticket(units=400, slack=3_600 * SECOND)
        batch = fleet.batch()
        assert batch.units == 400
        assert abs(batch.predicted_ns / exact_ns(400, speeds[batch.replica]) - 1) < 0.03


def test_a_new_slow_replica_does_not_blur_the_fit() -> None:
    fleet = Fleet()
    fast = fleet.replica()
    fleet.teach(50)
    before = fleet.core.pool_stats(fleet.pool)
    slow = fleet.replica()
    fleet.core.set_replica_condition(fleet.now, fast, ReplicaCondition.DRAINING)
    for _ in range(3):
        fleet.ticket(units=200, slack=3_600 * SECOND)
        fleet.run(fleet.batch(), exact_ns(200, 0.25))
    after = fleet.core.pool_stats(fleet.pool)
    predicted = [stats.cost_intercept_ns + 200 * stats.cost_slope_ns for stats in (before, after)]
    assert abs(predicted[1] / predicted[0] - 1) < 0.03
    assert abs(fleet.core.replica_stats(slow).speed / 0.25 - 1) < 0.15


def test_a_fleet_that_slows_down_together_is_followed() -> None:
    fleet = Fleet()
    for _ in range(3):
        fleet.replica()
    fleet.teach(60)
    fleet.teach(8, scale=4)
    fleet.ticket(units=200, slack=3_600 * SECOND)
    assert abs(fleet.batch().predicted_ns / (4 * exact_ns(200)) - 1) < 0.15


def test_what_only_the_fast_one_can_do_in_time_waits_for_it_alone() -> None:
    fleet = Fleet()
    speeds = {fleet.replica(): 1.0, fleet.replica(): 0.5}
    for index in range(200):
        for _ in speeds:
            fleet.ticket(units=100 + 50 * (index % 5), slack=3_600 * SECOND)
            batch = fleet.batch()
            fleet.run(batch, exact_ns(batch.units, speeds[batch.replica]))
    for _ in range(20):
        fleet.ticket(units=1_000, slack=round(1.2 * exact_ns(1_000)))
        batch = fleet.batch()
        assert speeds[batch.replica] == 1.0
        fleet.run(batch, exact_ns(1_000))


def slow_beside_fast() -> tuple[Fleet, int, int]:
    """Two replicas, one known to take ten times as long."""
    fleet = Fleet()
    fast, slow = fleet.replica(), fleet.replica()
    for index in range(80):
        both = []
        for _ in range(2):
            fleet.ticket(units=100 + 50 * (index % 5), slack=3_600 * SECOND)
            batch = fleet.form()
            if batch is not None:
                both.append(batch)
        for batch in both:
            fleet.run(batch, exact_ns(batch.units, 1.0 if batch.replica == fast else 0.1))
    while (batch := fleet.form()) is not None:
        fleet.run(batch, exact_ns(batch.units, 1.0 if batch.replica == fast else 0.1))
    speeds = [fleet.core.replica_stats(replica).speed for replica in (fast, slow)]
    assert speeds[1] / speeds[0] < 0.2
    return fleet, fast, slow


def test_a_request_waits_for_a_fast_replica_rather_than_take_a_slow_one() -> None:
    fleet, fast, slow = slow_beside_fast()
    fleet.core.set_replica_condition(fleet.now, slow, ReplicaCondition.DRAINING)
    fleet.ticket(units=300, slack=3_600 * SECOND)
    held = fleet.batch()
    fleet.core.set_replica_condition(fleet.now, slow, ReplicaCondition.READY)
    fleet.ticket(slack=3_600 * SECOND)
    assert fleet.form() is None
    fleet.run(held)
    assert fleet.batch().replica == fast


def test_a_slow_replica_takes_what_the_fast_ones_cannot_serve_sooner() -> None:
    fleet, _, slow = slow_beside_fast()
    taken = []
    for _ in range(100):
        fleet.ticket(units=500, slack=3_600 * SECOND)
    while (batch := fleet.form()) is not None:
        taken.append(batch.replica)
    assert slow in taken


def test_a_request_does_not_wait_for_ever_for_a_fast_replica_that_hangs() -> None:
    fleet, _, slow = slow_beside_fast()
    fleet.core.set_replica_condition(fleet.now, slow, ReplicaCondition.DRAINING)
    fleet.ticket(units=300, slack=3_600 * SECOND)
    fleet.batch()
    fleet.core.set_replica_condition(fleet.now, slow, ReplicaCondition.READY)
    fleet.ticket(slack=3_600 * SECOND)
    assert fleet.form() is None
    event = fleet.core.next_event_ns()
    assert event is not None
    assert event - fleet.now < 2 * exact_ns(100, 0.1)
    fleet.now = event
    assert fleet.batch().replica == slow


def test_same_seed_same_choices() -> None:
    def choices(seed: int) -> list[int]:
        fleet = Fleet(seed=seed)
        for _ in range(8):
            fleet.replica()
        for _ in range(8 * 32):
            fleet.ticket()
        return [fleet.batch().replica for _ in range(8)]

    assert choices(1) == choices(1)
    assert choices(1) != choices(2)
