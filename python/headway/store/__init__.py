"""Durable control state: tenants, keys, quotas, splits, drains, rollouts, verdicts, audit.

SQLite by default, PostgreSQL where several gateways share state. Never on the request path:
gateways work from a copy in memory, which a `Follower` keeps up to date; without the store they
go on serving, and only changes are refused (`StoreUnavailable`).

The packages behind it (extras ``store`` and ``postgres``) are imported when a store is opened.
"""

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

__all__ = [
    "AuditEntry",
    "Author",
    "ControlDelta",
    "KeyRecord",
    "Registration",
    "RolloutRecord",
    "SplitRecord",
    "TenantRecord",
    "VerdictRecord",
]
