"""Whoever sends more than the model reads is told."""

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from headway.rpc.convert import tensor_from_array
from headway.runtimes.encoding import Encoder
from headway.v1 import types_pb2


@pytest.fixture
def encoder(tmp_path: Path) -> Encoder:
    words = {word: number for number, word in enumerate(["a", "b", "c", "?"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return Encoder(tokenizer, max_sequence=4)


@pytest.mark.parametrize(
    ("text", "truncated"),
    [("a b c", False), ("a b c a", False), ("a b c a b", True), ("a " * 3 + " " * 300, True)],
    ids=["shorter", "just as long", "longer", "beyond what is looked at"],
)
def test_texts(encoder: Encoder, text: str, truncated: bool) -> None:
    ((row,),) = encoder.encode([types_pb2.Input(text=text)])
    assert row.is_truncated is truncated


@pytest.mark.parametrize(("count", "truncated"), [(4, False), (5, True)])
def test_token_ids(encoder: Encoder, count: int, truncated: bool) -> None:
    ids = types_pb2.TokenIds(ids=[1] * count)
    ((row,),) = encoder.encode([types_pb2.Input(token_ids=ids)])
    assert row.is_truncated is truncated


@pytest.mark.parametrize(("mask", "truncated"), [([1, 1, 1, 1, 1], True), ([1, 1, 1, 1, 0], False)])
def test_tensors(encoder: Encoder, mask: list[int], truncated: bool) -> None:
    tensors = [
        tensor_from_array("input_ids", np.ones((1, 5), np.int64)),
        tensor_from_array("attention_mask", np.array([mask], np.int64)),
    ]
    value = types_pb2.Input(tensors=types_pb2.TensorList(values=tensors))
    ((row,),) = encoder.encode([value])
    assert row.is_truncated is truncated
