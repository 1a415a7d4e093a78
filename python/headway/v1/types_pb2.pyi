import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DataType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DATA_TYPE_UNSPECIFIED: _ClassVar[DataType]
    DATA_TYPE_BOOL: _ClassVar[DataType]
    DATA_TYPE_INT8: _ClassVar[DataType]
    DATA_TYPE_INT16: _ClassVar[DataType]
    DATA_TYPE_INT32: _ClassVar[DataType]
    DATA_TYPE_INT64: _ClassVar[DataType]
    DATA_TYPE_UINT8: _ClassVar[DataType]
    DATA_TYPE_UINT16: _ClassVar[DataType]
    DATA_TYPE_UINT32: _ClassVar[DataType]
    DATA_TYPE_UINT64: _ClassVar[DataType]
    DATA_TYPE_FLOAT16: _ClassVar[DataType]
    DATA_TYPE_BFLOAT16: _ClassVar[DataType]
    DATA_TYPE_FLOAT32: _ClassVar[DataType]
    DATA_TYPE_FLOAT64: _ClassVar[DataType]

class InputKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INPUT_KIND_UNSPECIFIED: _ClassVar[InputKind]
    INPUT_KIND_TEXT: _ClassVar[InputKind]
    INPUT_KIND_TEXTS: _ClassVar[InputKind]
    INPUT_KIND_TOKEN_IDS: _ClassVar[InputKind]
    INPUT_KIND_RAW: _ClassVar[InputKind]
    INPUT_KIND_TENSORS: _ClassVar[InputKind]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_STOP: _ClassVar[FinishReason]
    FINISH_REASON_LENGTH: _ClassVar[FinishReason]
    FINISH_REASON_CANCELLED: _ClassVar[FinishReason]

class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIORITY_UNSPECIFIED: _ClassVar[Priority]
    PRIORITY_CRITICAL: _ClassVar[Priority]
    PRIORITY_STANDARD: _ClassVar[Priority]
    PRIORITY_SHEDDABLE: _ClassVar[Priority]

