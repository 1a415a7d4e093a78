"""The store on both kinds of database."""

import asyncio

import pytest
from sqlalchemy.exc import IntegrityError
from tests.support.fleet import turn

from headway.errors import StoreUnavailable
from headway.store.engine import parse
from headway.store.records import (
    AuditEntry,
    Author,
    KeyRecord,
    Registration,
    RolloutRecord,
    SplitRecord,
    TenantRecord,
    VerdictRecord,
)
from headway.store.store import Store

OPS = Author("ops", "OpsKey01", "gateway-1")
ACME = TenantRecord("acme", 100.0, None, 2.0, 2, ("minilm", "sim"), False)
KEY = KeyRecord("Ab3dEf7h", "acme", b"\x01" * 32, "none", 5, None, None, "laptop")
SPLIT = SplitRecord("sim", (("v2", 0.25), ("v1", 0.75)))


async def test_a_new_store_is_empty(store: Store) -> None:
    everything = await store.read_since(-1)
    assert (everything.revision, everything.full) == (0, True)
    assert everything.tenants == {}
    assert everything.keys == {}
    assert everything.splits == {}
    assert everything.drained == {}


async def test_what_is_written_is_read_back_as_it_was(store: Store) -> None:
    async with store.change(OPS, 7) as change:
        await change.put_tenant(ACME, "create")
        await change.put_key(KEY, "create")
        await change.put_split(SPLIT)
        await change.set_drained("w1", True)
    everything = await store.read_since(-1)
    assert everything.revision == 4
    assert everything.tenants == {"acme": ACME}
    assert everything.keys == {"Ab3dEf7h": KEY}
    assert everything.splits == {"sim": SPLIT}
    assert everything.drained == {"w1": True}


async def test_a_follower_reads_only_what_changed(store: Store) -> None:
    async with store.change(OPS, 7) as change:
        await change.put_tenant(ACME, "create")
        await change.put_tenant(TenantRecord("other"), "create")
        await change.put_key(KEY, "create")
    async with store.change(OPS, 8) as change:
        await change.delete_tenant("acme")
        await change.set_drained("w1", True)
        await change.set_drained("w1", False)
    delta = await store.read_since(3)
    assert (delta.revision, delta.full) == (7, False)
    assert delta.tenants == {"acme": None}
    assert delta.keys == {"Ab3dEf7h": None}
    assert delta.drained == {"w1": False}
    assert delta.splits == {}
    assert (await store.read_since(7)).tenants == {}


async def test_each_change_is_audited_with_before_and_after(store: Store) -> None:
    async with store.change(OPS, 7) as change:
        await change.put_tenant(TenantRecord("acme"), "create")
        await change.put_tenant(ACME, "update")
        await change.put_key(KEY, "create")
    key, update, create = await store.audit_entries()
    assert create == AuditEntry(
        1, 7, OPS, "create", "tenant", "acme", None,
        {"tenant": "acme", "units_per_second": None, "burst_units": None, "weight": 1.0,
         "max_priority": 1, "models": [], "disabled": False},
    )  # fmt: skip
    assert update.before == create.after
    assert update.after is not None
    assert update.after["units_per_second"] == 100.0
    assert key.after == {
        "key_id": "Ab3dEf7h", "tenant": "acme", "role": "none", "created_at_ns": 5,
        "expires_at_ns": None, "revoked_at_ns": None, "description": "laptop",
    }  # fmt: skip
    assert [e.revision for e in await store.audit_entries(before=3, limit=1)] == [2]
    assert [e.revision for e in await store.audit_entries(target="Ab3dEf7h")] == [3]


async def test_a_change_that_fails_leaves_nothing(store: Store) -> None:
    with pytest.raises(LookupError):
        async with store.change(OPS, 7) as change:
            await change.put_tenant(ACME, "create")
            raise LookupError
    assert (await store.read_since(-1)).revision == 0
    assert await store.audit_entries() == []


async def test_changes_made_at_once_get_revisions_in_turn(store: Store) -> None:
    async def create(name: str) -> None:
        async with store.change(OPS, 1) as change:
            await change.put_tenant(TenantRecord(name), "create")

    await asyncio.gather(*(create(f"t{number}") for number in range(10)))
    assert [e.revision for e in await store.audit_entries()] == list(range(10, 0, -1))
    assert len((await store.read_since(-1)).tenants) == 10


ROLLOUT = RolloutRecord("r1", "sim", "v1", "v2", "running", 0, 0.01, {"steps": [0.01, 1]}, 10)


