from headway.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ItemStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ITEM_STATUS_UNSPECIFIED: _ClassVar[ItemStatus]
    ITEM_STATUS_OK: _ClassVar[ItemStatus]
    ITEM_STATUS_INVALID: _ClassVar[ItemStatus]
    ITEM_STATUS_FAILED: _ClassVar[ItemStatus]
    ITEM_STATUS_CANCELLED: _ClassVar[ItemStatus]
    ITEM_STATUS_EXPIRED: _ClassVar[ItemStatus]
ITEM_STATUS_UNSPECIFIED: ItemStatus
ITEM_STATUS_OK: ItemStatus
ITEM_STATUS_INVALID: ItemStatus
ITEM_STATUS_FAILED: ItemStatus
ITEM_STATUS_CANCELLED: ItemStatus
ITEM_STATUS_EXPIRED: ItemStatus

class SessionRequest(_message.Message):
    __slots__ = ("greeting", "execute", "cancel", "stream_credit")
    GREETING_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    STREAM_CREDIT_FIELD_NUMBER: _ClassVar[int]
    greeting: GatewayGreeting
    execute: ExecuteBatch
    cancel: CancelItems
    stream_credit: StreamCredit
    def __init__(self, greeting: _Optional[_Union[GatewayGreeting, _Mapping]] = ..., execute: _Optional[_Union[ExecuteBatch, _Mapping]] = ..., cancel: _Optional[_Union[CancelItems, _Mapping]] = ..., stream_credit: _Optional[_Union[StreamCredit, _Mapping]] = ...) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("greeting", "result", "busy", "parts", "capacity")
    GREETING_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    greeting: WorkerGreeting
    result: BatchResult
    busy: BatchBusy
    parts: StreamParts
    capacity: Capacity
    def __init__(self, greeting: _Optional[_Union[WorkerGreeting, _Mapping]] = ..., result: _Optional[_Union[BatchResult, _Mapping]] = ..., busy: _Optional[_Union[BatchBusy, _Mapping]] = ..., parts: _Optional[_Union[StreamParts, _Mapping]] = ..., capacity: _Optional[_Union[Capacity, _Mapping]] = ...) -> None: ...

class GatewayGreeting(_message.Message):
    __slots__ = ("gateway_id", "fleet_token")
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    FLEET_TOKEN_FIELD_NUMBER: _ClassVar[int]
    gateway_id: str
    fleet_token: str
    def __init__(self, gateway_id: _Optional[str] = ..., fleet_token: _Optional[str] = ...) -> None: ...

class WorkerGreeting(_message.Message):
    __slots__ = ("worker_id", "instance_id", "models", "capacity")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    instance_id: str
    models: _containers.RepeatedCompositeFieldContainer[HostedModel]
    capacity: Capacity
    def __init__(self, worker_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., models: _Optional[_Iterable[_Union[HostedModel, _Mapping]]] = ..., capacity: _Optional[_Union[Capacity, _Mapping]] = ...) -> None: ...

class HostedModel(_message.Message):
    __slots__ = ("handle", "card")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    handle: int
    card: _types_pb2.ModelCard
    def __init__(self, handle: _Optional[int] = ..., card: _Optional[_Union[_types_pb2.ModelCard, _Mapping]] = ...) -> None: ...

class ExecuteBatch(_message.Message):
    __slots__ = ("batch_id", "model_handle", "items", "predicted_device_ns", "pipelined")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_HANDLE_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_DEVICE_NS_FIELD_NUMBER: _ClassVar[int]
    PIPELINED_FIELD_NUMBER: _ClassVar[int]
    batch_id: int
    model_handle: int
    items: _containers.RepeatedCompositeFieldContainer[BatchItem]
    predicted_device_ns: int
    pipelined: bool
    def __init__(self, batch_id: _Optional[int] = ..., model_handle: _Optional[int] = ..., items: _Optional[_Iterable[_Union[BatchItem, _Mapping]]] = ..., predicted_device_ns: _Optional[int] = ..., pipelined: _Optional[bool] = ...) -> None: ...

class BatchItem(_message.Message):
    __slots__ = ("item_id", "remaining_ns", "input", "max_output_units", "sampling", "traceparent", "request_id", "targets")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    REMAINING_NS_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_UNITS_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    item_id: int
    remaining_ns: int
    input: _types_pb2.Input
    max_output_units: int
    sampling: _types_pb2.SamplingParameters
    traceparent: str
    request_id: str
    targets: ItemTargets
    def __init__(self, item_id: _Optional[int] = ..., remaining_ns: _Optional[int] = ..., input: _Optional[_Union[_types_pb2.Input, _Mapping]] = ..., max_output_units: _Optional[int] = ..., sampling: _Optional[_Union[_types_pb2.SamplingParameters, _Mapping]] = ..., traceparent: _Optional[str] = ..., request_id: _Optional[str] = ..., targets: _Optional[_Union[ItemTargets, _Mapping]] = ...) -> None: ...

