"""What a request weighs, before a worker has counted it."""

import math
from collections.abc import Callable, Sequence

from headway.errors import InvalidRequest
from headway.rpc.convert import check_tensor
from headway.v1 import types_pb2

# Counted units over estimated ones move the correction by this share a batch: about 50 batches,
# the memory of the cost model.
_LEARNING_RATE = 0.02
_RATIO_BOUNDS = (0.1, 10.0)
# Most units that the core counts for one request.
_MOST_UNITS = 1 << 38

_KIND_OF_FIELD = {
    "text": types_pb2.INPUT_KIND_TEXT,
    "texts": types_pb2.INPUT_KIND_TEXTS,
    "token_ids": types_pb2.INPUT_KIND_TOKEN_IDS,
    "raw": types_pb2.INPUT_KIND_RAW,
    "tensors": types_pb2.INPUT_KIND_TENSORS,
}


class UnitEstimator:
    """Units and rows of an input: the declared rule, corrected by what workers counted.

    The gateway holds no tokenizer: it would have to load every model's files, and stay in step
    with every worker's. The declared rule (types.proto, UnitEstimate) costs a microsecond, and the
    learned ratio takes its bias away (docs/adr/0003).
    """

    def __init__(self, card: types_pb2.ModelCard) -> None:
        self._model = card.model
        rule = card.unit_estimate
        self._per_row = rule.units_per_row
        self._per_byte = rule.units_per_byte
        self._per_element = rule.units_per_element
        self._longest = rule.max_units_per_row
        self._refuse_longer = rule.refuse_longer
        self._kinds = frozenset(card.input_kinds)
        self.ratio = 1.0

    def estimate(self, value: types_pb2.Input) -> tuple[int, int]:
        """(units, rows) of an input, each >= 1. O(size of texts); no allocation for ASCII.

        Raises:
          InvalidRequest: no input, an empty one, or a kind the model does not take.
        """
        field = value.WhichOneof("kind")
        if field is None or (self._kinds and _KIND_OF_FIELD[field] not in self._kinds):
            raise self._wrong_kind(field)
        bytes_, elements, rows = _MEASURE[field](value)
        raw = self._per_row * rows + self._per_byte * bytes_ + self._per_element * elements
        if self._longest and raw > self._longest * rows:
            if self._refuse_longer:
                raise InvalidRequest(
                    f"the input is about {raw:.0f} units long; {self._model} takes at most "
                    f"{self._longest} a row",
                    field=f"input.{field}",
                )
            raw = self._longest * rows
        units = max(1, math.ceil(raw * self.ratio))
        if units > _MOST_UNITS:
            raise InvalidRequest(
                f"the input is about {units:.3g} work units by {self._model}'s unit_estimate; at "
                f"most {_MOST_UNITS:.3g} are taken",
                field=f"input.{field}",
            )
        return units, rows

    def observe(self, estimated: int, counted: int) -> None:
        """Learns from a batch: units as estimated (with the ratio) and as counted, both > 0."""
        low, high = _RATIO_BOUNDS
        target = min(high, max(low, self.ratio * counted / estimated))
        self.ratio += _LEARNING_RATE * (target - self.ratio)

    def _wrong_kind(self, field: str | None) -> InvalidRequest:
        takes = sorted(
            name for name, kind in _KIND_OF_FIELD.items() if not self._kinds or kind in self._kinds
        )
        given = f"input.{field} is set" if field else "no input is given"
        return InvalidRequest(
            f"{given}; {self._model} takes one of: {', '.join(takes)}",
            field=f"input.{field}" if field else "input",
        )


def _utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _text(value: types_pb2.Input) -> tuple[int, int, int]:
    text = value.text
    if not text or text.isspace():
        raise InvalidRequest("input.text is empty; send at least one word", field="input.text")
    return _utf8_length(text), 0, 1


def _texts(value: types_pb2.Input) -> tuple[int, int, int]:
    texts: Sequence[str] = value.texts.values
    if not texts:
        raise InvalidRequest("input.texts is empty; send at least one", field="input.texts.values")
    total = 0
    for index, text in enumerate(texts):
        if not text or text.isspace():
            field = f"input.texts.values[{index}]"
            raise InvalidRequest(f"{field} is empty; send at least one word", field=field)
        total += _utf8_length(text)
    return total, 0, len(texts)


def _token_ids(value: types_pb2.Input) -> tuple[int, int, int]:
    count = len(value.token_ids.ids)
    if count == 0:
        raise InvalidRequest(
            "input.token_ids.ids is empty; send at least one", field="input.token_ids.ids"
        )
    return 0, count, 1


def _raw(value: types_pb2.Input) -> tuple[int, int, int]:
    if not value.raw:
        raise InvalidRequest("input.raw is empty; send at least one byte", field="input.raw")
    return len(value.raw), 0, 1


def _tensors(value: types_pb2.Input) -> tuple[int, int, int]:
    tensors = value.tensors.values
    if not tensors:
        raise InvalidRequest(
            "input.tensors is empty; send at least one", field="input.tensors.values"
        )
    rows = largest = 0
    for index, tensor in enumerate(tensors):
        field = f"input.tensors.values[{index}]"
        largest = max(largest, check_tensor(tensor, field))
        rows = rows or tensor.shape[0]
        if tensor.shape[0] != rows:
            raise InvalidRequest(
                f"{field}.shape begins with {tensor.shape[0]}, the first tensor's with {rows}; "
                "all must have the same number of rows",
                field=f"{field}.shape",
            )
    return 0, largest, rows


_MEASURE: dict[str, Callable[[types_pb2.Input], tuple[int, int, int]]] = {
    "text": _text,
    "texts": _texts,
    "token_ids": _token_ids,
    "raw": _raw,
    "tensors": _tensors,
}