def verdict(sequence: int, decision: str = "hold") -> VerdictRecord:
    arm = {"requests": 10, "errors": 0, "p95_ns": 1_000_000}
    evidence = {"errors": 1.5, "p95": float("inf")}
    return VerdictRecord("r1", sequence, 20, decision, "errors", "alike", arm, arm, evidence)


async def test_rollouts_and_verdicts_keep_their_evidence(store: Store) -> None:
    async with store.change(OPS, 7) as change:
        await change.put_rollout(ROLLOUT, "start")
    await store.add_verdicts([verdict(1), verdict(2)])
    await store.add_verdicts([verdict(2, "advance"), verdict(3, "advance")])
    assert await store.rollouts(active_only=True) == [ROLLOUT]
    read = await store.verdicts("r1", limit=10)
    assert [(v.sequence, v.decision) for v in read] == [(1, "hold"), (2, "hold"), (3, "advance")]
    assert read[0].baseline == {"requests": 10, "errors": 0, "p95_ns": 1_000_000}
    assert read[0].evidence == {"errors": 1.5, "p95": 1e308}
    assert [v.sequence for v in await store.verdicts("r1", after=1, limit=1)] == [2]


async def test_a_model_has_one_active_rollout(store: Store) -> None:
    async with store.change(OPS, 7) as change:
        await change.put_rollout(ROLLOUT, "start")
    second = RolloutRecord("r2", "sim", "v1", "v3", "running", 0, 0.01, {}, 11)
    with pytest.raises(IntegrityError):
        async with store.change(OPS, 8) as change:
            await change.put_rollout(second, "start")
    ended = RolloutRecord("r1", "sim", "v1", "v2", "aborted", 0, 0.0, {}, 10, 12, "asked to")
    async with store.change(OPS, 9) as change:
        await change.put_rollout(ended, "abort")
        await change.put_rollout(second, "start")
    assert [r.rollout_id for r in await store.rollouts(model="sim")] == ["r2", "r1"]


async def test_a_registration_does_not_undo_a_drain(store: Store) -> None:
    registration = Registration(
        "w1", "127.0.0.1:9", (("sim", "v1"),), {"zone": "a"}, "0.1", "gateway-1", 30
    )
    async with store.change(OPS, 7) as change:
        await change.set_drained("w1", True)
    await store.put_registrations([registration])
    await store.put_registrations([registration])
    assert await store.registrations() == [registration]
    assert (await store.read_since(-1)).drained == {"w1": True}


async def test_history_is_added_once(store: Store) -> None:
    entry = AuditEntry(0, 5, OPS, "reload", "config", "gateway-1", None, {"changes": ["a"]})
    await store.add_history([("one", entry)])
    await store.add_history([("one", entry), ("two", entry)])
    assert [(e.revision, e.at_ns) for e in await store.audit_entries()] == [(2, 5), (1, 5)]


async def test_a_store_that_is_away_says_so_and_when_to_retry() -> None:
    store = Store(parse("postgresql://nobody:hunter2@127.0.0.1:1/none"), timeout_s=2)
    with pytest.raises(StoreUnavailable) as caught:
        await store.prepare()
    assert caught.value.retry_after_ns == 300_000_000
    assert "hunter2" not in caught.value.message
    assert "inference goes on" in caught.value.message
    await store.close()


async def test_gateways_show_that_they_live(store: Store) -> None:
    assert await store.beat("one") == {"one": 1}
    assert await store.beat("other") == {"one": 1, "other": 1}
    assert await store.beat("one") == {"one": 2, "other": 1}
    await store.forget_gateways(["other", "never seen"])
    assert await store.beat("one") == {"one": 3}


async def test_a_store_in_memory_outlives_changes_that_are_cancelled() -> None:
    """It was empty after one: the connection that it lived in was dropped."""
    store = Store(parse("sqlite://"))
    await store.prepare()
    async with store.change(OPS, 1) as change:
        await change.put_tenant(ACME, "create")

    async def never_done() -> None:
        async with store.change(OPS, 2) as change:
            await change.put_split(SPLIT)
            await asyncio.get_running_loop().create_future()

    for passes in range(40):
        task = asyncio.ensure_future(never_done())
        for _ in range(passes):
            await turn()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        everything = await store.read_since(-1)
        assert (everything.tenants, everything.splits) == ({"acme": ACME}, {}), passes
    await store.close()
