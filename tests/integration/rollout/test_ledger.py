"""Rollouts of a gateway that does not know yet what others have stored a moment ago."""

from typing import Any

import pytest

from headway._core import Scheduler
from headway.errors import FailedPrecondition, InvalidRequest
from headway.gateway.catalog import Catalog
from headway.gateway.rollouts.ledger import Ledger
from headway.gateway.rollouts.service import Rollouts
from headway.gateway.settings import GatewaySettings
from headway.store.backlog import Backlog
from headway.store.records import Author, RolloutRecord, SplitRecord
from headway.store.store import Store
from headway.telemetry.gateway import GatewayMetrics, Gauges
from headway.testing import ManualClock
from headway.v1 import types_pb2

OPERATOR = Author("ops")


async def never_told() -> None:
    """Nothing of the store gets here."""


def late_gateway(store: Store) -> Rollouts:
    """Its copy of the split is what it began with: v1 has all traffic."""
    catalog = Catalog(
        GatewaySettings(insecure_no_auth=True),
        Scheduler(seed=1, max_live=8),
        GatewayMetrics(Gauges),
    )
    for version in ("v1", "v2"):
        catalog.host(types_pb2.ModelCard(model="sim", version=version)).num_ready = 1
    ledger = Ledger(
        store, Backlog(store), catch_up=never_told, leads=lambda: False, revision=lambda: 0
    )
    no_copies: Any = None
    return Rollouts(catalog, ledger, ManualClock(), no_copies, gateway_id="late")


async def set_split(store: Store, shares: dict[str, float]) -> None:
    async with store.change(OPERATOR, 1) as change:
        await change.put_split(SplitRecord("sim", tuple(shares.items())))


async def start(rollouts: Rollouts, canary: str) -> RolloutRecord:
    return await rollouts.start("sim", canary, "", {}, OPERATOR)


async def test_a_rollout_is_refused_where_a_split_was_set_that_is_not_known_yet(
    store: Store,
) -> None:
    """The baseline was judged by the copy in memory, and the operator's split overwritten."""
    rollouts = late_gateway(store)
    await set_split(store, {"v1": 0.5, "v2": 0.5})
    before = await store.read_since(-1)
    with pytest.raises(FailedPrecondition, match="goes to: v1 50%, v2 50%"):
        await start(rollouts, "v2")
    await set_split(store, {"v1": 0.0, "v2": 1.0})
    with pytest.raises(InvalidRequest, match="v2, which has all traffic of sim already"):
        await start(rollouts, "v2")
    after = await store.read_since(-1)
    assert after.revision == before.revision + 1  # the second split, and nothing else
    assert after.splits == {"sim": SplitRecord("sim", (("v1", 0.0), ("v2", 1.0)))}
    assert await store.rollouts() == []


async def test_a_rollout_begins_from_the_version_that_was_given_all_traffic_a_moment_ago(
    store: Store,
) -> None:
    rollouts = late_gateway(store)
    await set_split(store, {"v2": 1.0})
    record = await start(rollouts, "v1")
    assert (record.baseline_version, record.canary_version) == ("v2", "v1")
    share = record.canary_share
    split = (await store.read_since(-1)).splits["sim"]
    assert split is not None
    assert dict(split.shares) == {"v2": 1 - share, "v1": share}


async def test_a_second_rollout_of_a_model_is_refused_by_the_name_of_the_first(
    store: Store,
) -> None:
    first = await start(late_gateway(store), "v2")
    with pytest.raises(FailedPrecondition, match=f"rollout {first.rollout_id} of sim"):
        await start(late_gateway(store), "v2")
    assert await store.rollouts() == [first]
