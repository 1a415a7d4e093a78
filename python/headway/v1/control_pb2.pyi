import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from headway.v1 import inference_pb2 as _inference_pb2
from headway.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BreakerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BREAKER_STATE_UNSPECIFIED: _ClassVar[BreakerState]
    BREAKER_STATE_CLOSED: _ClassVar[BreakerState]
    BREAKER_STATE_OPEN: _ClassVar[BreakerState]
    BREAKER_STATE_HALF_OPEN: _ClassVar[BreakerState]

class ReplicaCondition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPLICA_CONDITION_UNSPECIFIED: _ClassVar[ReplicaCondition]
    REPLICA_CONDITION_CONNECTING: _ClassVar[ReplicaCondition]
    REPLICA_CONDITION_READY: _ClassVar[ReplicaCondition]
    REPLICA_CONDITION_DRAINING: _ClassVar[ReplicaCondition]
    REPLICA_CONDITION_EJECTED: _ClassVar[ReplicaCondition]
    REPLICA_CONDITION_LOADING: _ClassVar[ReplicaCondition]

class TrafficSplitSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRAFFIC_SPLIT_SOURCE_UNSPECIFIED: _ClassVar[TrafficSplitSource]
    TRAFFIC_SPLIT_SOURCE_DEFAULT: _ClassVar[TrafficSplitSource]
    TRAFFIC_SPLIT_SOURCE_CONFIG: _ClassVar[TrafficSplitSource]
    TRAFFIC_SPLIT_SOURCE_OPERATOR: _ClassVar[TrafficSplitSource]
    TRAFFIC_SPLIT_SOURCE_ROLLOUT: _ClassVar[TrafficSplitSource]

class RolloutPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLLOUT_PHASE_UNSPECIFIED: _ClassVar[RolloutPhase]
    ROLLOUT_PHASE_RUNNING: _ClassVar[RolloutPhase]
    ROLLOUT_PHASE_PAUSED: _ClassVar[RolloutPhase]
    ROLLOUT_PHASE_PROMOTED: _ClassVar[RolloutPhase]
    ROLLOUT_PHASE_ROLLED_BACK: _ClassVar[RolloutPhase]
    ROLLOUT_PHASE_ABORTED: _ClassVar[RolloutPhase]

class VerdictDecision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_DECISION_UNSPECIFIED: _ClassVar[VerdictDecision]
    VERDICT_DECISION_HOLD: _ClassVar[VerdictDecision]
    VERDICT_DECISION_ADVANCE: _ClassVar[VerdictDecision]
    VERDICT_DECISION_ROLL_BACK: _ClassVar[VerdictDecision]
    VERDICT_DECISION_PROMOTE: _ClassVar[VerdictDecision]
    VERDICT_DECISION_STEP_BACK: _ClassVar[VerdictDecision]
    VERDICT_DECISION_PAUSE: _ClassVar[VerdictDecision]

class TenantSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TENANT_SOURCE_UNSPECIFIED: _ClassVar[TenantSource]
    TENANT_SOURCE_CONFIG: _ClassVar[TenantSource]
    TENANT_SOURCE_OPERATOR: _ClassVar[TenantSource]

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_VIEWER: _ClassVar[Role]
    ROLE_OPERATOR: _ClassVar[Role]
    ROLE_ADMIN: _ClassVar[Role]
BREAKER_STATE_UNSPECIFIED: BreakerState
BREAKER_STATE_CLOSED: BreakerState
BREAKER_STATE_OPEN: BreakerState
BREAKER_STATE_HALF_OPEN: BreakerState
REPLICA_CONDITION_UNSPECIFIED: ReplicaCondition
REPLICA_CONDITION_CONNECTING: ReplicaCondition
REPLICA_CONDITION_READY: ReplicaCondition
REPLICA_CONDITION_DRAINING: ReplicaCondition
REPLICA_CONDITION_EJECTED: ReplicaCondition
REPLICA_CONDITION_LOADING: ReplicaCondition
TRAFFIC_SPLIT_SOURCE_UNSPECIFIED: TrafficSplitSource
TRAFFIC_SPLIT_SOURCE_DEFAULT: TrafficSplitSource
TRAFFIC_SPLIT_SOURCE_CONFIG: TrafficSplitSource
TRAFFIC_SPLIT_SOURCE_OPERATOR: TrafficSplitSource
TRAFFIC_SPLIT_SOURCE_ROLLOUT: TrafficSplitSource
ROLLOUT_PHASE_UNSPECIFIED: RolloutPhase
ROLLOUT_PHASE_RUNNING: RolloutPhase
ROLLOUT_PHASE_PAUSED: RolloutPhase
ROLLOUT_PHASE_PROMOTED: RolloutPhase
ROLLOUT_PHASE_ROLLED_BACK: RolloutPhase
ROLLOUT_PHASE_ABORTED: RolloutPhase
VERDICT_DECISION_UNSPECIFIED: VerdictDecision
VERDICT_DECISION_HOLD: VerdictDecision
VERDICT_DECISION_ADVANCE: VerdictDecision
VERDICT_DECISION_ROLL_BACK: VerdictDecision
VERDICT_DECISION_PROMOTE: VerdictDecision
VERDICT_DECISION_STEP_BACK: VerdictDecision
VERDICT_DECISION_PAUSE: VerdictDecision
TENANT_SOURCE_UNSPECIFIED: TenantSource
TENANT_SOURCE_CONFIG: TenantSource
TENANT_SOURCE_OPERATOR: TenantSource
ROLE_UNSPECIFIED: Role
ROLE_VIEWER: Role
ROLE_OPERATOR: Role
ROLE_ADMIN: Role

class GetStateRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStateResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: State
    def __init__(self, state: _Optional[_Union[State, _Mapping]] = ...) -> None: ...

class WatchStateRequest(_message.Message):
    __slots__ = ("interval",)
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    interval: _duration_pb2.Duration
    def __init__(self, interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WatchStateResponse(_message.Message):
    __slots__ = ("state", "snapshot", "removed_replicas", "ended_rollouts")
    STATE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    REMOVED_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ENDED_ROLLOUTS_FIELD_NUMBER: _ClassVar[int]
    state: State
    snapshot: bool
    removed_replicas: _containers.RepeatedScalarFieldContainer[str]
    ended_rollouts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, state: _Optional[_Union[State, _Mapping]] = ..., snapshot: _Optional[bool] = ..., removed_replicas: _Optional[_Iterable[str]] = ..., ended_rollouts: _Optional[_Iterable[str]] = ...) -> None: ...

class State(_message.Message):
    __slots__ = ("gateway", "pools", "replicas", "splits", "rollouts")
    GATEWAY_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    ROLLOUTS_FIELD_NUMBER: _ClassVar[int]
    gateway: GatewayState
    pools: _containers.RepeatedCompositeFieldContainer[PoolState]
    replicas: _containers.RepeatedCompositeFieldContainer[ReplicaState]
    splits: _containers.RepeatedCompositeFieldContainer[TrafficSplit]
    rollouts: _containers.RepeatedCompositeFieldContainer[Rollout]
    def __init__(self, gateway: _Optional[_Union[GatewayState, _Mapping]] = ..., pools: _Optional[_Iterable[_Union[PoolState, _Mapping]]] = ..., replicas: _Optional[_Iterable[_Union[ReplicaState, _Mapping]]] = ..., splits: _Optional[_Iterable[_Union[TrafficSplit, _Mapping]]] = ..., rollouts: _Optional[_Iterable[_Union[Rollout, _Mapping]]] = ...) -> None: ...

class GatewayState(_message.Message):
    __slots__ = ("gateway_id", "software_version", "started_at", "ready", "config_generation", "inflight_requests", "requests", "transport", "store", "active_tenants", "num_gateways")
    class RequestsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_VERSION_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    CONFIG_GENERATION_FIELD_NUMBER: _ClassVar[int]
    INFLIGHT_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_TENANTS_FIELD_NUMBER: _ClassVar[int]
    NUM_GATEWAYS_FIELD_NUMBER: _ClassVar[int]
    gateway_id: str
    software_version: str
    started_at: _timestamp_pb2.Timestamp
    ready: bool
    config_generation: int
    inflight_requests: int
    requests: _containers.ScalarMap[str, int]
    transport: str
    store: StoreState
    active_tenants: int
    num_gateways: int
    def __init__(self, gateway_id: _Optional[str] = ..., software_version: _Optional[str] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ready: _Optional[bool] = ..., config_generation: _Optional[int] = ..., inflight_requests: _Optional[int] = ..., requests: _Optional[_Mapping[str, int]] = ..., transport: _Optional[str] = ..., store: _Optional[_Union[StoreState, _Mapping]] = ..., active_tenants: _Optional[int] = ..., num_gateways: _Optional[int] = ...) -> None: ...

class StoreState(_message.Message):
    __slots__ = ("url", "up", "revision", "leader", "waiting_entries")
    URL_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    WAITING_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    url: str
    up: bool
    revision: int
    leader: bool
    waiting_entries: int
    def __init__(self, url: _Optional[str] = ..., up: _Optional[bool] = ..., revision: _Optional[int] = ..., leader: _Optional[bool] = ..., waiting_entries: _Optional[int] = ...) -> None: ...

class PoolState(_message.Message):
    __slots__ = ("model", "version", "queued_requests", "queued_units", "executing_batches", "cost", "quantum", "inflight_limit", "ready", "limit_gradient", "inflight", "displaced", "streams")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    QUEUED_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_UNITS_FIELD_NUMBER: _ClassVar[int]
    EXECUTING_BATCHES_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    QUANTUM_FIELD_NUMBER: _ClassVar[int]
    INFLIGHT_LIMIT_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_GRADIENT_FIELD_NUMBER: _ClassVar[int]
    INFLIGHT_FIELD_NUMBER: _ClassVar[int]
    DISPLACED_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: str
    queued_requests: int
    queued_units: int
    executing_batches: int
    cost: LearnedCost
    quantum: _duration_pb2.Duration
    inflight_limit: float
    ready: bool
    limit_gradient: float
    inflight: ClassCounts
    displaced: ClassCounts
    streams: StreamPoolState
    def __init__(self, model: _Optional[str] = ..., version: _Optional[str] = ..., queued_requests: _Optional[int] = ..., queued_units: _Optional[int] = ..., executing_batches: _Optional[int] = ..., cost: _Optional[_Union[LearnedCost, _Mapping]] = ..., quantum: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., inflight_limit: _Optional[float] = ..., ready: _Optional[bool] = ..., limit_gradient: _Optional[float] = ..., inflight: _Optional[_Union[ClassCounts, _Mapping]] = ..., displaced: _Optional[_Union[ClassCounts, _Mapping]] = ..., streams: _Optional[_Union[StreamPoolState, _Mapping]] = ...) -> None: ...

