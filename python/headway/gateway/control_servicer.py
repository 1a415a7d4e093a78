"""ControlService: wire to domain and back. No decisions."""

import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

from headway.admission.terms import check_key
from headway.clock import Clock
from headway.errors import InvalidRequest, NotFound
from headway.gateway import explain, messages
from headway.gateway.authentication import ROLES
from headway.gateway.catalog import Catalog, Model
from headway.gateway.control_plane import ControlPlane, unknown_tenant
from headway.gateway.decisions import DecisionLog
from headway.gateway.directory import Directory
from headway.gateway.fleet import Fleet
from headway.gateway.reload import Reloader
from headway.gateway.rollouts.service import Rollouts
from headway.gateway.rollouts.servicer import RolloutMethods
from headway.gateway.state import StateReader, split_message
from headway.gateway.state_feed import StateFeed
from headway.naming import check_name
from headway.rpc.convert import duration_ns
from headway.rpc.interceptors import current_caller
from headway.store.records import Author
from headway.v1 import control_pb2, control_pb2_grpc

SERVICE = "headway.v1.ControlService"
_READS = (
    "GetState",
    "WatchState",
    "ListReplicas",
    "GetTrafficSplit",
    "GetRollout",
    "ListRollouts",
    "ListVerdicts",
    "ListTenants",
    "ExplainRequest",
)
_OPERATIONS = (
    "DrainReplica",
    "UndrainReplica",
    "SetTrafficSplit",
    "SetLogLevel",
    "StartRollout",
    "PauseRollout",
    "ResumeRollout",
    "PromoteRollout",
    "AbortRollout",
)
_ADMINISTRATION = (
    "CreateTenant",
    "UpdateTenant",
    "DeleteTenant",
    "CreateApiKey",
    "RotateApiKey",
    "RevokeApiKey",
    "ListApiKeys",
    "ReloadConfig",
    "ListAuditEntries",
)
METHODS = (*_READS, *_OPERATIONS, *_ADMINISTRATION)

REQUIRED_ROLE: Mapping[str, int] = {
    f"/{SERVICE}/{method}": ROLES[role]
    for role, methods in (
        ("viewer", _READS),
        ("operator", _OPERATIONS),
        ("admin", _ADMINISTRATION),
    )
    for method in methods
}
"""Least role by method path."""

_DEFAULT_INTERVAL_NS = 1_000_000_000
_LEAST_INTERVAL_NS = 100_000_000
_DEFAULT_OVERLAP_NS = 24 * 3600 * 1_000_000_000
_LONGEST_NS = 10 * 366 * 24 * 3600 * 1_000_000_000
_LEVELS = ("debug", "info", "warning", "error")
_ROOT_LOGGER = "headway"


