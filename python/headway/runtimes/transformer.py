"""A transformer encoder in onnxruntime: rows of tokens in, one unit vector a row out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from headway.clock import Clock
from headway.errors import RuntimeFailure, StartupError
from headway.runtimes.encoding import TENSOR_NAMES, Row

Vectors = npt.NDArray[np.float32]


class Transformer:
    """One onnxruntime session. Not thread-safe."""

    def __init__(self, model: Path, *, threads: int, clock: Clock) -> None:
        """Loads a model. `threads`: of one execution.

        Raises:
          StartupError: not a model, or not an encoder.
        """
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Threads that spin between executions take the machine from the other workers on it.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(
                str(model), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime has no common base for what it raises
            raise StartupError(f"{model} cannot be loaded: {error}") from error
        self._clock = clock
        self._inputs = [node.name for node in self._session.get_inputs()]
        unknown = sorted(set(self._inputs) - set(TENSOR_NAMES))
        if unknown or "input_ids" not in self._inputs:
            raise StartupError(
                f"{model} has the inputs {self._inputs}; an encoder takes input_ids and, "
                "optionally, attention_mask and token_type_ids"
            )
        self._output = _choose_output(self._session.get_outputs(), model)

    def embed(self, rows: Sequence[Row], options: Any = None) -> tuple[Vectors, int]:
        """Vectors [rows, dimension] of length 1, and the device time in ns.

        `options`: onnxruntime.RunOptions, through which another thread may terminate it.

        Source of the pooling: Reimers and Gurevych, Sentence-BERT, 2019, section 3 (MEAN).

        Raises:
          RuntimeFailure: the execution failed, or was terminated through `options`.
        """
        tensors = _padded(rows)
        feed = {name: tensors[name] for name in self._inputs}
        begun_at = self._clock.now_ns()
        try:
            (hidden,) = self._session.run([self._output], feed, options)
        except Exception as error:
            raise RuntimeFailure(
                "the model could not be executed; the worker's log says why"
            ) from error
        device_ns = self._clock.now_ns() - begun_at
        return _unit_vectors(hidden, tensors["attention_mask"]), device_ns


def _choose_output(outputs: Sequence[onnxruntime.NodeArg], model: Path) -> str:
    """The hidden states [rows, tokens, dimension]; else vectors pooled already."""
    for rank in (3, 2):
        for node in outputs:
            if len(node.shape) == rank:
                return str(node.name)
    shapes = {node.name: node.shape for node in outputs}
    raise StartupError(f"{model} has the outputs {shapes}; an encoder has one of rank 3 or 2")


def _padded(rows: Sequence[Row]) -> dict[str, npt.NDArray[np.int64]]:
    shape = len(rows), max(len(row.ids) for row in rows)
    ids, mask, types = (np.zeros(shape, np.int64) for _ in TENSOR_NAMES)
    for index, row in enumerate(rows):
        tokens = len(row.ids)
        ids[index, :tokens] = row.ids
        mask[index, :tokens] = 1 if row.mask is None else row.mask
        if row.types is not None:
            types[index, :tokens] = row.types
    return dict(zip(TENSOR_NAMES, (ids, mask, types), strict=True))


def _unit_vectors(hidden: npt.NDArray[np.float32], mask: npt.NDArray[np.int64]) -> Vectors:
    if hidden.ndim == 3:
        weights = mask[:, np.newaxis, :].astype(np.float32)
        hidden = (weights @ hidden)[:, 0, :] / weights.sum(axis=2)
    lengths = np.linalg.norm(hidden, axis=1, keepdims=True)
    vectors: Vectors = (hidden / np.maximum(lengths, 1e-12)).astype(np.float32)
    return vectors
