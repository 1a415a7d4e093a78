"""Known fault 30: half-open probes leak, or are unbounded."""

import pytest
from tests.unit.core.fleet import MS, SECOND, Fleet

from headway._core import BatchOutcome, BreakerState

FAR = 3_600 * SECOND


@pytest.mark.parametrize("end", ["busy", "cancelled", "invalid", "lost"])
def test_fault_30_probes(end: str) -> None:
    fleet = Fleet()
    bad = fleet.replica()
    for _ in range(12):
        fleet.ticket(slack=FAR)
    batch = fleet.batch()
    good = fleet.replica()
    fleet.core.complete(fleet.now, batch.id, BatchOutcome.FAILED)
    while (batch := fleet.form()) is not None:
        fleet.run(batch)
    assert fleet.core.replica_stats(bad).breaker == BreakerState.OPEN
    for _ in range(50):
        # Whatever became of the last probe, there is room for the next one, and only for one.
        fleet.now = max(fleet.now, fleet.core.replica_stats(bad).open_until_ns) + SECOND
        tickets = [fleet.ticket(slack=FAR) for _ in range(6)]
        probe, rest = fleet.batch(), fleet.batch()
        assert (probe.replica, len(probe)) == (bad, 1)
        assert (rest.replica, len(rest)) == (good, 5)
        assert fleet.core.replica_stats(bad).outstanding_batches == 1
        if end == "busy":
            fleet.core.complete(fleet.now, probe.id, BatchOutcome.BUSY, retry_after_ns=MS)
        elif end == "cancelled":
            fleet.core.cancel(fleet.now, probe.tickets[0])
            fleet.core.complete(fleet.now, probe.id, BatchOutcome.OK)
        elif end == "invalid":
            fleet.core.complete(fleet.now, probe.id, BatchOutcome.OK, invalid=1)
        else:
            fleet.core.complete(fleet.now, probe.id, BatchOutcome.LOST)
        for ticket in tickets:
            fleet.core.cancel(fleet.now, ticket)
        fleet.core.complete(fleet.now, rest.id, BatchOutcome.OK)
    assert fleet.core.num_live() == fleet.core.num_executing() == 0
