"""Breakers and failover: who is shut out, for what, and who is not."""

from tests.unit.core.fleet import MS, SECOND, Fleet

from headway._core import Batch, BatchOutcome, BreakerState, ReplicaCondition

FAR = 3_600 * SECOND


def fail(fleet: Fleet, batch: Batch, outcome: BatchOutcome = BatchOutcome.FAILED) -> list[int]:
    fleet.now += 2 * MS
    return fleet.core.complete(fleet.now, batch.id, outcome)


def serve(fleet: Fleet, bad: set[int], requests: int) -> int:
    """One request after another; replicas in `bad` fail after 2 ms. Returns the answered ones."""
    answered = 0
    for _ in range(requests):
        fleet.ticket(slack=FAR)
        while (batch := fleet.form()) is not None:
            if batch.replica in bad:
                fail(fleet, batch)
            else:
                answered += len(batch) - len(fleet.run(batch))
    return answered


def shut_out(fleet: Fleet) -> tuple[int, int]:
    """A healthy replica, and one whose breaker has opened."""
    bad = fleet.replica()
    for _ in range(12):
        fleet.ticket(slack=FAR)
    batch = fleet.batch()
    good = fleet.replica()
    fail(fleet, batch)
    while (batch := fleet.form()) is not None:
        fleet.run(batch)
    assert fleet.core.replica_stats(bad).breaker == BreakerState.OPEN
    return good, bad


def test_a_replica_that_fails_is_shut_out() -> None:
    fleet = Fleet()
    good, bad = shut_out(fleet)
    stats = fleet.core.replica_stats(bad)
    assert 4.4 * SECOND <= stats.open_until_ns - fleet.now <= 5.5 * SECOND
    assert fleet.core.pool_stats(fleet.pool).ejected_replicas == 1
    fleet.ticket(slack=FAR)
    held = fleet.batch()
    assert held.replica == good
    fleet.ticket(slack=FAR)
    assert fleet.form() is None, "a replica that is shut out was given work"


def test_it_is_probed_by_single_requests_and_returns() -> None:
    fleet = Fleet()
    good, bad = shut_out(fleet)
    fleet.now = fleet.core.replica_stats(bad).open_until_ns
    for _ in range(3):
        for _ in range(5):
            fleet.ticket(slack=FAR)
        probe, rest = fleet.batch(), fleet.batch()
        assert (probe.replica, len(probe)) == (bad, 1)
        assert (rest.replica, len(rest)) == (good, 4)
        assert fleet.core.replica_stats(bad).breaker == BreakerState.HALF_OPEN
        fleet.ticket(slack=FAR)
        assert fleet.form() is None, "one probe at a time"
        fleet.run(rest)
        fleet.run(fleet.batch())
        fleet.run(probe)
    assert fleet.core.replica_stats(bad).breaker == BreakerState.CLOSED


def test_a_probe_that_ends_without_a_verdict_is_not_leaked() -> None:
    fleet = Fleet()
    _, bad = shut_out(fleet)
    fleet.now = fleet.core.replica_stats(bad).open_until_ns
    for number in range(30):
        ticket = fleet.ticket(slack=FAR)
        probe = fleet.batch()
        assert probe.replica == bad
        if number % 2:
            fleet.core.cancel(fleet.now, ticket)
            fleet.core.complete(fleet.now, probe.id, BatchOutcome.OK)
        else:
            fleet.core.complete(fleet.now, probe.id, BatchOutcome.OK, invalid=1)
    assert fleet.core.replica_stats(bad).breaker == BreakerState.HALF_OPEN


def test_a_failed_probe_opens_it_for_longer() -> None:
    fleet = Fleet()
    good, bad = shut_out(fleet)
    fleet.now = fleet.core.replica_stats(bad).open_until_ns
    fleet.ticket(slack=FAR)
    probe = fleet.batch()
    assert probe.replica == bad
    assert fail(fleet, probe) == []
    stats = fleet.core.replica_stats(bad)
    assert stats.breaker == BreakerState.OPEN
    assert 9 * SECOND <= stats.open_until_ns - fleet.now <= 11 * SECOND
    again = fleet.batch()
    assert (again.replica, again.tickets) == (good, probe.tickets)


