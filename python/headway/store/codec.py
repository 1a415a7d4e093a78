"""Rows to records and back, and the reads that followers need."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.store import schema
from headway.store.records import (
    AuditEntry,
    Author,
    ControlDelta,
    KeyRecord,
    Registration,
    RolloutRecord,
    SplitRecord,
    TenantRecord,
    VerdictRecord,
)

Row = Mapping[Any, Any]
_CHUNK = 500
"""Names in one query; SQLite takes at most some thousand parameters."""


def tenant(row: Row) -> TenantRecord:
    """From a row of `tenants` joined with `quotas`."""
    return TenantRecord(
        row["tenant"],
        row["units_per_second"],
        row["burst_units"],
        row["weight"],
        row["max_priority"],
        tuple(row["models"]),
        row["disabled"],
    )


def key(row: Row) -> KeyRecord:
    """From a row of `api_keys`."""
    return KeyRecord(**{f.name: row[f.name] for f in dataclasses.fields(KeyRecord)})


def split(row: Row) -> SplitRecord:
    """From a row of `splits`."""
    return SplitRecord(row["model"], tuple((v, s) for v, s in row["shares"]), row["source"])


def rollout(row: Row) -> RolloutRecord:
    """From a row of `rollouts`."""
    return RolloutRecord(**{f.name: row[f.name] for f in dataclasses.fields(RolloutRecord)})


def verdict(row: Row) -> VerdictRecord:
    """From a row of `verdicts`."""
    return VerdictRecord(**{f.name: row[f.name] for f in dataclasses.fields(VerdictRecord)})


def verdict_row(record: VerdictRecord) -> dict[str, Any]:
    """A row of `verdicts`."""
    row = dataclasses.asdict(record)
    # JSON has no infinity: evidence beyond any number is kept as the largest one.
    row["evidence"] = {k: min(max(v, -1e308), 1e308) for k, v in record.evidence.items()}
    return row


def registration(row: Row) -> Registration:
    """From a row of `replica_registrations`."""
    fields = {f.name: row[f.name] for f in dataclasses.fields(Registration)}
    fields["models"] = tuple((model, version) for model, version in row["models"])
    return Registration(**fields)


def registration_row(record: Registration) -> dict[str, Any]:
    """A row of `replica_registrations`, without the drain."""
    return dataclasses.asdict(record)


def audit_entry(row: Row) -> AuditEntry:
    """From a row of `audit`."""
    return AuditEntry(
        row["revision"],
        row["at_ns"],
        Author(row["tenant"], row["key_id"], row["gateway_id"]),
        row["action"],
        row["kind"],
        row["target"],
        row["before"],
        row["after"],
    )


def shown(record: Any) -> dict[str, Any] | None:
    """A record as the audit log keeps it: no hash of a key, tuples as lists."""
    if record is None:
        return None
    plain = dataclasses.asdict(record)
    plain.pop("sha256", None)
    return plain


def tenants_query() -> Select[Any]:
    """Tenants with their quotas."""
    join = schema.tenants.outerjoin(schema.quotas)
    return select(
        schema.tenants, schema.quotas.c.units_per_second, schema.quotas.c.burst_units
    ).select_from(join)


async def read_all(connection: AsyncConnection, revision: int) -> ControlDelta:
    """Everything a gateway works from. O(tenants + keys + splits + drains)."""
    registrations = schema.replica_registrations
    drained = select(registrations.c.worker_id).where(registrations.c.drained)
    return ControlDelta(
        revision,
        full=True,
        tenants={r["tenant"]: tenant(r) for r in await _rows(connection, tenants_query())},
        keys={r["key_id"]: key(r) for r in await _rows(connection, select(schema.api_keys))},
        splits={r["model"]: split(r) for r in await _rows(connection, select(schema.splits))},
        drained={r["worker_id"]: True for r in await _rows(connection, drained)},
    )


async def read_some(
    connection: AsyncConnection, revision: int, touched: Collection[tuple[str, str]]
) -> ControlDelta:
    """Only what the touched entries are now."""
    registrations = schema.replica_registrations
    names: dict[str, list[str]] = {}
    for kind, name in sorted(touched):
        names.setdefault(kind, []).append(name)

    async def some(kind: str, query: Select[Any], column: Any) -> dict[str, Row | None]:
        wanted = names.get(kind, [])
        found: dict[str, Row | None] = dict.fromkeys(wanted)
        for start in range(0, len(wanted), _CHUNK):
            chunk = wanted[start : start + _CHUNK]
            for row in await _rows(connection, query.where(column.in_(chunk))):
                found[row[column.name]] = row
        return found

    tenants = await some("tenant", tenants_query(), schema.tenants.c.tenant)
    keys = await some("key", select(schema.api_keys), schema.api_keys.c.key_id)
    splits = await some("split", select(schema.splits), schema.splits.c.model)
    workers = await some("replica", select(registrations), registrations.c.worker_id)
    return ControlDelta(
        revision,
        full=False,
        tenants={name: None if row is None else tenant(row) for name, row in tenants.items()},
        keys={name: None if row is None else key(row) for name, row in keys.items()},
        splits={name: None if row is None else split(row) for name, row in splits.items()},
        drained={name: row is not None and row["drained"] for name, row in workers.items()},
    )


async def _rows(connection: AsyncConnection, query: Select[Any]) -> list[Row]:
    return [dict(row) for row in (await connection.execute(query)).mappings().all()]
