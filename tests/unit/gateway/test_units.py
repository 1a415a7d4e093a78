"""What a request weighs."""

import pytest

from headway.admission.units import UnitEstimator
from headway.errors import InvalidRequest
from headway.v1 import types_pb2

CARD = types_pb2.ModelCard(
    model="minilm",
    version="v1",
    input_kinds=[
        types_pb2.INPUT_KIND_TEXT,
        types_pb2.INPUT_KIND_TEXTS,
        types_pb2.INPUT_KIND_TOKEN_IDS,
        types_pb2.INPUT_KIND_TENSORS,
    ],
    unit_estimate=types_pb2.UnitEstimate(
        units_per_row=2, units_per_byte=0.25, units_per_element=1, max_units_per_row=256
    ),
)


def tensors(*shapes: list[int]) -> types_pb2.Input:
    values = [
        types_pb2.Tensor(dtype=types_pb2.DATA_TYPE_INT8, shape=shape, data=bytes(size(shape)))
        for shape in shapes
    ]
    return types_pb2.Input(tensors=types_pb2.TensorList(values=values))


def size(shape: list[int]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


@pytest.mark.parametrize(
    ("value", "units", "rows"),
    [
        (types_pb2.Input(text="the tide turns"), 6, 1),  # 2 + 14 / 4, rounded up
        (types_pb2.Input(text="é" * 4), 4, 1),  # 8 bytes of UTF-8
        (types_pb2.Input(text="x" * 4000), 256, 1),  # truncated by the model
        (types_pb2.Input(texts=types_pb2.TextList(values=["abcd"] * 32)), 96, 32),
        (types_pb2.Input(token_ids=types_pb2.TokenIds(ids=[5] * 10)), 12, 1),
        (tensors([4, 8]), 40, 4),  # 2 a row + 32 elements
        (tensors([4, 8], [4, 2]), 40, 4),  # masks and the like ride along
    ],
    ids=["text", "not ascii", "long", "texts", "token ids", "tensor", "two tensors"],
)
def test_units_follow_the_declared_rule(value: types_pb2.Input, units: int, rows: int) -> None:
    assert UnitEstimator(CARD).estimate(value) == (units, rows)


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (types_pb2.Input(), "input"),
        (types_pb2.Input(text=""), "input.text"),
        (types_pb2.Input(text=" \n"), "input.text"),
        (types_pb2.Input(texts=types_pb2.TextList()), "input.texts.values"),
        (types_pb2.Input(texts=types_pb2.TextList(values=["a", ""])), "input.texts.values[1]"),
        (types_pb2.Input(token_ids=types_pb2.TokenIds()), "input.token_ids.ids"),
        (types_pb2.Input(raw=b"x"), "input.raw"),
        (types_pb2.Input(tensors=types_pb2.TensorList()), "input.tensors.values"),
        (tensors([4, 8], [3, 8]), "input.tensors.values[1].shape"),
    ],
    ids=["none", "empty", "blank", "no texts", "one empty", "no tokens", "wrong kind",
         "no tensors", "unlike rows"],
)  # fmt: skip
def test_a_bad_input_names_its_field(value: types_pb2.Input, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        UnitEstimator(CARD).estimate(value)
    assert caught.value.field == field


def test_a_wrong_kind_says_which_are_right() -> None:
    with pytest.raises(InvalidRequest, match="takes one of: tensors, text, texts, token_ids"):
        UnitEstimator(CARD).estimate(types_pb2.Input(raw=b"x"))


def test_a_longer_row_is_refused_where_the_model_says_so() -> None:
    card = types_pb2.ModelCard()
    card.CopyFrom(CARD)
    card.unit_estimate.refuse_longer = True
    with pytest.raises(InvalidRequest, match="at most 256 a row"):
        UnitEstimator(card).estimate(types_pb2.Input(text="x" * 4000))


def test_the_estimate_moves_to_what_workers_count() -> None:
    estimator = UnitEstimator(CARD)
    value = types_pb2.Input(token_ids=types_pb2.TokenIds(ids=[5] * 98))
    for _ in range(400):
        estimated, _ = estimator.estimate(value)
        estimator.observe(estimated, 150)
    assert estimator.estimate(value)[0] == pytest.approx(150, abs=1)


def test_one_absurd_count_moves_it_little() -> None:
    estimator = UnitEstimator(CARD)
    estimator.observe(100, 10**9)
    assert estimator.ratio == pytest.approx(1 + 0.02 * 9)