def test_the_last_one_is_never_shut_out() -> None:
    fleet = Fleet(max_attempts=1)
    replica = fleet.replica()
    for _ in range(60):
        fleet.ticket(slack=FAR)
        fail(fleet, fleet.batch())
    assert fleet.core.replica_stats(replica).breaker == BreakerState.CLOSED


def test_no_more_than_half_of_a_pool_is_shut_out() -> None:
    fleet = Fleet(max_attempts=1)
    replicas = [fleet.replica() for _ in range(5)]
    for _ in range(400):
        fleet.ticket(slack=FAR)
        fail(fleet, fleet.batch())
    states = [fleet.core.replica_stats(replica).breaker for replica in replicas]
    assert states.count(BreakerState.OPEN) == 2


def test_one_that_is_shut_out_returns_when_the_others_are_gone() -> None:
    fleet = Fleet()
    good, bad = shut_out(fleet)
    assert fleet.core.replica_stats(bad).breaker == BreakerState.OPEN
    fleet.core.set_replica_condition(fleet.now, good, ReplicaCondition.DRAINING)
    fleet.ticket(slack=FAR)
    assert fleet.batch().replica == bad


def test_a_request_does_not_go_back_to_the_replica_that_failed_it() -> None:
    fleet = Fleet()
    bad = fleet.replica()
    for _ in range(8):
        fleet.ticket(slack=FAR)
    batch = fleet.batch()
    good = fleet.replica()
    fleet.ticket(slack=FAR, units=300)
    taken = fleet.batch()
    assert taken.replica == good
    assert fail(fleet, batch) == []
    assert fleet.form() is None, "only the one that failed it is free"
    fleet.run(taken)
    assert {fleet.batch().replica} == {good}
    assert fleet.core.replica_stats(bad).outstanding_batches == 0


def test_alone_it_is_tried_there_again() -> None:
    fleet = Fleet()
    only = fleet.replica()
    fleet.ticket(slack=FAR)
    batch = fleet.batch()
    assert fail(fleet, batch) == []
    assert fleet.batch().replica == only


def test_a_poison_client_opens_no_breaker() -> None:
    """Every batch holds a request that takes the whole batch with it, wherever it goes."""
    fleet = Fleet()
    replicas = [fleet.replica() for _ in range(3)]
    poison: set[int] = set()
    lost: list[int] = []
    for _ in range(100):
        for number in range(8):
            ticket = fleet.ticket(slack=FAR)
            if number == 0:
                poison.add(ticket)
        running: list[Batch] = []
        while True:
            batch = fleet.form()
            if batch is not None:
                running.append(batch)
                continue
            if not running:
                break
            done = running.pop(0)
            if poison & set(done.tickets):
                lost += fail(fleet, done)
            else:
                fleet.run(done)
        assert all(
            fleet.core.replica_stats(replica).breaker == BreakerState.CLOSED for replica in replicas
        )
    assert set(lost) == poison
    assert fleet.core.num_live() == 0


def test_a_client_of_nothing_but_poison_opens_no_breaker() -> None:
    fleet = Fleet()
    replicas = [fleet.replica() for _ in range(3)]
    for _ in range(200):
        fleet.ticket(slack=FAR)
        # Ten a second: what the retry budget has without traffic.
        fleet.now += SECOND
        while (batch := fleet.form()) is not None:
            fail(fleet, batch)
    for replica in replicas:
        assert fleet.core.replica_stats(replica).breaker == BreakerState.CLOSED


