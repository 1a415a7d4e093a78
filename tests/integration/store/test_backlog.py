"""History waits for a store that is away, within a bound, and is written once."""

from tests.support.postgresql import PostgresServer

from headway.store.backlog import Backlog
from headway.store.engine import parse
from headway.store.records import AuditEntry, Author, RolloutRecord, VerdictRecord
from headway.store.store import Store

OPS = Author("ops")
ROLLOUT = RolloutRecord("r1", "sim", "v1", "v2", "running", 0, 0.01, {}, 10)


def verdict(sequence: int) -> VerdictRecord:
    return VerdictRecord("r1", sequence, 20, "hold", "errors", "alike", {}, {}, {"errors": 1.0})


def entry(target: str) -> AuditEntry:
    return AuditEntry(0, 5, OPS, "reload", "config", target, None, {"changes": []})


async def test_verdicts_wait_for_the_store_and_come_in_order(
    own_postgresql: PostgresServer,
) -> None:
    store = Store(parse(own_postgresql.url()), timeout_s=2)
    await store.prepare()
    async with store.change(OPS, 1) as change:
        await change.put_rollout(ROLLOUT, "start")
    backlog = Backlog(store, limit=300)
    own_postgresql.stop()
    for sequence in range(1, 401):
        backlog.add_verdict(verdict(sequence))
    backlog.add_audit(entry("gateway-1"))
    assert not await backlog.flush()
    assert (len(backlog), backlog.num_dropped) == (301, 100)
    own_postgresql.start()
    assert await backlog.flush()
    kept = await store.verdicts("r1", limit=1000)
    assert [v.sequence for v in kept] == list(range(101, 401))
    assert [e.target for e in await store.audit_entries()] == ["gateway-1", "r1"]
    await store.close()


async def test_without_a_store_the_newest_are_kept() -> None:
    backlog = Backlog(None, limit=2)
    for target in "abc":
        backlog.add_audit(entry(target))
    assert not await backlog.flush()
    assert (len(backlog), backlog.num_dropped) == (2, 1)