class ItemTargets(_message.Message):
    __slots__ = ("first_token_remaining_ns", "gap_ns", "completion_remaining_ns")
    FIRST_TOKEN_REMAINING_NS_FIELD_NUMBER: _ClassVar[int]
    GAP_NS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_REMAINING_NS_FIELD_NUMBER: _ClassVar[int]
    first_token_remaining_ns: int
    gap_ns: int
    completion_remaining_ns: int
    def __init__(self, first_token_remaining_ns: _Optional[int] = ..., gap_ns: _Optional[int] = ..., completion_remaining_ns: _Optional[int] = ...) -> None: ...

class CancelItems(_message.Message):
    __slots__ = ("batch_id", "item_ids")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    ITEM_IDS_FIELD_NUMBER: _ClassVar[int]
    batch_id: int
    item_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, batch_id: _Optional[int] = ..., item_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class StreamCredit(_message.Message):
    __slots__ = ("item_id", "parts")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    item_id: int
    parts: int
    def __init__(self, item_id: _Optional[int] = ..., parts: _Optional[int] = ...) -> None: ...

class BatchResult(_message.Message):
    __slots__ = ("batch_id", "items", "device_ns", "wall_ns", "units", "idle_ns")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_NS_FIELD_NUMBER: _ClassVar[int]
    WALL_NS_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    IDLE_NS_FIELD_NUMBER: _ClassVar[int]
    batch_id: int
    items: _containers.RepeatedCompositeFieldContainer[ItemResult]
    device_ns: int
    wall_ns: int
    units: int
    idle_ns: int
    def __init__(self, batch_id: _Optional[int] = ..., items: _Optional[_Iterable[_Union[ItemResult, _Mapping]]] = ..., device_ns: _Optional[int] = ..., wall_ns: _Optional[int] = ..., units: _Optional[int] = ..., idle_ns: _Optional[int] = ...) -> None: ...

class ItemResult(_message.Message):
    __slots__ = ("item_id", "status", "message", "output", "usage")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    item_id: int
    status: ItemStatus
    message: str
    output: _types_pb2.Output
    usage: _types_pb2.Usage
    def __init__(self, item_id: _Optional[int] = ..., status: _Optional[_Union[ItemStatus, str]] = ..., message: _Optional[str] = ..., output: _Optional[_Union[_types_pb2.Output, _Mapping]] = ..., usage: _Optional[_Union[_types_pb2.Usage, _Mapping]] = ...) -> None: ...

class BatchBusy(_message.Message):
    __slots__ = ("batch_id", "retry_after_ns", "draining")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_NS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    batch_id: int
    retry_after_ns: int
    draining: bool
    def __init__(self, batch_id: _Optional[int] = ..., retry_after_ns: _Optional[int] = ..., draining: _Optional[bool] = ...) -> None: ...

class StreamParts(_message.Message):
    __slots__ = ("parts",)
    PARTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[StreamPart]
    def __init__(self, parts: _Optional[_Iterable[_Union[StreamPart, _Mapping]]] = ...) -> None: ...

class StreamPart(_message.Message):
    __slots__ = ("item_id", "text", "token_ids", "logprobs")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    item_id: int
    text: str
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, item_id: _Optional[int] = ..., text: _Optional[str] = ..., token_ids: _Optional[_Iterable[int]] = ..., logprobs: _Optional[_Iterable[float]] = ...) -> None: ...

class Capacity(_message.Message):
    __slots__ = ("free_slots", "free_lanes", "free_kv_units", "first_token_wait_ns", "draining", "models", "free_in_ns")
    FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    FREE_LANES_FIELD_NUMBER: _ClassVar[int]
    FREE_KV_UNITS_FIELD_NUMBER: _ClassVar[int]
    FIRST_TOKEN_WAIT_NS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    FREE_IN_NS_FIELD_NUMBER: _ClassVar[int]
    free_slots: int
    free_lanes: int
    free_kv_units: int
    first_token_wait_ns: int
    draining: bool
    models: _containers.RepeatedCompositeFieldContainer[ModelCapacity]
    free_in_ns: int
    def __init__(self, free_slots: _Optional[int] = ..., free_lanes: _Optional[int] = ..., free_kv_units: _Optional[int] = ..., first_token_wait_ns: _Optional[int] = ..., draining: _Optional[bool] = ..., models: _Optional[_Iterable[_Union[ModelCapacity, _Mapping]]] = ..., free_in_ns: _Optional[int] = ...) -> None: ...

class ModelCapacity(_message.Message):
    __slots__ = ("handle", "free_lanes", "free_kv_units", "first_token_wait_ns", "total_lanes", "total_kv_units")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    FREE_LANES_FIELD_NUMBER: _ClassVar[int]
    FREE_KV_UNITS_FIELD_NUMBER: _ClassVar[int]
    FIRST_TOKEN_WAIT_NS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_LANES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_KV_UNITS_FIELD_NUMBER: _ClassVar[int]
    handle: int
    free_lanes: int
    free_kv_units: int
    first_token_wait_ns: int
    total_lanes: int
    total_kv_units: int
    def __init__(self, handle: _Optional[int] = ..., free_lanes: _Optional[int] = ..., free_kv_units: _Optional[int] = ..., first_token_wait_ns: _Optional[int] = ..., total_lanes: _Optional[int] = ..., total_kv_units: _Optional[int] = ...) -> None: ...
