"""Known fault 27: a new replica without history gets all the traffic, or none."""

from tests.unit.core.fleet import SECOND, Fleet, exact_ns

FAR = 3_600 * SECOND


def shares_of(fleet: Fleet, replica: int, seconds: int) -> list[float]:
    """Share of a replica in each second of traffic, one request at a time."""
    shares = []
    for _ in range(seconds):
        begun, taken, total = fleet.now, 0, 0
        while fleet.now < begun + SECOND:
            fleet.ticket(slack=FAR)
            batch = fleet.batch()
            taken += batch.replica == replica
            total += 1
            fleet.run(batch, exact_ns(100))
        shares.append(taken / total)
    return shares


def test_fault_27_new_replica() -> None:
    fleet = Fleet()
    old = [fleet.replica() for _ in range(3)]
    for replica in old:
        assert shares_of(fleet, replica, 1)[0] < 0.7
    shares = shares_of(fleet, fleet.replica(), 20)
    # 48 batches a second. In the first it rises from 10 to 40 % of its quarter; afterwards it has
    # its quarter, 960 * 17/20 draws with a standard deviation of 1.5 %.
    assert 0 < shares[0] + shares[1]
    assert shares[0] < 0.2
    assert abs(sum(shares[3:]) / 17 - 0.25) < 0.08