class StreamPoolState(_message.Message):
    __slots__ = ("waiting", "writing", "free_lanes", "total_lanes", "free_kv_units", "total_kv_units", "expected_output_units", "lane_wait")
    WAITING_FIELD_NUMBER: _ClassVar[int]
    WRITING_FIELD_NUMBER: _ClassVar[int]
    FREE_LANES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_LANES_FIELD_NUMBER: _ClassVar[int]
    FREE_KV_UNITS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_KV_UNITS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_OUTPUT_UNITS_FIELD_NUMBER: _ClassVar[int]
    LANE_WAIT_FIELD_NUMBER: _ClassVar[int]
    waiting: int
    writing: int
    free_lanes: int
    total_lanes: int
    free_kv_units: int
    total_kv_units: int
    expected_output_units: float
    lane_wait: _duration_pb2.Duration
    def __init__(self, waiting: _Optional[int] = ..., writing: _Optional[int] = ..., free_lanes: _Optional[int] = ..., total_lanes: _Optional[int] = ..., free_kv_units: _Optional[int] = ..., total_kv_units: _Optional[int] = ..., expected_output_units: _Optional[float] = ..., lane_wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ClassCounts(_message.Message):
    __slots__ = ("critical", "standard", "sheddable")
    CRITICAL_FIELD_NUMBER: _ClassVar[int]
    STANDARD_FIELD_NUMBER: _ClassVar[int]
    SHEDDABLE_FIELD_NUMBER: _ClassVar[int]
    critical: int
    standard: int
    sheddable: int
    def __init__(self, critical: _Optional[int] = ..., standard: _Optional[int] = ..., sheddable: _Optional[int] = ...) -> None: ...

class LearnedCost(_message.Message):
    __slots__ = ("intercept", "slope_ns_per_unit", "residual_ratio", "num_observations")
    INTERCEPT_FIELD_NUMBER: _ClassVar[int]
    SLOPE_NS_PER_UNIT_FIELD_NUMBER: _ClassVar[int]
    RESIDUAL_RATIO_FIELD_NUMBER: _ClassVar[int]
    NUM_OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    intercept: _duration_pb2.Duration
    slope_ns_per_unit: float
    residual_ratio: float
    num_observations: int
    def __init__(self, intercept: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., slope_ns_per_unit: _Optional[float] = ..., residual_ratio: _Optional[float] = ..., num_observations: _Optional[int] = ...) -> None: ...

class ReplicaState(_message.Message):
    __slots__ = ("replica", "worker_id", "address", "model", "version", "condition", "outstanding_batches", "max_outstanding_batches", "latency", "speed", "completed_batches", "failed_batches", "busy_answers", "lease_expires_at", "labels", "drained_by_operator", "breaker", "breaker_open_for", "recent_outcomes", "recent_failures", "handoff")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_BATCHES_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTSTANDING_BATCHES_FIELD_NUMBER: _ClassVar[int]
    LATENCY_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_BATCHES_FIELD_NUMBER: _ClassVar[int]
    FAILED_BATCHES_FIELD_NUMBER: _ClassVar[int]
    BUSY_ANSWERS_FIELD_NUMBER: _ClassVar[int]
    LEASE_EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    DRAINED_BY_OPERATOR_FIELD_NUMBER: _ClassVar[int]
    BREAKER_FIELD_NUMBER: _ClassVar[int]
    BREAKER_OPEN_FOR_FIELD_NUMBER: _ClassVar[int]
    RECENT_OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    RECENT_FAILURES_FIELD_NUMBER: _ClassVar[int]
    HANDOFF_FIELD_NUMBER: _ClassVar[int]
    replica: str
    worker_id: str
    address: str
    model: str
    version: str
    condition: ReplicaCondition
    outstanding_batches: int
    max_outstanding_batches: int
    latency: _duration_pb2.Duration
    speed: float
    completed_batches: int
    failed_batches: int
    busy_answers: int
    lease_expires_at: _timestamp_pb2.Timestamp
    labels: _containers.ScalarMap[str, str]
    drained_by_operator: bool
    breaker: BreakerState
    breaker_open_for: _duration_pb2.Duration
    recent_outcomes: int
    recent_failures: int
    handoff: _duration_pb2.Duration
    def __init__(self, replica: _Optional[str] = ..., worker_id: _Optional[str] = ..., address: _Optional[str] = ..., model: _Optional[str] = ..., version: _Optional[str] = ..., condition: _Optional[_Union[ReplicaCondition, str]] = ..., outstanding_batches: _Optional[int] = ..., max_outstanding_batches: _Optional[int] = ..., latency: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., speed: _Optional[float] = ..., completed_batches: _Optional[int] = ..., failed_batches: _Optional[int] = ..., busy_answers: _Optional[int] = ..., lease_expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., drained_by_operator: _Optional[bool] = ..., breaker: _Optional[_Union[BreakerState, str]] = ..., breaker_open_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., recent_outcomes: _Optional[int] = ..., recent_failures: _Optional[int] = ..., handoff: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ListReplicasRequest(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class ListReplicasResponse(_message.Message):
    __slots__ = ("replicas",)
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    replicas: _containers.RepeatedCompositeFieldContainer[ReplicaState]
    def __init__(self, replicas: _Optional[_Iterable[_Union[ReplicaState, _Mapping]]] = ...) -> None: ...

class DrainReplicaRequest(_message.Message):
    __slots__ = ("worker_id",)
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    def __init__(self, worker_id: _Optional[str] = ...) -> None: ...

class DrainReplicaResponse(_message.Message):
    __slots__ = ("replicas",)
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    replicas: _containers.RepeatedCompositeFieldContainer[ReplicaState]
    def __init__(self, replicas: _Optional[_Iterable[_Union[ReplicaState, _Mapping]]] = ...) -> None: ...

class UndrainReplicaRequest(_message.Message):
    __slots__ = ("worker_id",)
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    def __init__(self, worker_id: _Optional[str] = ...) -> None: ...

class UndrainReplicaResponse(_message.Message):
    __slots__ = ("replicas",)
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    replicas: _containers.RepeatedCompositeFieldContainer[ReplicaState]
    def __init__(self, replicas: _Optional[_Iterable[_Union[ReplicaState, _Mapping]]] = ...) -> None: ...

class TrafficSplit(_message.Message):
    __slots__ = ("model", "shares", "source")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    model: str
    shares: _containers.RepeatedCompositeFieldContainer[VersionShare]
    source: TrafficSplitSource
    def __init__(self, model: _Optional[str] = ..., shares: _Optional[_Iterable[_Union[VersionShare, _Mapping]]] = ..., source: _Optional[_Union[TrafficSplitSource, str]] = ...) -> None: ...

class VersionShare(_message.Message):
    __slots__ = ("version", "share")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    version: str
    share: float
    def __init__(self, version: _Optional[str] = ..., share: _Optional[float] = ...) -> None: ...

class GetTrafficSplitRequest(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class GetTrafficSplitResponse(_message.Message):
    __slots__ = ("split",)
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    split: TrafficSplit
    def __init__(self, split: _Optional[_Union[TrafficSplit, _Mapping]] = ...) -> None: ...

class SetTrafficSplitRequest(_message.Message):
    __slots__ = ("model", "shares")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    model: str
    shares: _containers.RepeatedCompositeFieldContainer[VersionShare]
    def __init__(self, model: _Optional[str] = ..., shares: _Optional[_Iterable[_Union[VersionShare, _Mapping]]] = ...) -> None: ...

class SetTrafficSplitResponse(_message.Message):
    __slots__ = ("split",)
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    split: TrafficSplit
    def __init__(self, split: _Optional[_Union[TrafficSplit, _Mapping]] = ...) -> None: ...

class RolloutPolicy(_message.Message):
    __slots__ = ("steps", "min_step_duration", "min_step_requests", "latency_tolerance", "error_tolerance", "error_floor", "analysis_interval", "max_duration", "false_rollback_probability", "preset", "settings")
    STEPS_FIELD_NUMBER: _ClassVar[int]
    MIN_STEP_DURATION_FIELD_NUMBER: _ClassVar[int]
    MIN_STEP_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    LATENCY_TOLERANCE_FIELD_NUMBER: _ClassVar[int]
    ERROR_TOLERANCE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FLOOR_FIELD_NUMBER: _ClassVar[int]
    ANALYSIS_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    MAX_DURATION_FIELD_NUMBER: _ClassVar[int]
    FALSE_ROLLBACK_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    PRESET_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    steps: _containers.RepeatedScalarFieldContainer[float]
    min_step_duration: _duration_pb2.Duration
    min_step_requests: int
    latency_tolerance: float
    error_tolerance: float
    error_floor: float
    analysis_interval: _duration_pb2.Duration
    max_duration: _duration_pb2.Duration
    false_rollback_probability: float
    preset: str
    settings: _struct_pb2.Struct
    def __init__(self, steps: _Optional[_Iterable[float]] = ..., min_step_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., min_step_requests: _Optional[int] = ..., latency_tolerance: _Optional[float] = ..., error_tolerance: _Optional[float] = ..., error_floor: _Optional[float] = ..., analysis_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., false_rollback_probability: _Optional[float] = ..., preset: _Optional[str] = ..., settings: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class Rollout(_message.Message):
    __slots__ = ("rollout_id", "model", "baseline_version", "canary_version", "phase", "step", "canary_share", "policy", "started_at", "ended_at", "reason", "progress")
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    BASELINE_VERSION_FIELD_NUMBER: _ClassVar[int]
    CANARY_VERSION_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    CANARY_SHARE_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    model: str
    baseline_version: str
    canary_version: str
    phase: RolloutPhase
    step: int
    canary_share: float
    policy: RolloutPolicy
    started_at: _timestamp_pb2.Timestamp
    ended_at: _timestamp_pb2.Timestamp
    reason: str
    progress: RolloutProgress
    def __init__(self, rollout_id: _Optional[str] = ..., model: _Optional[str] = ..., baseline_version: _Optional[str] = ..., canary_version: _Optional[str] = ..., phase: _Optional[_Union[RolloutPhase, str]] = ..., step: _Optional[int] = ..., canary_share: _Optional[float] = ..., policy: _Optional[_Union[RolloutPolicy, _Mapping]] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ..., progress: _Optional[_Union[RolloutProgress, _Mapping]] = ...) -> None: ...

class RolloutProgress(_message.Message):
    __slots__ = ("step_elapsed", "next_analysis", "baseline", "canary", "evidence", "bounds", "healthy_streak", "unhealthy_streak")
    class EvidenceEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class BoundsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    STEP_ELAPSED_FIELD_NUMBER: _ClassVar[int]
    NEXT_ANALYSIS_FIELD_NUMBER: _ClassVar[int]
    BASELINE_FIELD_NUMBER: _ClassVar[int]
    CANARY_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_STREAK_FIELD_NUMBER: _ClassVar[int]
    UNHEALTHY_STREAK_FIELD_NUMBER: _ClassVar[int]
    step_elapsed: _duration_pb2.Duration
    next_analysis: _duration_pb2.Duration
    baseline: ArmEvidence
    canary: ArmEvidence
    evidence: _containers.ScalarMap[str, float]
    bounds: _containers.ScalarMap[str, float]
    healthy_streak: int
    unhealthy_streak: int
    def __init__(self, step_elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., next_analysis: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., baseline: _Optional[_Union[ArmEvidence, _Mapping]] = ..., canary: _Optional[_Union[ArmEvidence, _Mapping]] = ..., evidence: _Optional[_Mapping[str, float]] = ..., bounds: _Optional[_Mapping[str, float]] = ..., healthy_streak: _Optional[int] = ..., unhealthy_streak: _Optional[int] = ...) -> None: ...

class ArmEvidence(_message.Message):
    __slots__ = ("version", "requests", "errors", "p50", "p95", "p99", "utilisation", "sheds", "error_rate_low", "error_rate_high", "p95_low", "p95_high", "replicas", "device_per_request")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    P50_FIELD_NUMBER: _ClassVar[int]
    P95_FIELD_NUMBER: _ClassVar[int]
    P99_FIELD_NUMBER: _ClassVar[int]
    UTILISATION_FIELD_NUMBER: _ClassVar[int]
    SHEDS_FIELD_NUMBER: _ClassVar[int]
    ERROR_RATE_LOW_FIELD_NUMBER: _ClassVar[int]
    ERROR_RATE_HIGH_FIELD_NUMBER: _ClassVar[int]
    P95_LOW_FIELD_NUMBER: _ClassVar[int]
    P95_HIGH_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_PER_REQUEST_FIELD_NUMBER: _ClassVar[int]
    version: str
    requests: int
    errors: int
    p50: _duration_pb2.Duration
    p95: _duration_pb2.Duration
    p99: _duration_pb2.Duration
    utilisation: float
    sheds: int
    error_rate_low: float
    error_rate_high: float
    p95_low: _duration_pb2.Duration
    p95_high: _duration_pb2.Duration
    replicas: float
    device_per_request: _duration_pb2.Duration
    def __init__(self, version: _Optional[str] = ..., requests: _Optional[int] = ..., errors: _Optional[int] = ..., p50: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., p95: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., p99: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., utilisation: _Optional[float] = ..., sheds: _Optional[int] = ..., error_rate_low: _Optional[float] = ..., error_rate_high: _Optional[float] = ..., p95_low: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., p95_high: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., replicas: _Optional[float] = ..., device_per_request: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("sequence", "decided_at", "decision", "test", "reason", "baseline", "canary", "evidence", "step", "canary_share")
    class EvidenceEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    TEST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BASELINE_FIELD_NUMBER: _ClassVar[int]
    CANARY_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    CANARY_SHARE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    decided_at: _timestamp_pb2.Timestamp
    decision: VerdictDecision
    test: str
    reason: str
    baseline: ArmEvidence
    canary: ArmEvidence
    evidence: _containers.ScalarMap[str, float]
    step: int
    canary_share: float
    def __init__(self, sequence: _Optional[int] = ..., decided_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., decision: _Optional[_Union[VerdictDecision, str]] = ..., test: _Optional[str] = ..., reason: _Optional[str] = ..., baseline: _Optional[_Union[ArmEvidence, _Mapping]] = ..., canary: _Optional[_Union[ArmEvidence, _Mapping]] = ..., evidence: _Optional[_Mapping[str, float]] = ..., step: _Optional[int] = ..., canary_share: _Optional[float] = ...) -> None: ...

class StartRolloutRequest(_message.Message):
    __slots__ = ("model", "canary_version", "policy")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    CANARY_VERSION_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    model: str
    canary_version: str
    policy: RolloutPolicy
    def __init__(self, model: _Optional[str] = ..., canary_version: _Optional[str] = ..., policy: _Optional[_Union[RolloutPolicy, _Mapping]] = ...) -> None: ...

class StartRolloutResponse(_message.Message):
    __slots__ = ("rollout",)
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    rollout: Rollout
    def __init__(self, rollout: _Optional[_Union[Rollout, _Mapping]] = ...) -> None: ...

class PauseRolloutRequest(_message.Message):
    __slots__ = ("rollout_id",)
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    def __init__(self, rollout_id: _Optional[str] = ...) -> None: ...

class PauseRolloutResponse(_message.Message):
    __slots__ = ("rollout",)
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    rollout: Rollout
    def __init__(self, rollout: _Optional[_Union[Rollout, _Mapping]] = ...) -> None: ...

class ResumeRolloutRequest(_message.Message):
    __slots__ = ("rollout_id",)
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    def __init__(self, rollout_id: _Optional[str] = ...) -> None: ...

class ResumeRolloutResponse(_message.Message):
    __slots__ = ("rollout",)
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    rollout: Rollout
    def __init__(self, rollout: _Optional[_Union[Rollout, _Mapping]] = ...) -> None: ...

class PromoteRolloutRequest(_message.Message):
    __slots__ = ("rollout_id",)
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    def __init__(self, rollout_id: _Optional[str] = ...) -> None: ...

class PromoteRolloutResponse(_message.Message):
    __slots__ = ("rollout",)
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    rollout: Rollout
    def __init__(self, rollout: _Optional[_Union[Rollout, _Mapping]] = ...) -> None: ...

class AbortRolloutRequest(_message.Message):
    __slots__ = ("rollout_id", "reason")
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    reason: str
    def __init__(self, rollout_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class AbortRolloutResponse(_message.Message):
    __slots__ = ("rollout",)
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    rollout: Rollout
    def __init__(self, rollout: _Optional[_Union[Rollout, _Mapping]] = ...) -> None: ...

class GetRolloutRequest(_message.Message):
    __slots__ = ("rollout_id",)
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    def __init__(self, rollout_id: _Optional[str] = ...) -> None: ...

class GetRolloutResponse(_message.Message):
    __slots__ = ("rollout",)
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    rollout: Rollout
    def __init__(self, rollout: _Optional[_Union[Rollout, _Mapping]] = ...) -> None: ...

class ListRolloutsRequest(_message.Message):
    __slots__ = ("model", "page_size", "page_token")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    model: str
    page_size: int
    page_token: str
    def __init__(self, model: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListRolloutsResponse(_message.Message):
    __slots__ = ("rollouts", "next_page_token")
    ROLLOUTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    rollouts: _containers.RepeatedCompositeFieldContainer[Rollout]
    next_page_token: str
    def __init__(self, rollouts: _Optional[_Iterable[_Union[Rollout, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListVerdictsRequest(_message.Message):
    __slots__ = ("rollout_id", "page_size", "page_token")
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    page_size: int
    page_token: str
    def __init__(self, rollout_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListVerdictsResponse(_message.Message):
    __slots__ = ("verdicts", "next_page_token")
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    verdicts: _containers.RepeatedCompositeFieldContainer[Verdict]
    next_page_token: str
    def __init__(self, verdicts: _Optional[_Iterable[_Union[Verdict, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Tenant(_message.Message):
    __slots__ = ("tenant", "units_per_second", "burst_units", "weight", "max_priority", "models", "disabled", "source")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    UNITS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    BURST_UNITS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    MAX_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    DISABLED_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    units_per_second: float
    burst_units: float
    weight: float
    max_priority: _types_pb2.Priority
    models: _containers.RepeatedScalarFieldContainer[str]
    disabled: bool
    source: TenantSource
    def __init__(self, tenant: _Optional[str] = ..., units_per_second: _Optional[float] = ..., burst_units: _Optional[float] = ..., weight: _Optional[float] = ..., max_priority: _Optional[_Union[_types_pb2.Priority, str]] = ..., models: _Optional[_Iterable[str]] = ..., disabled: _Optional[bool] = ..., source: _Optional[_Union[TenantSource, str]] = ...) -> None: ...

class ApiKey(_message.Message):
    __slots__ = ("key_id", "tenant", "role", "created_at", "expires_at", "description", "revoked_at")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    REVOKED_AT_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    tenant: str
    role: Role
    created_at: _timestamp_pb2.Timestamp
    expires_at: _timestamp_pb2.Timestamp
    description: str
    revoked_at: _timestamp_pb2.Timestamp
    def __init__(self, key_id: _Optional[str] = ..., tenant: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., description: _Optional[str] = ..., revoked_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CreateTenantRequest(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: Tenant
    def __init__(self, tenant: _Optional[_Union[Tenant, _Mapping]] = ...) -> None: ...

class CreateTenantResponse(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: Tenant
    def __init__(self, tenant: _Optional[_Union[Tenant, _Mapping]] = ...) -> None: ...

class UpdateTenantRequest(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: Tenant
    def __init__(self, tenant: _Optional[_Union[Tenant, _Mapping]] = ...) -> None: ...

class UpdateTenantResponse(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: Tenant
    def __init__(self, tenant: _Optional[_Union[Tenant, _Mapping]] = ...) -> None: ...

class ListTenantsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListTenantsResponse(_message.Message):
    __slots__ = ("tenants", "next_page_token")
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tenants: _containers.RepeatedCompositeFieldContainer[Tenant]
    next_page_token: str
    def __init__(self, tenants: _Optional[_Iterable[_Union[Tenant, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteTenantRequest(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    def __init__(self, tenant: _Optional[str] = ...) -> None: ...

class DeleteTenantResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CreateApiKeyRequest(_message.Message):
    __slots__ = ("tenant", "role", "valid_for", "description")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    role: Role
    valid_for: _duration_pb2.Duration
    description: str
    def __init__(self, tenant: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., valid_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., description: _Optional[str] = ...) -> None: ...

class CreateApiKeyResponse(_message.Message):
    __slots__ = ("secret", "key")
    SECRET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    secret: str
    key: ApiKey
    def __init__(self, secret: _Optional[str] = ..., key: _Optional[_Union[ApiKey, _Mapping]] = ...) -> None: ...

class RevokeApiKeyRequest(_message.Message):
    __slots__ = ("key_id",)
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    def __init__(self, key_id: _Optional[str] = ...) -> None: ...

class RevokeApiKeyResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RotateApiKeyRequest(_message.Message):
    __slots__ = ("key_id", "overlap")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    overlap: _duration_pb2.Duration
    def __init__(self, key_id: _Optional[str] = ..., overlap: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RotateApiKeyResponse(_message.Message):
    __slots__ = ("secret", "key", "old_key")
    SECRET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    OLD_KEY_FIELD_NUMBER: _ClassVar[int]
    secret: str
    key: ApiKey
    old_key: ApiKey
    def __init__(self, secret: _Optional[str] = ..., key: _Optional[_Union[ApiKey, _Mapping]] = ..., old_key: _Optional[_Union[ApiKey, _Mapping]] = ...) -> None: ...

class ListApiKeysRequest(_message.Message):
    __slots__ = ("tenant", "page_size", "page_token")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    page_size: int
    page_token: str
    def __init__(self, tenant: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListApiKeysResponse(_message.Message):
    __slots__ = ("keys", "next_page_token")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[ApiKey]
    next_page_token: str
    def __init__(self, keys: _Optional[_Iterable[_Union[ApiKey, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ReloadConfigRequest(_message.Message):
    __slots__ = ("dry_run",)
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    dry_run: bool
    def __init__(self, dry_run: _Optional[bool] = ...) -> None: ...

class ReloadConfigResponse(_message.Message):
    __slots__ = ("generation", "changes", "needs_restart")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    NEEDS_RESTART_FIELD_NUMBER: _ClassVar[int]
    generation: int
    changes: _containers.RepeatedScalarFieldContainer[str]
    needs_restart: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, generation: _Optional[int] = ..., changes: _Optional[_Iterable[str]] = ..., needs_restart: _Optional[_Iterable[str]] = ...) -> None: ...

class ListAuditEntriesRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "target")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    target: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., target: _Optional[str] = ...) -> None: ...

class ListAuditEntriesResponse(_message.Message):
    __slots__ = ("entries", "next_page_token")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[AuditEntry]
    next_page_token: str
    def __init__(self, entries: _Optional[_Iterable[_Union[AuditEntry, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class AuditEntry(_message.Message):
    __slots__ = ("revision", "changed_at", "tenant", "key_id", "gateway_id", "action", "kind", "target", "before", "after")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_AT_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    revision: int
    changed_at: _timestamp_pb2.Timestamp
    tenant: str
    key_id: str
    gateway_id: str
    action: str
    kind: str
    target: str
    before: _struct_pb2.Struct
    after: _struct_pb2.Struct
    def __init__(self, revision: _Optional[int] = ..., changed_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tenant: _Optional[str] = ..., key_id: _Optional[str] = ..., gateway_id: _Optional[str] = ..., action: _Optional[str] = ..., kind: _Optional[str] = ..., target: _Optional[str] = ..., before: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., after: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class ExplainRequestRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class ExplainRequestResponse(_message.Message):
    __slots__ = ("record", "sentences")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    SENTENCES_FIELD_NUMBER: _ClassVar[int]
    record: DecisionRecord
    sentences: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, record: _Optional[_Union[DecisionRecord, _Mapping]] = ..., sentences: _Optional[_Iterable[str]] = ...) -> None: ...

class DecisionRecord(_message.Message):
    __slots__ = ("request_id", "tenant", "model", "version", "version_reason", "arrived_at", "deadline", "units", "rows", "queued_ahead", "attempts", "outcome", "timings", "message", "key_id", "priority", "lane", "weight", "split_point", "shares", "queued_units_ahead", "executing_ahead", "drain", "inflight_requests", "retry_after", "admission")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    VERSION_REASON_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_AT_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_AHEAD_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    SPLIT_POINT_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    QUEUED_UNITS_AHEAD_FIELD_NUMBER: _ClassVar[int]
    EXECUTING_AHEAD_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    INFLIGHT_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    ADMISSION_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    tenant: str
    model: str
    version: str
    version_reason: str
    arrived_at: _timestamp_pb2.Timestamp
    deadline: _duration_pb2.Duration
    units: int
    rows: int
    queued_ahead: int
    attempts: _containers.RepeatedCompositeFieldContainer[AttemptRecord]
    outcome: str
    timings: _inference_pb2.Timings
    message: str
    key_id: str
    priority: _types_pb2.Priority
    lane: _types_pb2.Lane
    weight: float
    split_point: float
    shares: _containers.RepeatedCompositeFieldContainer[VersionShare]
    queued_units_ahead: int
    executing_ahead: int
    drain: _duration_pb2.Duration
    inflight_requests: int
    retry_after: _duration_pb2.Duration
    admission: AdmissionRecord
    def __init__(self, request_id: _Optional[str] = ..., tenant: _Optional[str] = ..., model: _Optional[str] = ..., version: _Optional[str] = ..., version_reason: _Optional[str] = ..., arrived_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., units: _Optional[int] = ..., rows: _Optional[int] = ..., queued_ahead: _Optional[int] = ..., attempts: _Optional[_Iterable[_Union[AttemptRecord, _Mapping]]] = ..., outcome: _Optional[str] = ..., timings: _Optional[_Union[_inference_pb2.Timings, _Mapping]] = ..., message: _Optional[str] = ..., key_id: _Optional[str] = ..., priority: _Optional[_Union[_types_pb2.Priority, str]] = ..., lane: _Optional[_Union[_types_pb2.Lane, str]] = ..., weight: _Optional[float] = ..., split_point: _Optional[float] = ..., shares: _Optional[_Iterable[_Union[VersionShare, _Mapping]]] = ..., queued_units_ahead: _Optional[int] = ..., executing_ahead: _Optional[int] = ..., drain: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., inflight_requests: _Optional[int] = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., admission: _Optional[_Union[AdmissionRecord, _Mapping]] = ...) -> None: ...

class AdmissionRecord(_message.Message):
    __slots__ = ("limit", "inflight", "reserved", "tenant_units", "tenant_queued", "share_ratio", "weight_part", "offered_per_second", "earned_per_second", "chance", "wanted_chance")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    INFLIGHT_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    TENANT_UNITS_FIELD_NUMBER: _ClassVar[int]
    TENANT_QUEUED_FIELD_NUMBER: _ClassVar[int]
    SHARE_RATIO_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_PART_FIELD_NUMBER: _ClassVar[int]
    OFFERED_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    EARNED_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    CHANCE_FIELD_NUMBER: _ClassVar[int]
    WANTED_CHANCE_FIELD_NUMBER: _ClassVar[int]
    limit: int
    inflight: int
    reserved: int
    tenant_units: float
    tenant_queued: int
    share_ratio: float
    weight_part: float
    offered_per_second: float
    earned_per_second: float
    chance: float
    wanted_chance: float
    def __init__(self, limit: _Optional[int] = ..., inflight: _Optional[int] = ..., reserved: _Optional[int] = ..., tenant_units: _Optional[float] = ..., tenant_queued: _Optional[int] = ..., share_ratio: _Optional[float] = ..., weight_part: _Optional[float] = ..., offered_per_second: _Optional[float] = ..., earned_per_second: _Optional[float] = ..., chance: _Optional[float] = ..., wanted_chance: _Optional[float] = ...) -> None: ...

class AttemptRecord(_message.Message):
    __slots__ = ("replica", "batch", "device", "outcome", "queued", "slack", "execution", "message", "companion_ids", "score", "other_replica", "other_score", "hedge", "pipelined")
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    SLACK_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    COMPANION_IDS_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    OTHER_REPLICA_FIELD_NUMBER: _ClassVar[int]
    OTHER_SCORE_FIELD_NUMBER: _ClassVar[int]
    HEDGE_FIELD_NUMBER: _ClassVar[int]
    PIPELINED_FIELD_NUMBER: _ClassVar[int]
    replica: str
    batch: _inference_pb2.BatchInfo
    device: _duration_pb2.Duration
    outcome: str
    queued: _duration_pb2.Duration
    slack: _duration_pb2.Duration
    execution: _duration_pb2.Duration
    message: str
    companion_ids: _containers.RepeatedScalarFieldContainer[str]
    score: _duration_pb2.Duration
    other_replica: str
    other_score: _duration_pb2.Duration
    hedge: bool
    pipelined: bool
    def __init__(self, replica: _Optional[str] = ..., batch: _Optional[_Union[_inference_pb2.BatchInfo, _Mapping]] = ..., device: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., outcome: _Optional[str] = ..., queued: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., slack: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., execution: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., message: _Optional[str] = ..., companion_ids: _Optional[_Iterable[str]] = ..., score: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., other_replica: _Optional[str] = ..., other_score: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., hedge: _Optional[bool] = ..., pipelined: _Optional[bool] = ...) -> None: ...

class SetLogLevelRequest(_message.Message):
    __slots__ = ("level", "logger")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    LOGGER_FIELD_NUMBER: _ClassVar[int]
    level: str
    logger: str
    def __init__(self, level: _Optional[str] = ..., logger: _Optional[str] = ...) -> None: ...

class SetLogLevelResponse(_message.Message):
    __slots__ = ("previous_level",)
    PREVIOUS_LEVEL_FIELD_NUMBER: _ClassVar[int]
    previous_level: str
    def __init__(self, previous_level: _Optional[str] = ...) -> None: ...
