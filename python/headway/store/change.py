"""A transaction of changes. Each one leaves an audit entry, which is also what followers read."""

import dataclasses
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from sqlalchemy import select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.store import codec, schema
from headway.store.records import (
    AuditEntry,
    Author,
    KeyRecord,
    Kind,
    RolloutRecord,
    SplitRecord,
    TenantRecord,
)

CHANNEL: Final = "headway_control"
"""PostgreSQL's channel on which the revision is announced."""

MAX_AUDIT_ENTRIES: Final = 100_000
_PRUNE_EVERY: Final = 256


class Change:
    """Reads and writes inside one transaction, which holds the lock of all writers."""

    def __init__(
        self, connection: AsyncConnection, author: Author, at_ns: int, revision: int
    ) -> None:
        self._connection = connection
        self._author = author
        self._at_ns = at_ns
        self._found = revision
        self.revision = revision

    @classmethod
    async def begin(cls, connection: AsyncConnection, author: Author, at_ns: int) -> Self:
        """Takes the lock."""
        query = select(schema.control.c.revision)
        if connection.dialect.name == "postgresql":
            query = query.with_for_update()
        revision = (await connection.execute(query)).scalar_one()
        return cls(connection, author, at_ns, revision)

    async def finish(self) -> None:
        """Writes the new revision down, and rings the bell where there is one."""
        if self.revision == self._found:
            return
        await self._connection.execute(update(schema.control).values(revision=self.revision))
        if self._connection.dialect.name == "postgresql":
            await self._connection.execute(
                text("SELECT pg_notify(:channel, :revision)"),
                {"channel": CHANNEL, "revision": str(self.revision)},
            )
        if self.revision // _PRUNE_EVERY != self._found // _PRUNE_EVERY:
            table = schema.audit
            oldest = self.revision - MAX_AUDIT_ENTRIES
            await self._connection.execute(table.delete().where(table.c.revision <= oldest))

    async def tenant(self, name: str) -> TenantRecord | None:
        """A tenant as stored."""
        row = await self._one(codec.tenants_query().where(schema.tenants.c.tenant == name))
        return None if row is None else codec.tenant(row)

    async def put_tenant(self, record: TenantRecord, action: str) -> None:
        """Makes or replaces a tenant with its quota."""
        before = await self.tenant(record.tenant)
        row = dataclasses.asdict(record)
        quota = {k: row.pop(k) for k in ("units_per_second", "burst_units")}
        row["models"] = list(record.models)
        await self._put(schema.tenants, schema.tenants.c.tenant, row)
        await self._put(schema.quotas, schema.quotas.c.tenant, {"tenant": record.tenant, **quota})
        await self._note(action, "tenant", record.tenant, before, record)

    async def delete_tenant(self, name: str) -> None:
        """Removes a tenant, its quota and its keys."""
        before = await self.tenant(name)
        for key in await self.keys_of(name):
            await self._delete(schema.api_keys.c.key_id, key.key_id)
            await self._note("delete", "key", key.key_id, key, None)
        await self._delete(schema.tenants.c.tenant, name)
        await self._note("delete", "tenant", name, before, None)

    async def has_keys(self) -> bool:
        """True if there ever was a key."""
        return await self._one(select(schema.api_keys.c.key_id).limit(1)) is not None

    async def key(self, key_id: str) -> KeyRecord | None:
        """A key as stored."""
        row = await self._one(select(schema.api_keys).where(schema.api_keys.c.key_id == key_id))
        return None if row is None else codec.key(row)

    async def keys_of(self, tenant: str) -> Sequence[KeyRecord]:
        """A tenant's keys."""
        query = select(schema.api_keys).where(schema.api_keys.c.tenant == tenant)
        rows = (await self._connection.execute(query.order_by(schema.api_keys.c.key_id))).mappings()
        return [codec.key(dict(row)) for row in rows.all()]

    async def put_key(self, record: KeyRecord, action: str) -> None:
        """Makes or replaces a key."""
        before = await self.key(record.key_id)
        await self._put(schema.api_keys, schema.api_keys.c.key_id, dataclasses.asdict(record))
        await self._note(action, "key", record.key_id, before, record)

    async def split(self, model: str) -> SplitRecord | None:
        """A split as stored."""
        row = await self._one(select(schema.splits).where(schema.splits.c.model == model))
        return None if row is None else codec.split(row)

    async def put_split(self, record: SplitRecord, before: SplitRecord | None = None) -> None:
        """Makes or replaces a split. `before`: what was in force, where the store has none."""
        stored = await self.split(record.model)
        row = {
            "model": record.model,
            "shares": [list(share) for share in record.shares],
            "source": record.source,
        }
        await self._put(schema.splits, schema.splits.c.model, row)
        await self._note("set", "split", record.model, stored or before, record)

    async def set_drained(self, worker_id: str, drained: bool) -> None:
        """Sets or takes back an operator's drain of a worker."""
        table = schema.replica_registrations
        row = await self._one(select(table).where(table.c.worker_id == worker_id))
        before = row is not None and row["drained"]
        if row is None:
            empty: dict[str, Any] = {"address": "", "models": [], "labels": {}}
            empty |= {"software_version": "", "gateway_id": "", "registered_at_ns": self._at_ns}
            await self._put(table, table.c.worker_id, {"worker_id": worker_id, **empty,
                                                       "drained": drained})  # fmt: skip
        else:
            await self._connection.execute(
                table.update().where(table.c.worker_id == worker_id).values(drained=drained)
            )
        action = "drain" if drained else "undrain"
        await self.note(action, "replica", worker_id, {"drained": before}, {"drained": drained})

    async def rollout(self, rollout_id: str) -> RolloutRecord | None:
        """A rollout as stored."""
        table = schema.rollouts
        row = await self._one(select(table).where(table.c.rollout_id == rollout_id))
        return None if row is None else codec.rollout(row)

    async def active_rollout(self, model: str) -> RolloutRecord | None:
        """The rollout of a model that has not ended."""
        table = schema.rollouts
        theirs = (table.c.model == model) & table.c.ended_at_ns.is_(None)
        row = await self._one(select(table).where(theirs))
        return None if row is None else codec.rollout(row)

    async def put_rollout(self, record: RolloutRecord, action: str) -> None:
        """Makes or replaces a rollout; IntegrityError if the model has another active one."""
        before = await self.rollout(record.rollout_id)
        table = schema.rollouts
        await self._put(table, table.c.rollout_id, dataclasses.asdict(record))
        await self._note(action, "rollout", record.rollout_id, before, record)

    async def note(
        self,
        action: str,
        kind: Kind,
        target: str,
        before: Mapping[str, Any] | None,
        after: Mapping[str, Any] | None,
        entry_id: str = "",
    ) -> None:
        """Adds an audit entry, under the next revision."""
        self.revision += 1
        values = {
            "revision": self.revision,
            "entry_id": entry_id or uuid.uuid4().hex,
            "at_ns": self._at_ns,
            "tenant": self._author.tenant,
            "key_id": self._author.key_id,
            "gateway_id": self._author.gateway_id,
            "action": action,
            "kind": kind,
            "target": target[:128],
            "before": before,
            "after": after,
        }
        await self._connection.execute(schema.audit.insert().values(**values))

    async def note_once(self, entry_id: str, entry: AuditEntry) -> None:
        """Adds an entry under a name, unless it is there."""
        table = schema.audit
        if await self._one(select(table.c.revision).where(table.c.entry_id == entry_id)) is None:
            await self.note(
                entry.action, entry.kind, entry.target, entry.before, entry.after, entry_id
            )

    async def _note(self, action: str, kind: Kind, target: str, before: Any, after: Any) -> None:
        await self.note(action, kind, target, codec.shown(before), codec.shown(after))

    async def _one(self, query: Any) -> Mapping[str, Any] | None:
        row = (await self._connection.execute(query)).mappings().first()
        return None if row is None else dict(row)

    async def _put(self, table: Any, key: Any, row: Mapping[str, Any]) -> None:
        # Writers hold a lock, so that looking first is no race.
        if await self._one(select(key).where(key == row[key.name])) is None:
            await self._connection.execute(table.insert().values(**row))
        else:
            await self._connection.execute(table.update().where(key == row[key.name]).values(**row))

    async def _delete(self, key: Any, value: str) -> None:
        await self._connection.execute(key.table.delete().where(key == value))
