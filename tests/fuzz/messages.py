"""Messages of the right shape with wrong contents, drawn from their descriptors."""

import math
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), 2**31 - 1),
}
_TEXTS = st.one_of(
    st.sampled_from(["", "sim", "v1", "w1", "127.0.0.1:1", "0", "\x00", "a" * 300, "é" * 40]),
    st.text(max_size=20),
)
_ODD_FLOATS = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, 1e308, 5e-324])
_DEEPEST = 3


def messages(descriptor: Descriptor, depth: int = 0) -> st.SearchStrategy[Message]:
    """Messages of a type; each field is there or not, whatever makes sense."""
    kind = message_factory.GetMessageClass(descriptor)
    fields = {
        field.name: _repeated(field, depth) if field.is_repeated else _value(field, depth)
        for field in descriptor.fields
        if depth < _DEEPEST or field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE
    }
    chosen = st.fixed_dictionaries({}, optional=fields)

    def build(values: dict[str, Any]) -> Message:
        made = kind()
        for name, value in values.items():
            _set(made, name, value)
        return made

    return chosen.map(build)


def _set(made: Message, name: str, value: Any) -> None:
    field = made.DESCRIPTOR.fields_by_name[name]
    if field.is_repeated:
        if _is_map(field):
            return  # filled by their own entries where it matters
        getattr(made, name).extend(value)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        getattr(made, name).CopyFrom(value)
    else:
        setattr(made, name, value)


def _is_map(field: FieldDescriptor) -> bool:
    inner = field.message_type
    return inner is not None and inner.GetOptions().map_entry


def _repeated(field: FieldDescriptor, depth: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(_value(field, depth), max_size=3)


def _value(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_MESSAGE:
        return messages(field.message_type, depth + 1)
    if kind in _INTEGERS:
        low, high = _INTEGERS[kind]
        return st.one_of(st.integers(-1 if low else 0, 5), st.sampled_from([low, high]))
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return st.booleans()
    if kind == FieldDescriptor.CPPTYPE_FLOAT:
        return st.one_of(st.floats(width=32), st.sampled_from([math.nan, math.inf, -math.inf]))
    if kind == FieldDescriptor.CPPTYPE_DOUBLE:
        return st.one_of(_ODD_FLOATS, st.floats())
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=64)
    return _TEXTS
