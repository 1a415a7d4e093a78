"""One forward pass over any mixture of prompt chunks and decode rows."""

from collections.abc import Sequence

import numpy as np

from headway.engine.sampling import Logits
from headway.engine.stepper import ModelRow
from headway.runtimes.decoder.weights import Layer, Matrix, Weights


class KeyValues:
    """The memory of one lane: float32[layers, kv_heads, tokens, head_width], twice."""

    def __init__(self, weights: Weights, num_tokens: int) -> None:
        shape = weights.shape
        extent = (shape.num_layers, shape.num_kv_heads, num_tokens, shape.head_width)
        self.keys: Matrix = np.empty(extent, np.float32)
        self.values: Matrix = np.empty(extent, np.float32)

    def copy_from(self, other: "KeyValues", num_tokens: int) -> None:
        """Takes over the first tokens of another lane."""
        self.keys[:, :, :num_tokens] = other.keys[:, :, :num_tokens]
        self.values[:, :, :num_tokens] = other.values[:, :, :num_tokens]


class Transformer:
    """A `TokenModel`: the matrices are multiplied once a pass, whosever rows are in it.

    Weights dominate: a pass reads all of them, so rows beside the first cost arithmetic only.
    Attention runs lane by lane, over exactly the tokens that the lane has.
    """

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._memory: dict[int, KeyValues] = {}
        self._cosines, self._sines = _rotations(weights)

    def reserve(self, slot: int, num_tokens: int, source: int, reused: int) -> None:
        """Makes room in a slot, beginning with what `source` holds."""
        memory = KeyValues(self._weights, num_tokens)
        if reused:
            memory.copy_from(self._memory[source], reused)
        self._memory[slot] = memory

    def truncate(self, slot: int, num_tokens: int) -> None:
        """Nothing to do: a row says where it starts, and overwrites what is there."""

    def release(self, slot: int) -> None:
        """Frees a slot's memory."""
        self._memory.pop(slot, None)

    def forward(self, rows: Sequence[ModelRow]) -> Sequence[Sequence[Logits]]:
        """Logits of the wanted positions, row by row."""
        weights = self._weights
        tokens = np.concatenate([np.asarray(row.tokens, np.int64) for row in rows])
        places = np.concatenate([np.arange(row.start, row.start + len(row.tokens)) for row in rows])
        hidden = weights.embedding[tokens]
        cosines, sines = self._cosines[places, None], self._sines[places, None]
        epsilon = weights.shape.norm_epsilon
        for index, layer in enumerate(weights.layers):
            normed = _normalised(hidden, layer.attention_norm, epsilon)
            hidden = hidden + self._attention(index, layer, normed, rows, cosines, sines)
            hidden += _mlp(layer, _normalised(hidden, layer.mlp_norm, epsilon))
        return self._logits(hidden, rows)

    def _attention(
        self,
        index: int,
        layer: Layer,
        normed: Matrix,
        rows: Sequence[ModelRow],
        cosines: Matrix,
        sines: Matrix,
    ) -> Matrix:
        shape = self._weights.shape
        heads, kv_heads, width = shape.num_heads, shape.num_kv_heads, shape.head_width
        qkv = (normed @ layer.qkv).reshape(len(normed), heads + 2 * kv_heads, width)
        turned = _rotate(qkv[:, : heads + kv_heads], cosines, sines)
        queries = turned[:, :heads] * np.float32(width**-0.5)
        mixed = np.empty((len(normed), heads * width), np.float32)
        begin = 0
        for row in rows:
            end = begin + len(row.tokens)
            memory = self._memory[row.slot]
            keys, values = memory.keys[index], memory.values[index]
            after = row.start + len(row.tokens)
            keys[:, row.start : after] = turned[begin:end, heads:].swapaxes(0, 1)
            values[:, row.start : after] = qkv[begin:end, heads + kv_heads :].swapaxes(0, 1)
            mixed[begin:end] = _attend(queries[begin:end], keys[:, :after], values[:, :after])
            begin = end
        out: Matrix = mixed @ layer.attention_out
        return out

    def _logits(self, hidden: Matrix, rows: Sequence[ModelRow]) -> Sequence[Sequence[Logits]]:
        wanted: list[int] = []
        end = 0
        for row in rows:
            end += len(row.tokens)
            wanted.extend(range(end - row.num_logits, end))
        if not wanted:
            return [[] for _ in rows]
        weights = self._weights
        last = _normalised(hidden[wanted], weights.output_norm, weights.shape.norm_epsilon)
        logits = iter(last @ weights.output.T)
        return [[next(logits) for _ in range(row.num_logits)] for row in rows]


def _attend(queries: Matrix, keys: Matrix, values: Matrix) -> Matrix:
    """Causal attention of the last tokens over all: float32[tokens, heads * head_width].

    queries: [tokens, heads, width]; keys, values: [kv_heads, all tokens, width].
    """
    tokens, heads, width = queries.shape
    kv_heads, everything, _ = keys.shape
    group = heads // kv_heads
    grouped = queries.reshape(tokens, kv_heads, group, width).transpose(1, 2, 0, 3)
    scores = grouped.reshape(kv_heads, group * tokens, width) @ keys.swapaxes(1, 2)
    if tokens > 1:
        future = np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)
        scores.reshape(kv_heads, group, tokens, everything)[..., everything - tokens :] += future
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    mixed: Matrix = np.matmul(scores, values, dtype=np.float32)
    by_token = mixed.reshape(kv_heads, group, tokens, width).transpose(2, 0, 1, 3)
    return by_token.reshape(tokens, heads * width)


def _mlp(layer: Layer, normed: Matrix) -> Matrix:
    gate, up = np.split(normed @ layer.gate_up, 2, axis=1)
    # exp overflows to infinity for very negative gates; their share is 0 then, as it should be.
    with np.errstate(over="ignore"):
        gate = gate / (1 + np.exp(-gate))
    out: Matrix = (gate * up) @ layer.down
    return out


def _normalised(hidden: Matrix, scale: Matrix, epsilon: float) -> Matrix:
    """Root-mean-square normalisation."""
    square = np.einsum("ij,ij->i", hidden, hidden)[:, None] / np.float32(hidden.shape[1])
    out: Matrix = hidden / np.sqrt(square + np.float32(epsilon)) * scale
    return out


def _rotate(heads: Matrix, cosines: Matrix, sines: Matrix) -> Matrix:
    """Rotary embedding over halves; heads: [tokens, heads, width]."""
    half = heads.shape[-1] // 2
    first, second = heads[..., :half], heads[..., half:]
    return np.concatenate(
        [first * cosines - second * sines, second * cosines + first * sines], axis=-1
    )


def _rotations(weights: Weights) -> tuple[Matrix, Matrix]:
    """Cosines and sines by position: float32[context, head_width / 2].

    Source: Su and others, RoFormer, 2021.
    """
    shape = weights.shape
    half = shape.head_width // 2
    frequencies = shape.rope_base ** (-np.arange(half, dtype=np.float64) / half)
    angles = np.arange(shape.context, dtype=np.float64)[:, None] * frequencies
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
