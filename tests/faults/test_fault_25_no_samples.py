"""Known fault 25: a busy answer or an aborted hedge is recorded as a fast success."""

from tests.unit.core.fleet import MS, SECOND, Fleet, exact_ns

from headway._core import BatchOutcome

FAR = 3_600 * SECOND


def test_fault_25_no_samples() -> None:
    fleet = Fleet()
    fleet.core.set_resilience(hedge_share=0.05)
    replicas = [fleet.replica(), fleet.replica()]
    for _ in range(60):
        fleet.ticket(slack=FAR)
        fleet.run(fleet.batch(), exact_ns(100))
    fleet.ticket(slack=FAR)
    late = fleet.batch()
    fleet.now = late.look_at_ns
    copy = fleet.batch()
    assert copy.hedge_of == late.id
    fleet.run(late, exact_ns(100))
    before = [fleet.core.replica_stats(replica) for replica in replicas]
    # The copy is stopped at once, and afterwards the replica turns a batch away.
    fleet.core.complete(fleet.now, copy.id, BatchOutcome.OK)
    fleet.ticket(slack=FAR)
    turned_away = fleet.batch()
    fleet.core.complete(fleet.now, turned_away.id, BatchOutcome.BUSY, retry_after_ns=MS)
    for replica, stats in zip(replicas, before, strict=True):
        after = fleet.core.replica_stats(replica)
        assert after.latency_ns == stats.latency_ns
        assert after.recent_outcomes == stats.recent_outcomes
