"""Known fault 26: the estimate of an idle replica decays to zero, and a slow one wins."""

from tests.unit.core.fleet import MS, SECOND, Fleet, exact_ns

FAR = 3_600 * SECOND


def test_fault_26_idle_decay() -> None:
    fleet = Fleet()
    fast, slow = [fleet.replica(), fleet.replica()], fleet.replica()
    taken = dict.fromkeys([*fast, slow], 0)
    for _ in range(400):
        fleet.ticket(slack=FAR)
        batch = fleet.batch()
        taken[batch.replica] += 1
        fleet.run(batch, exact_ns(100, 0.1 if batch.replica == slow else 1.0))
    assert taken[slow] < 40
    # An hour without traffic: it relaxes to what the fleet takes on a replica of its speed.
    fleet.now += 3_600 * SECOND
    idle = fleet.core.replica_stats(slow).latency_ns
    assert idle > 4 * exact_ns(100)
    assert fleet.core.replica_stats(fast[0]).latency_ns > 10 * MS
    slow_now = 0
    for _ in range(100):
        fleet.ticket(slack=FAR)
        batch = fleet.batch()
        slow_now += batch.replica == slow
        fleet.run(batch, exact_ns(100, 0.1 if batch.replica == slow else 1.0))
    assert slow_now <= 10
