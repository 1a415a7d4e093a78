"""Durations, deadlines and tensors on the wire."""

import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import InvalidRequest
from headway.rpc.convert import (
    array_from_tensor,
    deadline_ns,
    duration_from_ns,
    duration_ns,
    tensor_from_array,
)
from headway.v1 import types_pb2

DAY_NS = 86_400_000_000_000


@pytest.mark.parametrize(
    ("ns", "seconds", "nanos"),
    [
        (0, 0, 0),
        (1, 0, 1),
        (1_500_000_000, 1, 500_000_000),
        (-1, 0, -1),
        (-1_500_000_000, -1, -500_000_000),
    ],
)
def test_a_duration_has_one_sign(ns: int, seconds: int, nanos: int) -> None:
    assert duration_from_ns(ns) == Duration(seconds=seconds, nanos=nanos)


@given(st.integers(-(10**18), 10**18))
def test_durations_come_back(ns: int) -> None:
    assert duration_ns(duration_from_ns(ns)) == ns


@pytest.mark.parametrize(
    ("remaining_s", "expected"),
    [
        (None, None),
        (0.25, 250_000_100),
        (0.0, 100),
        (-1.0, -999_999_900),
        (9.2e9, None),
        (float("inf"), None),
        (float("nan"), None),
    ],
    ids=["none", "some", "now", "past", "centuries", "infinite", "nan"],
)
def test_a_deadline_is_an_instant_or_nothing(remaining_s: float | None, expected: int) -> None:
    assert deadline_ns(100, remaining_s, DAY_NS) == expected


@pytest.mark.parametrize("dtype", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4"])
def test_arrays_come_back(dtype: str) -> None:
    array = np.arange(12).reshape(3, 4).astype(dtype)
    back = array_from_tensor(tensor_from_array("x", array))
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_a_big_endian_transposed_array_is_sent_little_endian_row_major() -> None:
    array = np.array([[1, 2], [3, 4]], dtype=">i4").T
    tensor = tensor_from_array("x", array)
    assert tensor.data == b"\1\0\0\0\3\0\0\0\2\0\0\0\4\0\0\0"


def _tensor(**changes: object) -> types_pb2.Tensor:
    fields: dict[str, object] = {
        "dtype": types_pb2.DATA_TYPE_FLOAT32,
        "shape": [2, 2],
        "data": bytes(16),
    }
    return types_pb2.Tensor(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tensor", "field", "says"),
    [
        (_tensor(dtype=0), "t.dtype", "UNSPECIFIED"),
        (_tensor(dtype=99), "t.dtype", "99"),
        (_tensor(dtype=types_pb2.DATA_TYPE_BFLOAT16, data=bytes(8)), "t.dtype", "FLOAT32"),
        (_tensor(shape=[]), "t.shape", "1 to 8"),
        (_tensor(shape=[2] * 9), "t.shape", "1 to 8"),
        (_tensor(shape=[0, 4]), "t.shape", "at least 1"),
        (_tensor(shape=[-2, -2]), "t.shape", "at least 1"),
        (_tensor(data=bytes(15)), "t.data", "needs 16"),
        (_tensor(shape=[2**40, 2**40]), "t.data", "16 bytes"),
    ],
)
def test_a_malformed_tensor_is_named(tensor: types_pb2.Tensor, field: str, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says) as caught:
        array_from_tensor(tensor, "t")
    assert caught.value.field == field