def test_a_batch_that_failed_for_the_replica_counts_each_request() -> None:
    """Once all of them were answered elsewhere, it was not one of them."""
    fleet = Fleet()
    bad = fleet.replica()
    for _ in range(12):
        fleet.ticket(slack=FAR)
    batch = fleet.batch()
    assert len(batch) == 12
    good, third = fleet.replica(), fleet.replica()
    fail(fleet, batch)
    assert fleet.core.replica_stats(bad).recent_failures == 1
    while (batch_again := fleet.form()) is not None:
        assert batch_again.replica in (good, third)
        fleet.run(batch_again)
    assert fleet.core.replica_stats(bad).breaker == BreakerState.OPEN


def test_client_errors_busy_answers_and_cancellations_are_neutral() -> None:
    fleet = Fleet()
    one, two = fleet.replica(), fleet.replica()
    for _ in range(60):
        fleet.ticket(slack=FAR)
        batch = fleet.batch()
        fleet.now += 100_000
        fleet.core.complete(fleet.now, batch.id, BatchOutcome.OK, 1_000, 0, invalid=1)
        ticket = fleet.ticket(slack=FAR)
        batch = fleet.batch()
        fleet.core.cancel(fleet.now, ticket)
        fleet.core.complete(fleet.now, batch.id, BatchOutcome.OK)
        fleet.ticket(slack=FAR)
        batch = fleet.batch()
        fleet.core.complete(fleet.now, batch.id, BatchOutcome.BUSY)
        fleet.core.cancel(fleet.now, batch.tickets[0])
        fleet.now += SECOND
    for replica in (one, two):
        stats = fleet.core.replica_stats(replica)
        assert (stats.recent_outcomes, stats.latency_ns) == (0, 0)
        assert stats.breaker == BreakerState.CLOSED


def test_what_a_worker_leaves_out_counts_against_it() -> None:
    fleet = Fleet()
    replica = fleet.replica()
    fleet.teach(6)
    before = fleet.core.replica_stats(replica)
    tickets = [fleet.ticket(slack=FAR) for _ in range(4)]
    batch = fleet.batch()
    fleet.now += MS
    fleet.core.complete(fleet.now, batch.id, BatchOutcome.OK, MS, batch.units, retry=tickets[:1])
    after = fleet.core.replica_stats(replica)
    assert after.recent_failures == 1
    assert after.recent_outcomes == before.recent_outcomes + 4
    assert after.latency_ns == before.latency_ns, "a quick wrong answer made it look quick"


def test_an_outage_is_not_multiplied_by_retries() -> None:
    """All replicas fail. Executions stay near a tenth above the requests."""
    fleet = Fleet()
    for _ in range(4):
        fleet.replica()
    executions = requests = 0
    for _ in range(3_000):
        fleet.ticket(slack=FAR)
        requests += 1
        fleet.now += 2 * MS
        while (batch := fleet.form()) is not None:
            executions += len(batch)
            fail(fleet, batch)
    # 3,000 requests earn 300 retries; 100 were there, and 10 a second came beside.
    seconds = fleet.now / SECOND
    assert executions <= requests + 300 + 100 + 10 * seconds + 1
    assert fleet.core.pool_stats(fleet.pool).retries_refused > 1_000


def test_a_single_failure_costs_nobody_an_answer() -> None:
    fleet = Fleet()
    good, bad = fleet.replica(), fleet.replica()
    assert serve(fleet, {bad}, 1_000) == 1_000
    assert good != bad


def test_a_returned_replica_reaches_its_share_slowly() -> None:
    fleet = Fleet()
    old = fleet.replica()
    for _ in range(20):
        fleet.ticket(slack=FAR)
        fleet.run(fleet.batch())
    new = fleet.replica()
    shares = []
    for _ in range(2):
        shares.append(fleet.share_of(new))
        fleet.now += 10 * SECOND
    # Of two alike the new one is drawn cheaper half the time, and yields 90 to 60 % of those.
    assert shares[0] < 0.3
    assert 0.35 < shares[1] < 0.65
    assert old != new
