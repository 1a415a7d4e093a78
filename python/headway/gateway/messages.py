"""Control records to messages and back."""

import base64
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from google.protobuf.timestamp_pb2 import Timestamp

from headway.admission.settings import LARGEST_WEIGHT, LEAST_RATE, LEAST_WEIGHT
from headway.errors import InvalidRequest
from headway.gateway.authentication import ROLES
from headway.naming import check_name
from headway.rpc.convert import NS_PER_S
from headway.store.records import AuditEntry, KeyRecord, Role, TenantRecord
from headway.v1 import control_pb2, types_pb2

_MAX_MODELS = 1024
_MAX_PAGE = 1000
_DEFAULT_PAGE = 100
_MAX_DESCRIPTION = 200
_ROLE_NAMES: Sequence[Role] = ("none", "viewer", "operator", "admin")
Item = TypeVar("Item")


def timestamp(ns: int) -> Timestamp:
    """A Timestamp of Unix nanoseconds."""
    return Timestamp(seconds=ns // NS_PER_S, nanos=ns % NS_PER_S)


def tenant_message(record: TenantRecord, from_config: bool) -> control_pb2.Tenant:
    """A tenant for the wire."""
    return control_pb2.Tenant(
        tenant=record.tenant,
        units_per_second=record.units_per_second,
        burst_units=record.burst_units,
        weight=record.weight,
        max_priority=cast("types_pb2.Priority", record.max_priority),
        models=record.models,
        disabled=record.disabled,
        source=control_pb2.TENANT_SOURCE_CONFIG
        if from_config
        else control_pb2.TENANT_SOURCE_OPERATOR,
    )


def tenant_record(message: control_pb2.Tenant) -> TenantRecord:
    """A tenant from the wire.

    Raises:
      InvalidRequest: naming the field, the value and what is allowed.
    """
    check_name(message.tenant, "tenant.tenant")
    rate = _positive(message, "units_per_second")
    burst = _positive(message, "burst_units")
    weight = message.weight or 1.0
    if not LEAST_WEIGHT <= weight <= LARGEST_WEIGHT:
        raise InvalidRequest(
            f"tenant.weight is {weight:g}; it must be from {LEAST_WEIGHT:g} to {LARGEST_WEIGHT:g}",
            field="tenant.weight",
        )
    priority = message.max_priority or types_pb2.PRIORITY_CRITICAL
    if priority not in types_pb2.Priority.values():
        raise InvalidRequest(
            f"tenant.max_priority is {priority}; use a PRIORITY_* value",
            field="tenant.max_priority",
        )
    if len(message.models) > _MAX_MODELS:
        raise InvalidRequest(
            f"tenant.models has {len(message.models)} entries; at most {_MAX_MODELS}",
            field="tenant.models",
        )
    for index, model in enumerate(message.models):
        check_name(model, f"tenant.models[{index}]")
    return TenantRecord(
        message.tenant, rate, burst, weight, int(priority), tuple(message.models), message.disabled
    )


def key_message(record: KeyRecord) -> control_pb2.ApiKey:
    """A key for the wire, without its hash."""
    message = control_pb2.ApiKey(
        key_id=record.key_id,
        tenant=record.tenant,
        role=cast("control_pb2.Role", ROLES[record.role]),
        description=record.description,
    )
    if record.created_at_ns:
        message.created_at.CopyFrom(timestamp(record.created_at_ns))
    if record.expires_at_ns is not None:
        message.expires_at.CopyFrom(timestamp(record.expires_at_ns))
    if record.revoked_at_ns is not None:
        message.revoked_at.CopyFrom(timestamp(record.revoked_at_ns))
    return message


def role_name(role: int) -> Role:
    """A role's name. Raises InvalidRequest for a number that is none."""
    if not 0 <= role < len(_ROLE_NAMES):
        raise InvalidRequest(f"role is {role}; use a ROLE_* value", field="role")
    return _ROLE_NAMES[role]


def check_description(text: str) -> None:
    """Raises InvalidRequest for a description that is too long."""
    if len(text) > _MAX_DESCRIPTION:
        raise InvalidRequest(
            f"description has {len(text)} characters; at most {_MAX_DESCRIPTION}",
            field="description",
        )


def audit_message(entry: AuditEntry) -> control_pb2.AuditEntry:
    """An audit entry for the wire."""
    message = control_pb2.AuditEntry(
        revision=entry.revision,
        changed_at=timestamp(entry.at_ns),
        tenant=entry.author.tenant,
        key_id=entry.author.key_id,
        gateway_id=entry.author.gateway_id,
        action=entry.action,
        kind=entry.kind,
        target=entry.target,
    )
    if entry.before is not None:
        message.before.update(_plain(entry.before))
    if entry.after is not None:
        message.after.update(_plain(entry.after))
    return message


def page_size(asked: int) -> int:
    """Entries of a page: 100 unless asked otherwise. Raises InvalidRequest beyond [1, 1000]."""
    if not 0 <= asked <= _MAX_PAGE:
        raise InvalidRequest(
            f"page_size is {asked}; it must be in [1, {_MAX_PAGE}]", field="page_size"
        )
    return asked or _DEFAULT_PAGE


def page_token(last: str) -> str:
    """The token after an entry of this name."""
    return base64.urlsafe_b64encode(last.encode()).decode()


def page_start(token: str) -> str:
    """The name after which a page starts; "" for the first. Raises InvalidRequest."""
    try:
        return base64.urlsafe_b64decode(token.encode()).decode()
    except ValueError as error:
        raise InvalidRequest(
            "page_token is none that this method gave; leave it out for the first page",
            field="page_token",
        ) from error


def audit_start(token: str) -> int | None:
    """The revision before which a page starts; None for the first. Raises InvalidRequest."""
    return position(page_start(token))


def position(token: str) -> int | None:
    """A position in a list, as an answer gave it; None for the first page. Raises InvalidRequest.

    Only the digits 0 to 9, and no more than a store's integers hold.
    """
    if not token:
        return None
    if not (token.isascii() and token.isdigit()) or len(token) > 19 or int(token) >= 1 << 63:
        raise InvalidRequest(
            f"page_token is {token[:40]!r}; give one that an answer gave", field="page_token"
        )
    return int(token)


def page(items: Sequence[tuple[str, Item]], size: int, token: str) -> tuple[list[Item], str]:
    """A page of named items, which come in order of names, and the token of the next one."""
    start = page_start(token)
    rest = [(name, item) for name, item in items if name > start]
    chosen = rest[:size]
    following = page_token(chosen[-1][0]) if len(rest) > size else ""
    return [item for _, item in chosen], following


def _positive(message: control_pb2.Tenant, field: str) -> float | None:
    if not message.HasField(cast(Any, field)):
        return None
    value = float(getattr(message, field))
    if not LEAST_RATE <= value < float("inf"):
        raise InvalidRequest(
            f"tenant.{field} is {value:g}; it must be at least {LEAST_RATE:g} and finite; leave it "
            "out for no limit",
            field=f"tenant.{field}",
        )
    return value


def _plain(value: Any) -> Any:
    """JSON for a Struct; 64-bit numbers beyond a double's reach as text, instants readable."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, int) and abs(value) > 1 << 53 else value
