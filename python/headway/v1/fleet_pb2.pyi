import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from headway.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WorkerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WORKER_STATE_UNSPECIFIED: _ClassVar[WorkerState]
    WORKER_STATE_STARTING: _ClassVar[WorkerState]
    WORKER_STATE_READY: _ClassVar[WorkerState]
    WORKER_STATE_DRAINING: _ClassVar[WorkerState]
WORKER_STATE_UNSPECIFIED: WorkerState
WORKER_STATE_STARTING: WorkerState
WORKER_STATE_READY: WorkerState
WORKER_STATE_DRAINING: WorkerState

class RegisterRequest(_message.Message):
    __slots__ = ("worker_id", "instance_id", "address", "models", "max_outstanding_batches", "fleet_token", "labels", "software_version")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTSTANDING_BATCHES_FIELD_NUMBER: _ClassVar[int]
    FLEET_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_VERSION_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    instance_id: str
    address: str
    models: _containers.RepeatedCompositeFieldContainer[_types_pb2.ModelCard]
    max_outstanding_batches: int
    fleet_token: str
    labels: _containers.ScalarMap[str, str]
    software_version: str
    def __init__(self, worker_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., address: _Optional[str] = ..., models: _Optional[_Iterable[_Union[_types_pb2.ModelCard, _Mapping]]] = ..., max_outstanding_batches: _Optional[int] = ..., fleet_token: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., software_version: _Optional[str] = ...) -> None: ...

class RegisterResponse(_message.Message):
    __slots__ = ("lease_id", "lease_duration", "heartbeat_interval", "gateway_id")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    lease_duration: _duration_pb2.Duration
    heartbeat_interval: _duration_pb2.Duration
    gateway_id: str
    def __init__(self, lease_id: _Optional[str] = ..., lease_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., heartbeat_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., gateway_id: _Optional[str] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("lease_id", "state", "outstanding_batches", "outstanding_units", "models")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_BATCHES_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_UNITS_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    state: WorkerState
    outstanding_batches: int
    outstanding_units: int
    models: _containers.RepeatedCompositeFieldContainer[ModelStatus]
    def __init__(self, lease_id: _Optional[str] = ..., state: _Optional[_Union[WorkerState, str]] = ..., outstanding_batches: _Optional[int] = ..., outstanding_units: _Optional[int] = ..., models: _Optional[_Iterable[_Union[ModelStatus, _Mapping]]] = ...) -> None: ...

class ModelStatus(_message.Message):
    __slots__ = ("model", "version", "ready", "message")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: str
    ready: bool
    message: str
    def __init__(self, model: _Optional[str] = ..., version: _Optional[str] = ..., ready: _Optional[bool] = ..., message: _Optional[str] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("lease_known", "drain")
    LEASE_KNOWN_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    lease_known: bool
    drain: bool
    def __init__(self, lease_known: _Optional[bool] = ..., drain: _Optional[bool] = ...) -> None: ...

class DeregisterRequest(_message.Message):
    __slots__ = ("lease_id",)
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    def __init__(self, lease_id: _Optional[str] = ...) -> None: ...

class DeregisterResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
