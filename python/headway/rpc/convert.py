"""Wire values to domain values and back, once."""

import math
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from google.protobuf.duration_pb2 import Duration

from headway.errors import InvalidRequest
from headway.v1 import types_pb2

NS_PER_S = 1_000_000_000

_DTYPES: dict[int, npt.DTypeLike] = {
    types_pb2.DATA_TYPE_BOOL: np.dtype("?"),
    types_pb2.DATA_TYPE_INT8: np.dtype("i1"),
    types_pb2.DATA_TYPE_INT16: np.dtype("<i2"),
    types_pb2.DATA_TYPE_INT32: np.dtype("<i4"),
    types_pb2.DATA_TYPE_INT64: np.dtype("<i8"),
    types_pb2.DATA_TYPE_UINT8: np.dtype("u1"),
    types_pb2.DATA_TYPE_UINT16: np.dtype("<u2"),
    types_pb2.DATA_TYPE_UINT32: np.dtype("<u4"),
    types_pb2.DATA_TYPE_UINT64: np.dtype("<u8"),
    types_pb2.DATA_TYPE_FLOAT16: np.dtype("<f2"),
    types_pb2.DATA_TYPE_FLOAT32: np.dtype("<f4"),
    types_pb2.DATA_TYPE_FLOAT64: np.dtype("<f8"),
}
_CODES = {np.dtype(dtype): code for code, dtype in _DTYPES.items()}
_MAX_DIMENSIONS = 8


def item_size(dtype: int) -> int:
    """Bytes of one element of a `DataType`; 0 for an unknown one."""
    if dtype == types_pb2.DATA_TYPE_BFLOAT16:
        return 2
    known = _DTYPES.get(dtype)
    return 0 if known is None else np.dtype(known).itemsize


def check_tensor(tensor: types_pb2.Tensor, field: str) -> int:
    """Checks type, shape and length of a tensor; returns its number of elements.

    Raises:
      InvalidRequest: naming `field`, the value, and what is allowed.
    """
    size = item_size(tensor.dtype)
    if size == 0:
        raise InvalidRequest(
            f"{field}.dtype is {tensor.dtype}; use one of the DATA_TYPE_* values but UNSPECIFIED",
            field=f"{field}.dtype",
        )
    shape = list(tensor.shape)
    if not 1 <= len(shape) <= _MAX_DIMENSIONS or min(shape) < 1:
        raise InvalidRequest(
            f"{field}.shape is {shape}; give 1 to {_MAX_DIMENSIONS} extents, each at least 1",
            field=f"{field}.shape",
        )
    elements = math.prod(shape)
    if elements * size != len(tensor.data):
        raise InvalidRequest(
            f"{field}.data has {len(tensor.data)} bytes; shape {shape} of {size}-byte elements "
            f"needs {elements * size}",
            field=f"{field}.data",
        )
    return elements


def array_from_tensor(tensor: types_pb2.Tensor, field: str = "tensor") -> npt.NDArray[Any]:
    """A read-only array over the tensor's bytes, in its shape. No copy.

    Raises:
      InvalidRequest: the tensor is malformed, or of a type that numpy has not (bfloat16).
    """
    check_tensor(tensor, field)
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None:
        raise InvalidRequest(
            f"{field}.dtype is DATA_TYPE_BFLOAT16, which this model does not take; send "
            "DATA_TYPE_FLOAT32, or the type that its card lists in tensor_inputs",
            field=f"{field}.dtype",
        )
    return np.frombuffer(tensor.data, dtype=dtype).reshape(tuple(tensor.shape))


def tensor_from_array(name: str, array: npt.NDArray[Any]) -> types_pb2.Tensor:
    """A tensor with a copy of the array's elements, row-major and little-endian.

    Raises:
      ValueError: the array's type has no `DataType`.
    """
    little = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
    code = _CODES.get(little.dtype)
    if code is None:
        raise ValueError(f"array {name!r} is of type {array.dtype}, which a Tensor cannot hold")
    return types_pb2.Tensor(
        name=name,
        dtype=cast("types_pb2.DataType", code),
        shape=array.shape,
        data=np.ascontiguousarray(little).tobytes(),
    )


def duration_ns(duration: Duration) -> int:
    """Nanoseconds of a Duration."""
    return duration.seconds * NS_PER_S + duration.nanos


def duration_from_ns(ns: int) -> Duration:
    """A Duration of so many nanoseconds; both parts carry its sign, as the type asks."""
    duration = Duration()
    set_duration(duration, ns)
    return duration


def set_duration(duration: Duration, ns: int) -> None:
    """Makes a Duration so many nanoseconds; a field of a message that was not set is then."""
    if ns >= 0:
        duration.seconds, duration.nanos = divmod(ns, NS_PER_S)
    else:
        seconds, nanos = divmod(-ns, NS_PER_S)
        duration.seconds, duration.nanos = -seconds, -nanos


def deadline_ns(now_ns: int, remaining_s: float | None, longest_ns: int) -> int | None:
    """Instant at which `remaining_s` of a call's time is up; None for a call without a deadline.

    gRPC reports a missing deadline as None or as centuries; anything beyond `longest_ns` counts
    as missing.
    """
    if remaining_s is None or not math.isfinite(remaining_s):
        return None
    remaining_ns = int(remaining_s * 1e9)
    return None if remaining_ns > longest_ns else now_ns + remaining_ns
