"""What the store holds, as values. Instants are Unix nanoseconds, for people to read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["none", "viewer", "operator", "admin"]
Kind = Literal["tenant", "key", "split", "replica", "rollout", "config", "log_level", "history"]
"""What a change is about."""

CRITICAL, STANDARD, SHEDDABLE = 1, 2, 3
"""Priorities, as in headway.v1.Priority: the smaller, the higher."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who makes a change, and through which gateway."""

    tenant: str
    key_id: str = ""
    gateway_id: str = ""


@dataclass(frozen=True, slots=True)
class TenantRecord:
    """A tenant and its quota.

    Attributes:
      units_per_second: None for no limit.
      burst_units: None for two seconds' worth.
      weight: in (0, 1000].
      max_priority: highest priority its requests may have.
      models: models it may use; empty for all.
    """

    tenant: str
    units_per_second: float | None = None
    burst_units: float | None = None
    weight: float = 1.0
    max_priority: int = CRITICAL
    models: tuple[str, ...] = ()
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """An API key: the SHA-256 of the whole key, never its secret."""

    key_id: str
    tenant: str
    sha256: bytes = field(repr=False)
    role: Role = "none"
    created_at_ns: int = 0
    expires_at_ns: int | None = None
    revoked_at_ns: int | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class SplitRecord:
    """A model's split. Order matters: the first version takes what another cannot."""

    model: str
    shares: tuple[tuple[str, float], ...]
    source: Literal["operator", "rollout"] = "operator"


@dataclass(frozen=True, slots=True)
class Registration:
    """A worker as it last registered with some gateway."""

    worker_id: str
    address: str
    models: tuple[tuple[str, str], ...]
    labels: Mapping[str, str]
    software_version: str
    gateway_id: str
    registered_at_ns: int


@dataclass(frozen=True, slots=True)
class RolloutRecord:
    """A rollout. `phase` is running, paused, promoted, rolled_back or aborted."""

    rollout_id: str
    model: str
    baseline_version: str
    canary_version: str
    phase: str
    step: int
    canary_share: float
    policy: Mapping[str, Any]
    started_at_ns: int
    ended_at_ns: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class VerdictRecord:
    """One analysis of a rollout, with the evidence behind it."""

    rollout_id: str
    sequence: int
    decided_at_ns: int
    decision: str
    test: str
    reason: str
    baseline: Mapping[str, Any]
    canary: Mapping[str, Any]
    evidence: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change: who, what, and the state before and after (None: was or is not there)."""

    revision: int
    at_ns: int
    author: Author
    action: str
    kind: Kind
    target: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ControlDelta:
    """What a gateway has to take over to be at `revision`; None stands for a removed entry.

    Attributes:
      full: True if this is everything, so that what is not in it is not there.
      drained: worker to whether an operator drains it.
    """

    revision: int
    full: bool
    tenants: Mapping[str, TenantRecord | None] = field(default_factory=dict)
    keys: Mapping[str, KeyRecord | None] = field(default_factory=dict)
    splits: Mapping[str, SplitRecord | None] = field(default_factory=dict)
    drained: Mapping[str, bool] = field(default_factory=dict)