class Lane(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LANE_UNSPECIFIED: _ClassVar[Lane]
    LANE_INTERACTIVE: _ClassVar[Lane]
    LANE_BULK: _ClassVar[Lane]
DATA_TYPE_UNSPECIFIED: DataType
DATA_TYPE_BOOL: DataType
DATA_TYPE_INT8: DataType
DATA_TYPE_INT16: DataType
DATA_TYPE_INT32: DataType
DATA_TYPE_INT64: DataType
DATA_TYPE_UINT8: DataType
DATA_TYPE_UINT16: DataType
DATA_TYPE_UINT32: DataType
DATA_TYPE_UINT64: DataType
DATA_TYPE_FLOAT16: DataType
DATA_TYPE_BFLOAT16: DataType
DATA_TYPE_FLOAT32: DataType
DATA_TYPE_FLOAT64: DataType
INPUT_KIND_UNSPECIFIED: InputKind
INPUT_KIND_TEXT: InputKind
INPUT_KIND_TEXTS: InputKind
INPUT_KIND_TOKEN_IDS: InputKind
INPUT_KIND_RAW: InputKind
INPUT_KIND_TENSORS: InputKind
FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_STOP: FinishReason
FINISH_REASON_LENGTH: FinishReason
FINISH_REASON_CANCELLED: FinishReason
PRIORITY_UNSPECIFIED: Priority
PRIORITY_CRITICAL: Priority
PRIORITY_STANDARD: Priority
PRIORITY_SHEDDABLE: Priority
LANE_UNSPECIFIED: Lane
LANE_INTERACTIVE: Lane
LANE_BULK: Lane

class Tensor(_message.Message):
    __slots__ = ("name", "dtype", "shape", "data")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: DataType
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[_Union[DataType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ...) -> None: ...

class TokenIds(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class TextList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, values: _Optional[_Iterable[str]] = ...) -> None: ...

class TensorList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[Tensor]
    def __init__(self, values: _Optional[_Iterable[_Union[Tensor, _Mapping]]] = ...) -> None: ...

class Input(_message.Message):
    __slots__ = ("text", "texts", "token_ids", "raw", "tensors")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    text: str
    texts: TextList
    token_ids: TokenIds
    raw: bytes
    tensors: TensorList
    def __init__(self, text: _Optional[str] = ..., texts: _Optional[_Union[TextList, _Mapping]] = ..., token_ids: _Optional[_Union[TokenIds, _Mapping]] = ..., raw: _Optional[bytes] = ..., tensors: _Optional[_Union[TensorList, _Mapping]] = ...) -> None: ...

class Output(_message.Message):
    __slots__ = ("tensors", "text", "token_ids", "finish_reason")
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    tensors: _containers.RepeatedCompositeFieldContainer[Tensor]
    text: str
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    finish_reason: FinishReason
    def __init__(self, tensors: _Optional[_Iterable[_Union[Tensor, _Mapping]]] = ..., text: _Optional[str] = ..., token_ids: _Optional[_Iterable[int]] = ..., finish_reason: _Optional[_Union[FinishReason, str]] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("prompt_units", "output_units", "rows", "truncated_rows")
    PROMPT_UNITS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_UNITS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_ROWS_FIELD_NUMBER: _ClassVar[int]
    prompt_units: int
    output_units: int
    rows: int
    truncated_rows: int
    def __init__(self, prompt_units: _Optional[int] = ..., output_units: _Optional[int] = ..., rows: _Optional[int] = ..., truncated_rows: _Optional[int] = ...) -> None: ...

class SamplingParameters(_message.Message):
    __slots__ = ("temperature", "top_p", "top_k", "seed", "stop", "logprobs")
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    temperature: float
    top_p: float
    top_k: int
    seed: int
    stop: _containers.RepeatedScalarFieldContainer[str]
    logprobs: int
    def __init__(self, temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., top_k: _Optional[int] = ..., seed: _Optional[int] = ..., stop: _Optional[_Iterable[str]] = ..., logprobs: _Optional[int] = ...) -> None: ...

class StreamTargets(_message.Message):
    __slots__ = ("first_token", "gap", "completion")
    FIRST_TOKEN_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_FIELD_NUMBER: _ClassVar[int]
    first_token: _duration_pb2.Duration
    gap: _duration_pb2.Duration
    completion: _duration_pb2.Duration
    def __init__(self, first_token: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., gap: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., completion: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ModelCard(_message.Message):
    __slots__ = ("model", "version", "runtime", "input_kinds", "unit_estimate", "batch_limits", "default_deadline", "cost_prior", "generative", "accelerator", "tensor_inputs")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    INPUT_KINDS_FIELD_NUMBER: _ClassVar[int]
    UNIT_ESTIMATE_FIELD_NUMBER: _ClassVar[int]
    BATCH_LIMITS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    COST_PRIOR_FIELD_NUMBER: _ClassVar[int]
    GENERATIVE_FIELD_NUMBER: _ClassVar[int]
    ACCELERATOR_FIELD_NUMBER: _ClassVar[int]
    TENSOR_INPUTS_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: str
    runtime: str
    input_kinds: _containers.RepeatedScalarFieldContainer[InputKind]
    unit_estimate: UnitEstimate
    batch_limits: BatchLimits
    default_deadline: _duration_pb2.Duration
    cost_prior: CostPrior
    generative: bool
    accelerator: str
    tensor_inputs: _containers.RepeatedCompositeFieldContainer[TensorSpec]
    def __init__(self, model: _Optional[str] = ..., version: _Optional[str] = ..., runtime: _Optional[str] = ..., input_kinds: _Optional[_Iterable[_Union[InputKind, str]]] = ..., unit_estimate: _Optional[_Union[UnitEstimate, _Mapping]] = ..., batch_limits: _Optional[_Union[BatchLimits, _Mapping]] = ..., default_deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., cost_prior: _Optional[_Union[CostPrior, _Mapping]] = ..., generative: _Optional[bool] = ..., accelerator: _Optional[str] = ..., tensor_inputs: _Optional[_Iterable[_Union[TensorSpec, _Mapping]]] = ...) -> None: ...

class TensorSpec(_message.Message):
    __slots__ = ("name", "dtype", "shape")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: DataType
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[_Union[DataType, str]] = ..., shape: _Optional[_Iterable[int]] = ...) -> None: ...

class UnitEstimate(_message.Message):
    __slots__ = ("units_per_row", "units_per_byte", "units_per_element", "max_units_per_row", "refuse_longer")
    UNITS_PER_ROW_FIELD_NUMBER: _ClassVar[int]
    UNITS_PER_BYTE_FIELD_NUMBER: _ClassVar[int]
    UNITS_PER_ELEMENT_FIELD_NUMBER: _ClassVar[int]
    MAX_UNITS_PER_ROW_FIELD_NUMBER: _ClassVar[int]
    REFUSE_LONGER_FIELD_NUMBER: _ClassVar[int]
    units_per_row: float
    units_per_byte: float
    units_per_element: float
    max_units_per_row: int
    refuse_longer: bool
    def __init__(self, units_per_row: _Optional[float] = ..., units_per_byte: _Optional[float] = ..., units_per_element: _Optional[float] = ..., max_units_per_row: _Optional[int] = ..., refuse_longer: _Optional[bool] = ...) -> None: ...

class BatchLimits(_message.Message):
    __slots__ = ("max_requests", "max_rows", "max_units")
    MAX_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    MAX_ROWS_FIELD_NUMBER: _ClassVar[int]
    MAX_UNITS_FIELD_NUMBER: _ClassVar[int]
    max_requests: int
    max_rows: int
    max_units: int
    def __init__(self, max_requests: _Optional[int] = ..., max_rows: _Optional[int] = ..., max_units: _Optional[int] = ...) -> None: ...

class CostPrior(_message.Message):
    __slots__ = ("intercept", "slope_ns_per_unit")
    INTERCEPT_FIELD_NUMBER: _ClassVar[int]
    SLOPE_NS_PER_UNIT_FIELD_NUMBER: _ClassVar[int]
    intercept: _duration_pb2.Duration
    slope_ns_per_unit: float
    def __init__(self, intercept: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., slope_ns_per_unit: _Optional[float] = ...) -> None: ...
