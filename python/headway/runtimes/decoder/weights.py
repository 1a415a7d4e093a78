"""A llama-like model's weights, read from a GGUF file and dequantised to float32."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.errors import StartupError

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a model."""

    num_layers: int
    width: int
    num_heads: int
    num_kv_heads: int
    head_width: int
    context: int
    rope_base: float
    norm_epsilon: float

    @property
    def queries_per_head(self) -> int:
        """Query heads that share a key-value head."""
        return self.num_heads // self.num_kv_heads


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer; matrices are float32[inputs, outputs].

    Attributes:
      qkv: queries, keys and values side by side; heads in halves, as `rotate` wants them.
      gate_up: gate and up projection side by side.
    """

    attention_norm: Matrix
    qkv: Matrix
    attention_out: Matrix
    mlp_norm: Matrix
    gate_up: Matrix
    down: Matrix


@dataclass(frozen=True, slots=True)
class Weights:
    """A whole model.

    Attributes:
      embedding: float32[vocabulary, width]; also the output projection where the model ties them.
    """

    shape: Shape
    embedding: Matrix
    output: Matrix
    output_norm: Matrix
    layers: Sequence[Layer]


def read(path: Path) -> tuple[Weights, Mapping[str, Any]]:
    """The weights and the metadata of a GGUF file. Takes seconds and four bytes a weight.

    Raises:
      StartupError: not a file of a llama-like model.
    """
    from gguf import GGUFReader
    from gguf.quants import dequantize

    try:
        reader = GGUFReader(path)
    except (OSError, ValueError) as error:
        raise StartupError(f"{path} cannot be read as GGUF: {error}") from error
    fields = {name: field.contents() for name, field in reader.fields.items()}
    if fields.get("general.architecture") != "llama":
        raise StartupError(
            f"{path} holds a model of architecture {fields.get('general.architecture')!r}; the "
            "decoder runtime takes llama; use the llama runtime for others"
        )
    tensors = {
        tensor.name: np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32)
        for tensor in reader.tensors
    }
    return _assembled(_shape(fields), tensors), fields


def _shape(fields: Mapping[str, Any]) -> Shape:
    width, num_heads = fields["llama.embedding_length"], fields["llama.attention.head_count"]
    return Shape(
        num_layers=fields["llama.block_count"],
        width=width,
        num_heads=num_heads,
        num_kv_heads=fields["llama.attention.head_count_kv"],
        head_width=fields.get("llama.rope.dimension_count", width // num_heads),
        context=fields["llama.context_length"],
        rope_base=float(fields.get("llama.rope.freq_base", 10_000.0)),
        norm_epsilon=float(fields["llama.attention.layer_norm_rms_epsilon"]),
    )


def _assembled(shape: Shape, tensors: Mapping[str, Matrix]) -> Weights:
    def layer(index: int) -> Layer:
        def tensor(name: str) -> Matrix:
            return tensors[f"blk.{index}.{name}.weight"]

        queries = _in_halves(tensor("attn_q"), shape.num_heads)
        keys = _in_halves(tensor("attn_k"), shape.num_kv_heads)
        return Layer(
            attention_norm=tensor("attn_norm"),
            qkv=_columns(queries, keys, tensor("attn_v")),
            attention_out=_columns(tensor("attn_output")),
            mlp_norm=tensor("ffn_norm"),
            gate_up=_columns(tensor("ffn_gate"), tensor("ffn_up")),
            down=_columns(tensor("ffn_down")),
        )

    embedding = tensors["token_embd.weight"]
    return Weights(
        shape=shape,
        embedding=embedding,
        output=tensors.get("output.weight", embedding),
        output_norm=tensors["output_norm.weight"],
        layers=[layer(index) for index in range(shape.num_layers)],
    )


def _columns(*matrices: Matrix) -> Matrix:
    return np.ascontiguousarray(np.concatenate(matrices).T)


def _in_halves(rows: Matrix, num_heads: int) -> Matrix:
    """Undoes GGUF's order of rotary pairs, (0, 1), (2, 3), ...: first all firsts of a head."""
    inputs = rows.shape[1]
    pairs = rows.reshape(num_heads, -1, 2, inputs)
    return pairs.swapaxes(1, 2).reshape(rows.shape)
