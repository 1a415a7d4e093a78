import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.rpc import status_pb2 as _status_pb2
from headway.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BatchReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BATCH_REASON_UNSPECIFIED: _ClassVar[BatchReason]
    BATCH_REASON_QUEUE_EMPTIED: _ClassVar[BatchReason]
    BATCH_REASON_MAX_REQUESTS: _ClassVar[BatchReason]
    BATCH_REASON_MAX_ROWS: _ClassVar[BatchReason]
    BATCH_REASON_MAX_UNITS: _ClassVar[BatchReason]
    BATCH_REASON_DEADLINE: _ClassVar[BatchReason]
    BATCH_REASON_QUANTUM: _ClassVar[BatchReason]
    BATCH_REASON_OVERSIZED: _ClassVar[BatchReason]
BATCH_REASON_UNSPECIFIED: BatchReason
BATCH_REASON_QUEUE_EMPTIED: BatchReason
BATCH_REASON_MAX_REQUESTS: BatchReason
BATCH_REASON_MAX_ROWS: BatchReason
BATCH_REASON_MAX_UNITS: BatchReason
BATCH_REASON_DEADLINE: BatchReason
BATCH_REASON_QUANTUM: BatchReason
BATCH_REASON_OVERSIZED: BatchReason

class InferRequest(_message.Message):
    __slots__ = ("model", "version", "input", "session_key", "priority", "lane", "weight", "slo", "max_output_units", "sampling", "idempotency_key", "request_id", "targets")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    SESSION_KEY_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    SLO_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_UNITS_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: str
    input: _types_pb2.Input
    session_key: str
    priority: _types_pb2.Priority
    lane: _types_pb2.Lane
    weight: float
    slo: _duration_pb2.Duration
    max_output_units: int
    sampling: _types_pb2.SamplingParameters
    idempotency_key: str
    request_id: str
    targets: _types_pb2.StreamTargets
    def __init__(self, model: _Optional[str] = ..., version: _Optional[str] = ..., input: _Optional[_Union[_types_pb2.Input, _Mapping]] = ..., session_key: _Optional[str] = ..., priority: _Optional[_Union[_types_pb2.Priority, str]] = ..., lane: _Optional[_Union[_types_pb2.Lane, str]] = ..., weight: _Optional[float] = ..., slo: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_output_units: _Optional[int] = ..., sampling: _Optional[_Union[_types_pb2.SamplingParameters, _Mapping]] = ..., idempotency_key: _Optional[str] = ..., request_id: _Optional[str] = ..., targets: _Optional[_Union[_types_pb2.StreamTargets, _Mapping]] = ...) -> None: ...

class InferResponse(_message.Message):
    __slots__ = ("request_id", "model", "version", "replica", "hedged", "attempts", "output", "usage", "timings", "batch")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    HEDGED_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    model: str
    version: str
    replica: str
    hedged: bool
    attempts: int
    output: _types_pb2.Output
    usage: _types_pb2.Usage
    timings: Timings
    batch: BatchInfo
    def __init__(self, request_id: _Optional[str] = ..., model: _Optional[str] = ..., version: _Optional[str] = ..., replica: _Optional[str] = ..., hedged: _Optional[bool] = ..., attempts: _Optional[int] = ..., output: _Optional[_Union[_types_pb2.Output, _Mapping]] = ..., usage: _Optional[_Union[_types_pb2.Usage, _Mapping]] = ..., timings: _Optional[_Union[Timings, _Mapping]] = ..., batch: _Optional[_Union[BatchInfo, _Mapping]] = ...) -> None: ...

class Timings(_message.Message):
    __slots__ = ("queued", "device", "execution", "total", "slack_at_dispatch")
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    SLACK_AT_DISPATCH_FIELD_NUMBER: _ClassVar[int]
    queued: _duration_pb2.Duration
    device: _duration_pb2.Duration
    execution: _duration_pb2.Duration
    total: _duration_pb2.Duration
    slack_at_dispatch: _duration_pb2.Duration
    def __init__(self, queued: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., device: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., execution: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., total: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., slack_at_dispatch: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class BatchInfo(_message.Message):
    __slots__ = ("id", "size", "rows", "units", "reason", "predicted_device")
    ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_DEVICE_FIELD_NUMBER: _ClassVar[int]
    id: int
    size: int
    rows: int
    units: int
    reason: BatchReason
    predicted_device: _duration_pb2.Duration
    def __init__(self, id: _Optional[int] = ..., size: _Optional[int] = ..., rows: _Optional[int] = ..., units: _Optional[int] = ..., reason: _Optional[_Union[BatchReason, str]] = ..., predicted_device: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class InferStreamRequest(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: InferRequest
    def __init__(self, request: _Optional[_Union[InferRequest, _Mapping]] = ...) -> None: ...

class InferStreamResponse(_message.Message):
    __slots__ = ("delta", "final")
    DELTA_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    delta: OutputDelta
    final: InferResponse
    def __init__(self, delta: _Optional[_Union[OutputDelta, _Mapping]] = ..., final: _Optional[_Union[InferResponse, _Mapping]] = ...) -> None: ...

class OutputDelta(_message.Message):
    __slots__ = ("index", "text", "token_ids", "logprobs")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    index: int
    text: str
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, index: _Optional[int] = ..., text: _Optional[str] = ..., token_ids: _Optional[_Iterable[int]] = ..., logprobs: _Optional[_Iterable[float]] = ...) -> None: ...

class InferManyRequest(_message.Message):
    __slots__ = ("id", "request", "cancel", "timeout")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    id: int
    request: InferRequest
    cancel: bool
    timeout: _duration_pb2.Duration
    def __init__(self, id: _Optional[int] = ..., request: _Optional[_Union[InferRequest, _Mapping]] = ..., cancel: _Optional[bool] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class InferManyResponse(_message.Message):
    __slots__ = ("id", "response", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: int
    response: InferResponse
    error: _status_pb2.Status
    def __init__(self, id: _Optional[int] = ..., response: _Optional[_Union[InferResponse, _Mapping]] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[ServedModel]
    def __init__(self, models: _Optional[_Iterable[_Union[ServedModel, _Mapping]]] = ...) -> None: ...

class ServedModel(_message.Message):
    __slots__ = ("model", "is_default", "versions")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    IS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    model: str
    is_default: bool
    versions: _containers.RepeatedCompositeFieldContainer[ServedVersion]
    def __init__(self, model: _Optional[str] = ..., is_default: _Optional[bool] = ..., versions: _Optional[_Iterable[_Union[ServedVersion, _Mapping]]] = ...) -> None: ...

class ServedVersion(_message.Message):
    __slots__ = ("version", "ready", "traffic_share", "ready_replicas", "card")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_SHARE_FIELD_NUMBER: _ClassVar[int]
    READY_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    version: str
    ready: bool
    traffic_share: float
    ready_replicas: int
    card: _types_pb2.ModelCard
    def __init__(self, version: _Optional[str] = ..., ready: _Optional[bool] = ..., traffic_share: _Optional[float] = ..., ready_replicas: _Optional[int] = ..., card: _Optional[_Union[_types_pb2.ModelCard, _Mapping]] = ...) -> None: ...
