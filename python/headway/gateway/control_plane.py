"""Changes to what gateways share: written to the store first, then in force here at once.

Other gateways take a change over within a second. While the store is away every change is refused
with `StoreUnavailable`, and nothing here is different from before.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from headway.apikey import digest_of, new_key
from headway.clock import wall_ns
from headway.errors import FailedPrecondition, NotFound
from headway.gateway.catalog import Catalog, Model
from headway.gateway.directory import Directory
from headway.gateway.fleet import Fleet
from headway.rpc.interceptors import Caller
from headway.store.backlog import Backlog
from headway.store.change import Change
from headway.store.follow import Follower
from headway.store.records import (
    AuditEntry,
    Author,
    ControlDelta,
    KeyRecord,
    Kind,
    Role,
    RolloutRecord,
    SplitRecord,
    TenantRecord,
)
from headway.store.store import Store
from headway.v1 import control_pb2

_BOOTSTRAP_TENANT = "admin"
_SOURCES = {
    "operator": control_pb2.TRAFFIC_SPLIT_SOURCE_OPERATOR,
    "rollout": control_pb2.TRAFFIC_SPLIT_SOURCE_ROLLOUT,
}


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key as made; the secret is nowhere else."""

    secret: str
    record: KeyRecord


class ControlPlane:
    """Changes tenants, keys, splits and drains; keeps this gateway like the store.

    Attributes:
      bootstrap_key: the first admin key, if this start made it; to be shown once.
    """

    def __init__(
        self,
        store: Store,
        directory: Directory,
        catalog: Catalog,
        fleet: Fleet,
        backlog: Backlog,
        *,
        gateway_id: str,
        wants_first_key: bool,
    ) -> None:
        """`wants_first_key`: whether an empty store gets an admin key."""
        self._store = store
        self._directory = directory
        self._catalog = catalog
        self._fleet = fleet
        self._backlog = backlog
        self._gateway_id = gateway_id
        self._wants_first_key = wants_first_key
        self.follower: Follower  # set by the composition root
        self.bootstrap_key: str | None = None

    def author(self, caller: Caller) -> Author:
        """Who makes a change."""
        return Author(caller.tenant, caller.key_id, self._gateway_id)

    # -- following

    async def prepare(self) -> None:
        """Migrates the store, and makes the first admin key if nobody could get in otherwise."""
        await self._store.prepare()
        if not self._wants_first_key:
            return
        secret, key_id = new_key()
        at_ns = wall_ns()
        async with self._store.change(Author("bootstrap", "", self._gateway_id), at_ns) as change:
            if await change.has_keys():
                return
            await change.put_tenant(TenantRecord(_BOOTSTRAP_TENANT), "create")
            await change.put_key(
                KeyRecord(
                    key_id, _BOOTSTRAP_TENANT, digest_of(secret), "admin", at_ns,
                    description="made at the first start",
                ),
                "create",
            )  # fmt: skip
        self.bootstrap_key = secret

    def apply(self, delta: ControlDelta) -> None:
        """Takes over what changed in the store."""
        self._directory.apply(delta)
        splits = {
            name: None if record is None else (dict(record.shares), _SOURCES[record.source])
            for name, record in delta.splits.items()
        }
        self._catalog.take_splits(splits, full=delta.full)
        self._fleet.take_drains(delta.drained, full=delta.full)

    # -- tenants

    async def create_tenant(self, author: Author, record: TenantRecord) -> TenantRecord:
        """Adds a tenant. Raises FailedPrecondition if it is there."""
        async with self._store.change(author, wall_ns()) as change:
            if await self._known(change, record.tenant) is not None:
                raise FailedPrecondition(
                    f"tenant {record.tenant} is there already; update it instead", field="tenant"
                )
            await change.put_tenant(record, "create")
        return await self._taken_over(record)

    async def update_tenant(self, author: Author, record: TenantRecord) -> TenantRecord:
        """Replaces a tenant. Raises NotFound."""
        async with self._store.change(author, wall_ns()) as change:
            before = await self._known(change, record.tenant)
            if before is None:
                raise unknown_tenant(record.tenant)
            if await change.tenant(record.tenant) is None:
                # The audit entry then shows the configuration's tenant as what was before.
                await change.put_tenant(before, "adopt")
            await change.put_tenant(record, "update")
        return await self._taken_over(record)

    async def delete_tenant(self, author: Author, name: str) -> None:
        """Removes a tenant and its keys.

        Raises:
          NotFound: no such tenant.
          FailedPrecondition: the configuration names it, and would bring it back.
        """
        if self._directory.configured(name):
            raise FailedPrecondition(
                f"tenant {name} is in the configuration; take it out there and reload, or update "
                "it with disabled = true to shut it out now",
                field="tenant",
            )
        async with self._store.change(author, wall_ns()) as change:
            if await change.tenant(name) is None:
                raise unknown_tenant(name)
            await change.delete_tenant(name)
        await self.follower.catch_up()

    # -- keys

    async def create_key(
        self, author: Author, tenant: str, role: Role, valid_ns: int | None, description: str
    ) -> NewKey:
        """Makes a key. Raises NotFound for an unknown tenant."""
        at_ns = wall_ns()
        secret, key_id = new_key()
        expires_at_ns = None if valid_ns is None else at_ns + valid_ns
        record = KeyRecord(
            key_id, tenant, digest_of(secret), role, at_ns, expires_at_ns, None, description
        )
        async with self._store.change(author, at_ns) as change:
            if await self._known(change, tenant) is None:
                raise unknown_tenant(tenant)
            await change.put_key(record, "create")
        await self.follower.catch_up()
        return NewKey(secret, record)

    async def rotate_key(
        self, author: Author, key_id: str, overlap_ns: int
    ) -> tuple[NewKey, KeyRecord]:
        """Makes a key in place of another, which ends after `overlap_ns`.

        Raises NotFound for an unknown key, FailedPrecondition for one that was revoked.
        """
        at_ns = wall_ns()
        secret, new_id = new_key()
        async with self._store.change(author, at_ns) as change:
            old = await self._known_key(change, key_id)
            if old.revoked_at_ns is not None:
                raise FailedPrecondition(
                    f"key {key_id} was revoked; make a new one for tenant {old.tenant}",
                    field="key_id",
                )
            record = dataclasses.replace(
                old, key_id=new_id, sha256=digest_of(secret), created_at_ns=at_ns
            )
            ends_at_ns = at_ns + overlap_ns
            if old.expires_at_ns is not None:
                ends_at_ns = min(ends_at_ns, old.expires_at_ns)
            ending = (
                dataclasses.replace(old, expires_at_ns=ends_at_ns)
                if overlap_ns
                else dataclasses.replace(old, revoked_at_ns=at_ns)
            )
            await change.put_key(record, "create")
            await change.put_key(ending, "rotate")
        await self.follower.catch_up()
        return NewKey(secret, record), ending

    async def revoke_key(self, author: Author, key_id: str) -> None:
        """Ends a key, one of the configuration too; repeating it changes nothing."""
        at_ns = wall_ns()
        async with self._store.change(author, at_ns) as change:
            old = await self._known_key(change, key_id)
            if old.revoked_at_ns is None:
                await change.put_key(dataclasses.replace(old, revoked_at_ns=at_ns), "revoke")
        await self.follower.catch_up()

    # -- traffic and replicas

    async def set_split(self, author: Author, model: Model, split: Mapping[str, float]) -> None:
        """Divides a model's traffic anew, on every gateway.

        Raises FailedPrecondition if a rollout divides it.
        """
        shares = tuple((pool.version, share) for pool, share in model.live_split())
        before = SplitRecord(model.name, shares)
        record = SplitRecord(model.name, tuple(split.items()))
        async with self._store.change(author, wall_ns()) as change:
            # Asked here, since one may have begun a moment ago, on another gateway too.
            active = await change.active_rollout(model.name)
            if active is not None:
                raise _divided(active)
            await change.put_split(record, before)
        await self.follower.catch_up()

    async def set_drained(self, author: Author, worker_id: str, drained: bool) -> None:
        """Drains a worker, or takes that back, on every gateway. Raises NotFound."""
        self._fleet.worker(worker_id)
        async with self._store.change(author, wall_ns()) as change:
            await change.set_drained(worker_id, drained)
        await self.follower.catch_up()

    def note(
        self,
        author: Author,
        action: str,
        kind: Kind,
        before: Mapping[str, object],
        after: Mapping[str, object],
    ) -> None:
        """Audits a change to this process alone, which does not wait for the store."""
        self._backlog.add_audit(
            AuditEntry(0, wall_ns(), author, action, kind, self._gateway_id, before, after)
        )

    async def audit_entries(self, before: int | None, limit: int, target: str) -> list[AuditEntry]:
        """Newest first, those that wait for the store included once they are written."""
        await self._backlog.flush()
        return await self._store.audit_entries(before=before, limit=limit, target=target)

    async def _known(self, change: Change, name: str) -> TenantRecord | None:
        stored = await change.tenant(name)
        if stored is not None or not self._directory.configured(name):
            return stored
        return self._directory.tenant(name)

    async def _known_key(self, change: Change, key_id: str) -> KeyRecord:
        record = await change.key(key_id) or self._directory.key(key_id)
        if record is None:
            raise NotFound(
                f"no key {key_id[:8]!r}; `headway key list` shows them",
                field="key_id",
                metadata={"name": key_id[:8], "kind": "key"},
            )
        return record

    async def _taken_over(self, record: TenantRecord) -> TenantRecord:
        await self.follower.catch_up()
        return self._directory.tenant(record.tenant) or record


def _divided(rollout: RolloutRecord) -> FailedPrecondition:
    return FailedPrecondition(
        f"rollout {rollout.rollout_id} divides the traffic of {rollout.model}; abort or promote "
        "it first",
        field="model",
        metadata={"type": "ROLLOUT_ACTIVE", "rollout_id": rollout.rollout_id},
    )


def unknown_tenant(name: str) -> NotFound:
    """The error for a tenant that is not there."""
    return NotFound(
        f"no tenant {name[:64]!r}; `headway tenant list` shows them",
        field="tenant",
        metadata={"name": name[:64], "kind": "tenant"},
    )
