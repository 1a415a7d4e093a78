"""ControlService: wire to state and back.

The methods not here (rollouts, tenants, keys, reload, explain) answer UNIMPLEMENTED.
"""

import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

from headway.clock import Clock
from headway.errors import InvalidRequest, NotFound
from headway.gateway.authentication import ROLES
from headway.gateway.catalog import Catalog, Model
from headway.gateway.fleet import Fleet
from headway.gateway.state import StateReader, split_message
from headway.rpc.convert import duration_ns
from headway.v1 import control_pb2, control_pb2_grpc

SERVICE = "headway.v1.ControlService"
METHODS = (
    "GetState",
    "WatchState",
    "ListReplicas",
    "DrainReplica",
    "UndrainReplica",
    "GetTrafficSplit",
    "SetTrafficSplit",
    "SetLogLevel",
)
_CHANGES = ("DrainReplica", "UndrainReplica", "SetTrafficSplit", "SetLogLevel")

# Least role by method path: reading takes a viewer, changing an operator.
REQUIRED_ROLE: Mapping[str, int] = {
    f"/{SERVICE}/{method}": ROLES["operator" if method in _CHANGES else "viewer"]
    for method in METHODS
}

_DEFAULT_INTERVAL_NS = 1_000_000_000
_LEAST_INTERVAL_NS = 100_000_000
_LEVELS = ("debug", "info", "warning", "error")
_ROOT_LOGGER = "headway"


class ControlServicer(control_pb2_grpc.ControlServiceServicer):
    """What operators call."""

    def __init__(self, state: StateReader, fleet: Fleet, catalog: Catalog, clock: Clock) -> None:
        self._state = state
        self._fleet = fleet
        self._catalog = catalog
        self._clock = clock

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
        previous = self._state.read()
        yield control_pb2.WatchStateResponse(state=previous, snapshot=True)
        while True:
            await self._clock.sleep(interval_ns)
            current = self._state.read()
            changes = _changes(previous, current)
            if changes is not None:
                yield changes
            previous = current

    async def ListReplicas(
        self, request: control_pb2.ListReplicasRequest, context: Any
    ) -> control_pb2.ListReplicasResponse:
        """Replicas, by name."""
        return control_pb2.ListReplicasResponse(replicas=self._state.replicas(request.model))

    async def DrainReplica(
        self, request: control_pb2.DrainReplicaRequest, context: Any
    ) -> control_pb2.DrainReplicaResponse:
        """Sends a worker no more work."""
        worker = self._fleet.drain(request.worker_id, True)
        replicas = self._state.describe(self._fleet.replicas_of((worker,)))
        return control_pb2.DrainReplicaResponse(replicas=replicas)

    async def UndrainReplica(
        self, request: control_pb2.UndrainReplicaRequest, context: Any
    ) -> control_pb2.UndrainReplicaResponse:
        """Takes a drain back."""
        worker = self._fleet.drain(request.worker_id, False)
        replicas = self._state.describe(self._fleet.replicas_of((worker,)))
        return control_pb2.UndrainReplicaResponse(replicas=replicas)

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
        split = _checked_split(request, model)
        self._catalog.set_split(model, split, control_pb2.TRAFFIC_SPLIT_SOURCE_OPERATOR)
        return control_pb2.SetTrafficSplitResponse(split=split_message(model))

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
        return control_pb2.SetLogLevelResponse(previous_level=previous)

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


def _changes(
    previous: control_pb2.State, current: control_pb2.State
) -> control_pb2.WatchStateResponse | None:
    """What is new in `current`; None if nothing is."""
    message = control_pb2.WatchStateResponse()
    old_pools = {(pool.model, pool.version): pool for pool in previous.pools}
    old_replicas = {replica.replica: replica for replica in previous.replicas}
    old_splits = {split.model: split for split in previous.splits}
    message.state.pools.extend(
        pool for pool in current.pools if old_pools.get((pool.model, pool.version)) != pool
    )
    message.state.replicas.extend(
        each for each in current.replicas if not _alike(old_replicas.get(each.replica), each)
    )
    message.state.splits.extend(
        split for split in current.splits if old_splits.get(split.model) != split
    )
    if current.gateway != previous.gateway:
        message.state.gateway.CopyFrom(current.gateway)
    present = {replica.replica for replica in current.replicas}
    message.removed_replicas.extend(name for name in old_replicas if name not in present)
    return message if message.ByteSize() > 0 else None


def _alike(old: control_pb2.ReplicaState | None, new: control_pb2.ReplicaState) -> bool:
    """Alike but for the lease, which every heartbeat moves."""
    if old is None:
        return False
    aligned = control_pb2.ReplicaState()
    aligned.CopyFrom(new)
    aligned.lease_expires_at.CopyFrom(old.lease_expires_at)
    return aligned == old