class ControlServicer(RolloutMethods, control_pb2_grpc.ControlServiceServicer):
    """What operators call."""

    def __init__(
        self,
        plane: ControlPlane,
        state: StateReader,
        feed: StateFeed,
        fleet: Fleet,
        catalog: Catalog,
        directory: Directory,
        decisions: DecisionLog,
        reloader: Reloader,
        rollouts: Rollouts,
        clock: Clock,
        *,
        gateway_id: str,
    ) -> None:
        self.rollouts = rollouts
        self.gateway_id = gateway_id
        self._plane = plane
        self._state = state
        self._feed = feed
        self._fleet = fleet
        self._catalog = catalog
        self._directory = directory
        self._decisions = decisions
        self._reloader = reloader
        self._clock = clock

    # -- state

    async def GetState(
        self, request: control_pb2.GetStateRequest, context: Any
    ) -> control_pb2.GetStateResponse:
        """The whole state in one answer."""
        return control_pb2.GetStateResponse(state=self._state.read())

    async def WatchState(
        self, request: control_pb2.WatchStateRequest, context: Any
    ) -> AsyncIterator[control_pb2.WatchStateResponse]:
        """The whole state, then what changed of it, at most once an interval."""
        interval_ns = _DEFAULT_INTERVAL_NS
        if request.HasField("interval"):
            interval_ns = duration_ns(request.interval)
        if interval_ns < _LEAST_INTERVAL_NS:
            raise InvalidRequest(
                f"interval is {interval_ns / 1e9:g} s; it must be at least 0.1 s", field="interval"
            )
        caller = current_caller()
        async with contextlib.aclosing(self._feed.watch(interval_ns)) as watched:
            async for message in watched:
                check_key(caller, self._clock.now_ns())
                yield message

    # -- replicas

    async def ListReplicas(
        self, request: control_pb2.ListReplicasRequest, context: Any
    ) -> control_pb2.ListReplicasResponse:
        """Replicas, by name."""
        return control_pb2.ListReplicasResponse(replicas=self._state.replicas(request.model))

    async def DrainReplica(
        self, request: control_pb2.DrainReplicaRequest, context: Any
    ) -> control_pb2.DrainReplicaResponse:
        """Sends a worker no more work."""
        await self._plane.set_drained(self._author(), request.worker_id, True)
        replicas = self._state.replicas_of_worker(request.worker_id)
        return control_pb2.DrainReplicaResponse(replicas=replicas)

    async def UndrainReplica(
        self, request: control_pb2.UndrainReplicaRequest, context: Any
    ) -> control_pb2.UndrainReplicaResponse:
        """Takes a drain back."""
        await self._plane.set_drained(self._author(), request.worker_id, False)
        replicas = self._state.replicas_of_worker(request.worker_id)
        return control_pb2.UndrainReplicaResponse(replicas=replicas)

    # -- traffic

    async def GetTrafficSplit(
        self, request: control_pb2.GetTrafficSplitRequest, context: Any
    ) -> control_pb2.GetTrafficSplitResponse:
        """How a model's unpinned traffic divides."""
        return control_pb2.GetTrafficSplitResponse(split=split_message(self._model(request.model)))

    async def SetTrafficSplit(
        self, request: control_pb2.SetTrafficSplitRequest, context: Any
    ) -> control_pb2.SetTrafficSplitResponse:
        """Divides a model's unpinned traffic anew."""
        model = self._model(request.model)
        await self._plane.set_split(self._author(), model, _checked_split(request, model))
        return control_pb2.SetTrafficSplitResponse(split=split_message(model))

    # -- tenants

    async def CreateTenant(
        self, request: control_pb2.CreateTenantRequest, context: Any
    ) -> control_pb2.CreateTenantResponse:
        """Adds a tenant."""
        record = messages.tenant_record(request.tenant)
        made = await self._plane.create_tenant(self._author(), record)
        return control_pb2.CreateTenantResponse(tenant=messages.tenant_message(made, False))

    async def UpdateTenant(
        self, request: control_pb2.UpdateTenantRequest, context: Any
    ) -> control_pb2.UpdateTenantResponse:
        """Replaces what is known of a tenant."""
        record = messages.tenant_record(request.tenant)
        made = await self._plane.update_tenant(self._author(), record)
        return control_pb2.UpdateTenantResponse(tenant=messages.tenant_message(made, False))

    async def ListTenants(
        self, request: control_pb2.ListTenantsRequest, context: Any
    ) -> control_pb2.ListTenantsResponse:
        """Tenants, by name."""
        size = messages.page_size(request.page_size)
        named = [(record.tenant, messages.tenant_message(record, from_config))
                 for record, from_config in self._directory.tenants()]  # fmt: skip
        tenants, following = messages.page(named, size, request.page_token)
        return control_pb2.ListTenantsResponse(tenants=tenants, next_page_token=following)

    async def DeleteTenant(
        self, request: control_pb2.DeleteTenantRequest, context: Any
    ) -> control_pb2.DeleteTenantResponse:
        """Removes a tenant and its keys."""
        check_name(request.tenant, "tenant")
        await self._plane.delete_tenant(self._author(), request.tenant)
        return control_pb2.DeleteTenantResponse()

    # -- keys

    async def CreateApiKey(
        self, request: control_pb2.CreateApiKeyRequest, context: Any
    ) -> control_pb2.CreateApiKeyResponse:
        """Makes a key; its secret is in this answer and nowhere else."""
        check_name(request.tenant, "tenant")
        messages.check_description(request.description)
        valid_ns = None
        if request.HasField("valid_for"):
            valid_ns = _checked_duration(duration_ns(request.valid_for), "valid_for", least=1)
        role = messages.role_name(request.role)
        made = await self._plane.create_key(
            self._author(), request.tenant, role, valid_ns, request.description
        )
        return control_pb2.CreateApiKeyResponse(
            secret=made.secret, key=messages.key_message(made.record)
        )

    async def RotateApiKey(
        self, request: control_pb2.RotateApiKeyRequest, context: Any
    ) -> control_pb2.RotateApiKeyResponse:
        """Makes a key in place of another."""
        overlap_ns = _DEFAULT_OVERLAP_NS
        if request.HasField("overlap"):
            overlap_ns = _checked_duration(duration_ns(request.overlap), "overlap", least=0)
        made, old = await self._plane.rotate_key(self._author(), request.key_id, overlap_ns)
        return control_pb2.RotateApiKeyResponse(
            secret=made.secret,
            key=messages.key_message(made.record),
            old_key=messages.key_message(old),
        )

    async def RevokeApiKey(
        self, request: control_pb2.RevokeApiKeyRequest, context: Any
    ) -> control_pb2.RevokeApiKeyResponse:
        """Ends a key."""
        await self._plane.revoke_key(self._author(), request.key_id)
        return control_pb2.RevokeApiKeyResponse()

    async def ListApiKeys(
        self, request: control_pb2.ListApiKeysRequest, context: Any
    ) -> control_pb2.ListApiKeysResponse:
        """Keys, by id, without their secrets."""
        size = messages.page_size(request.page_size)
        if request.tenant and self._directory.tenant(request.tenant) is None:
            raise unknown_tenant(request.tenant)
        named = [(key.key_id, key) for key in self._directory.keys(request.tenant)]
        keys, following = messages.page(named, size, request.page_token)
        return control_pb2.ListApiKeysResponse(
            keys=[messages.key_message(key) for key in keys], next_page_token=following
        )

    # -- the gateway itself

    async def ReloadConfig(
        self, request: control_pb2.ReloadConfigRequest, context: Any
    ) -> control_pb2.ReloadConfigResponse:
        """Reads the configuration again."""
        before = self._reloader.generation
        done = self._reloader.reload(dry_run=request.dry_run)
        if not request.dry_run:
            self._plane.note(
                self._author(),
                "reload",
                "config",
                {"generation": before},
                {"generation": done.generation, "changes": list(done.changes)},
            )
        return control_pb2.ReloadConfigResponse(
            generation=done.generation, changes=done.changes, needs_restart=done.needs_restart
        )

    async def SetLogLevel(
        self, request: control_pb2.SetLogLevelRequest, context: Any
    ) -> control_pb2.SetLogLevelResponse:
        """Changes how much is logged."""
        level = request.level.lower()
        name = request.logger or _ROOT_LOGGER
        if level not in _LEVELS:
            raise InvalidRequest(
                f"level is {request.level!r}; use one of: {', '.join(_LEVELS)}", field="level"
            )
        if name != _ROOT_LOGGER and not name.startswith(f"{_ROOT_LOGGER}."):
            raise InvalidRequest(
                f"logger is {name!r}; name one of Headway's, headway or headway.*", field="logger"
            )
        logger = logging.getLogger(name)
        previous = logging.getLevelName(logger.getEffectiveLevel()).lower()
        logger.setLevel(level.upper())
        self._plane.note(self._author(), "set", "log_level", {name: previous}, {name: level})
        return control_pb2.SetLogLevelResponse(previous_level=previous)

    async def ListAuditEntries(
        self, request: control_pb2.ListAuditEntriesRequest, context: Any
    ) -> control_pb2.ListAuditEntriesResponse:
        """Who changed what, newest first."""
        size = messages.page_size(request.page_size)
        before = messages.audit_start(request.page_token)
        found = await self._plane.audit_entries(before, size + 1, request.target)
        following = messages.page_token(str(found[size - 1].revision)) if len(found) > size else ""
        return control_pb2.ListAuditEntriesResponse(
            entries=[messages.audit_message(entry) for entry in found[:size]],
            next_page_token=following,
        )

    async def ExplainRequest(
        self, request: control_pb2.ExplainRequestRequest, context: Any
    ) -> control_pb2.ExplainRequestResponse:
        """What happened to a request, and why."""
        if not request.request_id:
            raise InvalidRequest("request_id is empty", field="request_id")
        record = self._decisions.find(request.request_id)
        if record is None:
            raise NotFound(
                f"no request {request.request_id[:128]!r} among the last {len(self._decisions)} "
                "of this gateway; another gateway may have taken it, or it is too long ago "
                "(gateway.explained_requests)",
                field="request_id",
                metadata={"name": request.request_id[:128], "kind": "request"},
            )
        now_ns = self._clock.now_ns()
        return control_pb2.ExplainRequestResponse(
            record=explain.message(record, now_ns), sentences=explain.sentences(record, now_ns)
        )

    # -- inside

    def _author(self) -> Author:
        return self._plane.author(current_caller())

    def _model(self, name: str) -> Model:
        model = self._catalog.models.get(name)
        if model is None:
            known = ", ".join(sorted(self._catalog.models)[:8]) or "none"
            raise NotFound(
                f"no model {name!r}; there are: {known}",
                field="model",
                metadata={"name": name[:64], "kind": "model"},
            )
        return model


def _checked_duration(value_ns: int, field: str, *, least: int) -> int:
    if not least <= value_ns <= _LONGEST_NS:
        raise InvalidRequest(
            f"{field} is {value_ns / 1e9:g} s; it must be "
            f"{'above' if least else 'at least'} 0 and at most 10 years",
            field=field,
        )
    return value_ns


def _checked_split(request: control_pb2.SetTrafficSplitRequest, model: Model) -> dict[str, float]:
    split: dict[str, float] = {}
    for index, share in enumerate(request.shares):
        field = f"shares[{index}]"
        if share.version not in model.versions:
            raise InvalidRequest(
                f"{field}.version is {share.version!r}; {model.name} has: "
                f"{', '.join(sorted(model.versions)) or 'none'}",
                field=f"{field}.version",
            )
        if not 0 <= share.share <= 1 or share.version in split:
            raise InvalidRequest(
                f"{field} gives {share.version} {share.share:g}; give each version once, a share "
                "in [0, 1]",
                field=f"{field}.share",
            )
        split[share.version] = share.share
    if abs(sum(split.values()) - 1) > 1e-6:
        raise InvalidRequest(
            f"shares add up to {sum(split.values()):g}; they must add up to 1", field="shares"
        )
    return split
