"""Persistent overload ratchets the baseline up until the limit means nothing.

On the core: a live fleet would need minutes of real overload to show it.
"""

from tests.unit.core.fleet import MS, Fleet, exact_ns

from headway._core import BatchOutcome


def test_fault_39_baseline_ratchets() -> None:
    fleet = Fleet()
    fleet.replica()
    fleet.core.set_admission(fleet.pool, limit_initial=400, limit_min=8, limit_max=1_000)
    fleet.teach(20)
    assert fleet.core.pool_stats(fleet.pool).limit == 400
    # From here on each answer takes 300 ms longer than the device does, for ever.
    for _ in range(3_000):
        fleet.ticket(slack=10_000 * MS)
        batch = fleet.batch()
        fleet.now += exact_ns(batch.units) + 300 * MS
        fleet.core.complete(
            fleet.now, batch.id, BatchOutcome.OK, exact_ns(batch.units), batch.units
        )
    stats = fleet.core.pool_stats(fleet.pool)
    assert stats.limit_gradient < 0.6, "3,000 late batches are no new normal"
    assert stats.limit == 8
    # And it is over as soon as the delay is.
    fleet.teach(100)
    assert fleet.core.pool_stats(fleet.pool).limit_gradient == 1.0
