"""From inputs to rows of tokens, for encoder models."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from headway.errors import InvalidRequest, RuntimeInputError
from headway.rpc.convert import array_from_tensor
from headway.v1 import types_pb2

Ids = npt.NDArray[np.int64]

# Text beyond this many characters a token of the longest row is not looked at: English has about
# four, and a message of megabytes must not occupy the tokenizer.
MAX_CHARACTERS_PER_TOKEN = 64
TENSOR_NAMES = ("input_ids", "attention_mask", "token_type_ids")
NUM_TOKEN_TYPES = 2


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence.

    Attributes:
      ids: int64[tokens], at least one.
      mask: int64[tokens] of 0 and 1; None means all 1.
      types: int64[tokens], segment of each token; None means all 0.
      is_truncated: the input was longer.
    """

    ids: Ids
    mask: Ids | None = None
    types: Ids | None = None
    is_truncated: bool = False


class Encoder:
    """Turns inputs into rows with a real tokenizer. Thread-safe."""

    def __init__(self, tokenizer: Tokenizer, *, max_sequence: int) -> None:
        """`max_sequence`: longer rows are truncated to so many tokens."""
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_sequence)
        self._tokenizer = tokenizer
        self._max_sequence = max_sequence
        self._vocabulary = tokenizer.get_vocab_size()

    def encode(self, items: Sequence[types_pb2.Input]) -> list[list[Row] | RuntimeInputError]:
        """The rows of each input, or what is wrong with it. All texts are tokenized in one call."""
        texts: list[str] = []
        encoded: list[list[Row] | RuntimeInputError] = []
        spans: list[tuple[int, int, int]] = []
        for index, item in enumerate(items):
            try:
                own = _texts(item)
                encoded.append([] if own else self._rows(item))
            except RuntimeInputError as error:
                encoded.append(error)
                continue
            if own:
                spans.append((index, len(texts), len(texts) + len(own)))
                texts += own
        rows = self._tokenize(texts)
        for index, begin, end in spans:
            encoded[index] = rows[begin:end]
        return encoded

    def _tokenize(self, texts: Sequence[str]) -> list[Row]:
        longest = self._max_sequence * MAX_CHARACTERS_PER_TOKEN
        encodings = self._tokenizer.encode_batch_fast([text[:longest] for text in texts])
        return [
            Row(
                np.array(encoding.ids, np.int64),
                is_truncated=bool(encoding.overflowing) or len(text) > longest,
            )
            for text, encoding in zip(texts, encodings, strict=True)
        ]

    def _rows(self, item: types_pb2.Input) -> list[Row]:
        kind = item.WhichOneof("kind")
        if kind == "token_ids":
            ids = np.array(item.token_ids.ids, np.int64)
            self._check_ids(ids, "input.token_ids.ids")
            return [Row(ids[: self._max_sequence], is_truncated=ids.size > self._max_sequence)]
        if kind == "tensors":
            return self._tensor_rows(item.tensors)
        raise RuntimeInputError(
            f"input.{kind or 'kind'} is not taken by this model; send text, texts, token_ids or "
            "tensors"
        )

    def _check_ids(self, ids: Ids, field: str) -> None:
        if ids.size == 0:
            raise RuntimeInputError(f"{field} is empty; send at least one token")
        _check_range(ids, self._vocabulary, field)

    def _tensor_rows(self, tensors: types_pb2.TensorList) -> list[Row]:
        arrays: dict[str, Ids] = {}
        for index, tensor in enumerate(tensors.values):
            name = tensor.name or TENSOR_NAMES[0]
            if name not in TENSOR_NAMES or name in arrays:
                raise RuntimeInputError(
                    f"input.tensors.values[{index}].name is {name!r}; send each of "
                    f"{', '.join(TENSOR_NAMES)} at most once"
                )
            arrays[name] = _matrix(tensor, f"input.tensors.{name}")
        ids = arrays.get("input_ids")
        if ids is None:
            raise RuntimeInputError("input.tensors has no input_ids; send int64 [rows, tokens]")
        self._check_ids(ids, "input.tensors.input_ids")
        _check_companions(arrays, ids)
        mask, types = arrays.get("attention_mask"), arrays.get("token_type_ids")
        return [self._tensor_row(ids, mask, types, row) for row in range(len(ids))]

    def _tensor_row(self, ids: Ids, mask: Ids | None, types: Ids | None, row: int) -> Row:
        tokens = min(ids.shape[1], self._max_sequence)
        is_truncated = ids.shape[1] > tokens and (mask is None or bool(mask[row, tokens:].any()))
        if mask is not None:
            used = np.flatnonzero(mask[row, :tokens])
            if not used.size:
                raise RuntimeInputError(
                    f"input.tensors.attention_mask[{row}] masks every token; leave at least one"
                )
            tokens = int(used[-1]) + 1
        return Row(
            ids[row, :tokens],
            None if mask is None else mask[row, :tokens],
            None if types is None else types[row, :tokens],
            is_truncated=is_truncated,
        )


def _texts(item: types_pb2.Input) -> list[str]:
    """The texts of an input; empty for an input of another kind."""
    kind = item.WhichOneof("kind")
    if kind == "text":
        if not item.text.strip():
            raise RuntimeInputError("input.text is empty; send at least one word")
        return [item.text]
    if kind != "texts":
        return []
    texts = list(item.texts.values)
    if not texts:
        raise RuntimeInputError("input.texts is empty; send at least one text")
    for index, text in enumerate(texts):
        if not text.strip():
            raise RuntimeInputError(f"input.texts.values[{index}] is empty; send at least one word")
    return texts


def _matrix(tensor: types_pb2.Tensor, field: str) -> Ids:
    if tensor.dtype == types_pb2.DATA_TYPE_BFLOAT16:
        raise RuntimeInputError(f"{field}.dtype is DATA_TYPE_BFLOAT16; send DATA_TYPE_INT64")
    try:
        array = array_from_tensor(tensor, field)
    except InvalidRequest as error:
        raise RuntimeInputError(error.message) from error
    if tensor.dtype != types_pb2.DATA_TYPE_INT64:
        given = types_pb2.DataType.Name(tensor.dtype)
        raise RuntimeInputError(f"{field}.dtype is {given}; send DATA_TYPE_INT64")
    if array.ndim != 2:
        raise RuntimeInputError(f"{field}.shape is {list(array.shape)}; send [rows, tokens]")
    return array


def _check_companions(arrays: dict[str, Ids], ids: Ids) -> None:
    for name in TENSOR_NAMES[1:]:
        array = arrays.get(name)
        if array is None:
            continue
        field = f"input.tensors.{name}"
        if array.shape != ids.shape:
            raise RuntimeInputError(
                f"{field}.shape is {list(array.shape)}; it must be input_ids' {list(ids.shape)}"
            )
        _check_range(array, NUM_TOKEN_TYPES, field)


def _check_range(array: Ids, bound: int, field: str) -> None:
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= bound:
        wrong = low if low < 0 else high
        raise RuntimeInputError(f"{field} holds {wrong}; values go from 0 to {bound - 1}")
