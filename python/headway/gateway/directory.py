"""Tenants and keys as they are now: what the configuration says, with the store's word over it.

The store's entry of a tenant or key replaces the configuration's as a whole; taking it out brings
the configuration's back. Everything the request path needs of them is in `Caller` and `Terms`
objects that are changed in place, so that a change is one assignment and costs a request nothing.
"""

import contextlib
import hmac
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from headway import errors
from headway._core import Scheduler, TenantsFull
from headway.admission.policy import AdmissionPolicy, TenantTerms
from headway.clock import Clock, wall_ns
from headway.gateway.authentication import ROLES, StoredKey
from headway.gateway.settings import TenantSettings
from headway.rpc.interceptors import NEVER_NS, Caller, Terms
from headway.store.records import ControlDelta, KeyRecord, TenantRecord

PRIORITIES: Mapping[str, int] = {"critical": 1, "standard": 2, "sheddable": 3}
Record = TypeVar("Record")
_UNKNOWN = "its tenant is not known any more"
_UNREGISTERED = -1
"""No handle of the scheduler."""

_RETRY_NS = 1_000_000_000


@dataclass(slots=True, eq=False)
class _Tenant:
    handle: int
    terms: Terms
    record: TenantRecord


class Directory:
    """Knows every tenant and key. Changing it is O(what changed); looking up is O(1).

    The scheduler holds a state only for tenants that ask for something: it gets them at their
    first request, and again when it has forgotten them for being idle (`renew`).
    """

    def __init__(self, scheduler: Scheduler, clock: Clock) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._config_tenants: dict[str, TenantRecord] = {}
        self._config_keys: dict[str, KeyRecord] = {}
        self._stored_tenants: dict[str, TenantRecord] = {}
        self._stored_keys: dict[str, KeyRecord] = {}
        self._live: dict[str, _Tenant] = {}
        self.policy = AdmissionPolicy()
        # Callers that no configuration and no store names, and their tenants.
        self._own: dict[Caller, _Tenant] = {}
        self._keys_of: dict[str, set[str]] = {}
        self.valid: dict[str, StoredKey] = {}

    # -- what is there

    def tenants(self) -> list[tuple[TenantRecord, bool]]:
        """All tenants by name, and whether each is as the configuration says."""
        names = sorted(self._config_tenants.keys() | self._stored_tenants.keys())
        return [(record, name not in self._stored_tenants)
                for name in names if (record := self.tenant(name)) is not None]  # fmt: skip

    def tenant(self, name: str) -> TenantRecord | None:
        """A tenant as it is in force."""
        return self._stored_tenants.get(name) or self._config_tenants.get(name)

    def configured(self, name: str) -> bool:
        """True if the configuration names the tenant."""
        return name in self._config_tenants

    def keys(self, tenant: str = "") -> list[KeyRecord]:
        """Keys by id, revoked ones too; of one tenant, or ("") of all."""
        records = {**self._config_keys, **self._stored_keys}
        return [key for _, key in sorted(records.items()) if tenant in ("", key.tenant)]

    def key(self, key_id: str) -> KeyRecord | None:
        """A key as it is in force."""
        return self._stored_keys.get(key_id) or self._config_keys.get(key_id)

    # -- what changes

    def renew(self, caller: Caller) -> int:
        """Handle of a caller whose own the scheduler does not know (any more).

        Raises:
          Overloaded: every place in the scheduler's table is taken by an active tenant.
        """
        live = self._own.get(caller) or self._live.get(caller.tenant)
        if live is None:
            raise errors.PermissionDenied(f"{_UNKNOWN}; use another key")
        if live.handle == caller.handle:
            try:
                terms = self._core_terms(live.record)
                live.handle = self._scheduler.add_tenant(self._clock.now_ns(), **terms)
            except TenantsFull:
                raise errors.Overloaded(
                    "more tenants are active than this gateway has places for; retry in 1 s, or "
                    "have admission.max_active_tenants raised",
                    retry_after_ns=_RETRY_NS,
                ) from None
        caller.handle = live.handle
        return live.handle

    def unlimited(self, name: str, *, role: int = 0) -> Caller:
        """A caller of the gateway's own making, without a quota."""
        caller = Caller(name, _UNREGISTERED, role)
        self._own[caller] = _Tenant(_UNREGISTERED, caller.terms, TenantRecord(name))
        return caller

    def set_policy(self, policy: AdmissionPolicy) -> None:
        """Takes over how terms are made. O(tenants), with work only for those that called."""
        if policy != self.policy:
            self.policy = policy
            for live in self._live.values():
                self._set_terms(live)

    def configure(self, tenants: Mapping[str, TenantSettings]) -> None:
        """Takes over the configuration's tenants and keys."""
        old_tenants, old_keys = self._config_tenants, self._config_keys
        self._config_tenants = {name: _record(name, each) for name, each in tenants.items()}
        self._config_keys = {
            key.key_id: KeyRecord(key.key_id, name, bytes.fromhex(key.sha256), key.role)
            for name, each in tenants.items()
            for key in each.keys
        }
        self._refresh(old_tenants.keys() | self._config_tenants.keys(),
                      old_keys.keys() | self._config_keys.keys())  # fmt: skip

    def apply(self, delta: ControlDelta) -> None:
        """Takes over what changed in the store."""
        tenants, keys = set(delta.tenants), set(delta.keys)
        if delta.full:
            tenants |= self._stored_tenants.keys()
            keys |= self._stored_keys.keys()
            self._stored_tenants.clear()
            self._stored_keys.clear()
        _overlay(self._stored_tenants, delta.tenants)
        _overlay(self._stored_keys, delta.keys)
        self._refresh(tenants, keys)

    def _refresh(self, tenants: Collection[str], keys: Iterable[str]) -> None:
        touched = set(keys)
        for name in sorted(tenants):
            if self._refresh_tenant(name):
                touched |= self._keys_of.get(name, set())
        for key_id in sorted(touched):
            self._refresh_key(key_id)
        for name in tenants:
            if name not in self._live:
                left = {key_id for key_id in self._keys_of.pop(name, ()) if self.key(key_id)}
                if left:
                    self._keys_of[name] = left

    def _refresh_tenant(self, name: str) -> bool:
        """Brings a tenant up to date; True if it came or went, which its keys must know."""
        record = self.tenant(name)
        live = self._live.get(name)
        if record is None:
            if live is not None:
                live.terms.disabled = live.terms.restricted = True
                del self._live[name]
            return live is not None
        came = live is None
        if live is None:
            self._live[name] = live = _Tenant(_UNREGISTERED, Terms(), record)
        elif live.record != record:
            live.record = record
            self._set_terms(live)
        _set_terms(live.terms, record)
        return came

    def _refresh_key(self, key_id: str) -> None:
        record = self.key(key_id)
        stored = self.valid.get(key_id)
        why = self._unfit(record)
        same = stored is not None and record is not None and (
            hmac.compare_digest(stored.digest, record.sha256)
            and stored.caller.tenant == record.tenant
        )  # fmt: skip
        if stored is not None and (why or not same):
            # Streams that were opened with it see this at their next request.
            stored.caller.ended = why or "it was replaced"
            self._keys_of.get(stored.caller.tenant, set()).discard(key_id)
            del self.valid[key_id]
        if record is None:
            return
        self._keys_of.setdefault(record.tenant, set()).add(key_id)
        if why:
            return
        live = self._live[record.tenant]
        if not same or stored is None:
            caller = Caller(record.tenant, live.handle, key_id=key_id)
            stored = self.valid[key_id] = StoredKey(key_id, record.sha256, caller)
        stored.caller.role = ROLES[record.role]
        stored.caller.terms, stored.caller.handle = live.terms, live.handle
        stored.caller.expires_at_ns = self._instant(record.expires_at_ns)

    def _unfit(self, record: KeyRecord | None) -> str:
        if record is None:
            return "it was deleted"
        if record.revoked_at_ns is not None:
            return "it was revoked"
        return "" if record.tenant in self._live else _UNKNOWN

    def _instant(self, expires_at_ns: int | None) -> int:
        """A wall instant on the monotonic clock, which no later step of the wall clock moves."""
        if expires_at_ns is None:
            return NEVER_NS
        return self._clock.now_ns() + expires_at_ns - wall_ns()

    def _set_terms(self, live: _Tenant) -> None:
        # One that was forgotten, or never known, gets the new terms when it is added.
        if live.handle == _UNREGISTERED:
            return
        with contextlib.suppress(KeyError):
            self._scheduler.set_tenant_quota(
                self._clock.now_ns(), live.handle, **self._core_terms(live.record)
            )

    def _core_terms(self, record: TenantRecord) -> TenantTerms:
        return self.policy.terms(record.units_per_second, record.burst_units, record.weight)


def _record(name: str, settings: TenantSettings) -> TenantRecord:
    return TenantRecord(
        name,
        settings.units_per_second,
        settings.burst_units,
        settings.weight,
        PRIORITIES[settings.max_priority],
        settings.models,
        settings.disabled,
    )


def _set_terms(terms: Terms, record: TenantRecord) -> None:
    terms.weight = record.weight
    terms.max_priority = record.max_priority
    terms.models = frozenset(record.models) if record.models else None
    terms.disabled = record.disabled
    terms.restricted = (
        record.disabled or terms.models is not None or record.max_priority > PRIORITIES["critical"]
    )


def _overlay(below: dict[str, Record], above: Mapping[str, Record | None]) -> None:
    for name, record in above.items():
        if record is None:
            below.pop(name, None)
        else:
            below[name] = record
