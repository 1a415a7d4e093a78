"""Inputs become rows of tokens, by the tokenizer that ships with the embedded model."""

from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from headway.errors import RuntimeInputError
from headway.rpc.convert import tensor_from_array
from headway.runtimes.encoding import Encoder, Row
from headway.v1 import types_pb2

CLS, SEP = 101, 102
VOCABULARY = 30_522


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    path = files("headway.runtimes") / "minilm/tokenizer.json"
    return Encoder(Tokenizer.from_str(path.read_text(encoding="utf-8")), max_sequence=16)


def tensor_input(**arrays: Any) -> types_pb2.Input:
    values = [tensor_from_array(name, np.array(array)) for name, array in arrays.items()]
    return types_pb2.Input(tensors=types_pb2.TensorList(values=values))


def token_ids(*ids: int) -> types_pb2.Input:
    return types_pb2.Input(token_ids=types_pb2.TokenIds(ids=ids))


def rows_of(encoder: Encoder, item: types_pb2.Input) -> list[Row]:
    (rows,) = encoder.encode([item])
    assert isinstance(rows, list), rows
    return rows


def ids_of(encoder: Encoder, item: types_pb2.Input) -> list[list[int]]:
    return [row.ids.tolist() for row in rows_of(encoder, item)]


def test_text_is_tokenized_between_special_tokens(encoder: Encoder) -> None:
    # "hello" and "world" in the vocabulary of BERT, which this model shares.
    item = types_pb2.Input(text="Hello world")
    assert ids_of(encoder, item) == [[CLS, 7592, 2088, SEP]]


def test_each_text_is_a_row_and_is_not_padded(encoder: Encoder) -> None:
    item = types_pb2.Input(texts=types_pb2.TextList(values=["hello", "hello world"]))
    assert ids_of(encoder, item) == [[CLS, 7592, SEP], [CLS, 7592, 2088, SEP]]


@pytest.mark.parametrize("words", [15, 1_000, 1_000_000])
def test_long_text_is_truncated_with_its_end_token(encoder: Encoder, words: int) -> None:
    (ids,) = ids_of(encoder, types_pb2.Input(text="hello " * words))
    assert ids == [CLS, *[7592] * 14, SEP]


def test_token_ids_are_taken_as_they_are(encoder: Encoder) -> None:
    assert ids_of(encoder, token_ids(5, 6, 7)) == [[5, 6, 7]]
    assert ids_of(encoder, token_ids(*range(20))) == [list(range(16))]


def test_tensor_rows_lose_their_padding(encoder: Encoder) -> None:
    item = tensor_input(
        input_ids=[[1, 2, 3, 0], [4, 5, 6, 7]],
        attention_mask=[[1, 1, 1, 0], [1, 0, 1, 1]],
        token_type_ids=[[0, 0, 1, 1], [0, 0, 0, 1]],
    )
    one, two = rows_of(encoder, item)
    assert one.ids.tolist() == [1, 2, 3]
    assert one.types is not None
    assert one.types.tolist() == [0, 0, 1]
    assert two.ids.tolist() == [4, 5, 6, 7]
    assert two.mask is not None
    assert two.mask.tolist() == [1, 0, 1, 1]


def test_a_tensor_without_a_name_is_the_ids(encoder: Encoder) -> None:
    tensor = tensor_from_array("", np.array([[1, 2]]))
    item = types_pb2.Input(tensors=types_pb2.TensorList(values=[tensor]))
    assert ids_of(encoder, item) == [[1, 2]]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        pytest.param(
            types_pb2.Input(),
            "input.kind is not taken by this model; send text, texts, token_ids or tensors",
            id="nothing",
        ),
        pytest.param(
            types_pb2.Input(raw=b"x"),
            "input.raw is not taken by this model; send text, texts, token_ids or tensors",
            id="raw",
        ),
        pytest.param(
            types_pb2.Input(text=" \n"), "input.text is empty; send at least one word", id="blank"
        ),
        pytest.param(
            types_pb2.Input(texts=types_pb2.TextList()),
            "input.texts is empty; send at least one text",
            id="no texts",
        ),
        pytest.param(
            types_pb2.Input(texts=types_pb2.TextList(values=["a", ""])),
            "input.texts.values[1] is empty; send at least one word",
            id="an empty text among others",
        ),
        pytest.param(
            token_ids(), "input.token_ids.ids is empty; send at least one token", id="no tokens"
        ),
        pytest.param(
            token_ids(1, VOCABULARY),
            "input.token_ids.ids holds 30522; values go from 0 to 30521",
            id="token beyond the vocabulary",
        ),
        pytest.param(
            tensor_input(input_ids=np.ones((2, 3), np.float32)),
            "input.tensors.input_ids.dtype is DATA_TYPE_FLOAT32; send DATA_TYPE_INT64",
            id="wrong type",
        ),
        pytest.param(
            tensor_input(input_ids=[1, 2, 3]),
            "input.tensors.input_ids.shape is [3]; send [rows, tokens]",
            id="wrong rank",
        ),
        pytest.param(
            tensor_input(input_ids=[[1, -2]]),
            "input.tensors.input_ids holds -2; values go from 0 to 30521",
            id="negative token",
        ),
        pytest.param(
            tensor_input(attention_mask=[[1]]),
            "input.tensors has no input_ids; send int64 [rows, tokens]",
            id="no ids",
        ),
        pytest.param(
            tensor_input(pixels=[[1]]),
            "input.tensors.values[0].name is 'pixels'; send each of input_ids, attention_mask, "
            "token_type_ids at most once",
            id="unknown name",
        ),
        pytest.param(
            tensor_input(input_ids=[[1, 2]], attention_mask=[[1]]),
            "input.tensors.attention_mask.shape is [1, 1]; it must be input_ids' [1, 2]",
            id="shapes that differ",
        ),
        pytest.param(
            tensor_input(input_ids=[[1, 2]], attention_mask=[[1, 7]]),
            "input.tensors.attention_mask holds 7; values go from 0 to 1",
            id="not a mask",
        ),
        pytest.param(
            tensor_input(input_ids=[[1], [2]], attention_mask=[[1], [0]]),
            "input.tensors.attention_mask[1] masks every token; leave at least one",
            id="everything masked",
        ),
        pytest.param(
            types_pb2.Input(
                tensors=types_pb2.TensorList(
                    values=[
                        types_pb2.Tensor(
                            name="input_ids", dtype=types_pb2.DATA_TYPE_INT64, shape=[1, 2]
                        )
                    ]
                )
            ),
            "input.tensors.input_ids.data has 0 bytes; shape [1, 2] of 8-byte elements needs 16",
            id="too few bytes",
        ),
    ],
)
def test_what_it_does_not_take(encoder: Encoder, item: types_pb2.Input, message: str) -> None:
    error, rows = encoder.encode([item, types_pb2.Input(text="hello")])
    assert isinstance(error, RuntimeInputError)
    assert str(error) == message
    assert isinstance(rows, list)
    assert rows[0].ids.tolist() == [CLS, 7592, SEP]
