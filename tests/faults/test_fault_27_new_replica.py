"""Known fault 27: a new replica without history gets all the traffic, or none."""

from tests.unit.core.fleet import Fleet


def test_fault_27_new_replica() -> None:
    fleet = Fleet()
    old = [fleet.replica() for _ in range(3)]
    for replica in old:
        assert fleet.share_of(replica) < 0.7
    new = fleet.replica()
    shares = [fleet.share_of(new) for _ in range(20)]
    # 48 batches a second. In the first it rises from 10 to 40 % of its quarter; afterwards it has
    # its quarter, 960 * 17/20 draws with a standard deviation of 1.5 %.
    assert 0 < shares[0] + shares[1]
    assert shares[0] < 0.2
    assert abs(sum(shares[3:]) / 17 - 0.25) < 0.08
