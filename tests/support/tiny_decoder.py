"""A decoder with random weights, small enough for a thousand passes a second."""

import numpy as np

from headway.engine.frame import GraphShape
from headway.runtimes.decoder.transformer import Transformer
from headway.runtimes.decoder.weights import Layer, Shape, Weights

VOCABULARY = 48
ENDS = frozenset({0})


def tiny_transformer(seed: int = 7) -> Transformer:
    shape = Shape(
        num_layers=2,
        width=24,
        num_heads=4,
        num_kv_heads=2,
        head_width=6,
        context=512,
        rope_base=10_000.0,
        norm_epsilon=1e-5,
    )
    random = np.random.default_rng(seed)

    def matrix(*extent: int) -> np.ndarray:
        return (random.standard_normal(extent) * extent[0] ** -0.5).astype(np.float32)

    ones = np.ones(shape.width, np.float32)
    layers = [
        Layer(ones, matrix(24, 48), matrix(24, 24), ones, matrix(24, 96), matrix(48, 24))
        for _ in range(shape.num_layers)
    ]
    embedding = matrix(VOCABULARY, 24) * 4
    return Transformer(Weights(shape, embedding, embedding, ones, layers))


class TinyVocabulary:
    """Token 0 ends; the others are letters."""

    size = VOCABULARY
    ends = ENDS

    def encode(self, text: str) -> list[int]:
        return [1 + byte % (VOCABULARY - 1) for byte in text.encode()]

    def piece(self, token: int) -> bytes:
        return b"" if token in ENDS else bytes((64 + token,))


GRAPHS = [
    GraphShape("d1", decode_rows=1),
    GraphShape("d4", decode_rows=4),
    GraphShape("d2x4", decode_rows=2, width=4),
    GraphShape("d4x8", decode_rows=4, width=8),
    GraphShape("p4", prefill_tokens=4, prompt_rows=2),
    GraphShape("p16", prefill_tokens=16, prompt_rows=4),
    GraphShape("p8d4", prefill_tokens=8, prompt_rows=2, decode_rows=4),
]
