"""A calibrated device without a model, for laptops, tests and failure drills."""

import math
import struct
from array import array
from collections.abc import Sequence
from zlib import crc32

from headway.clock import Clock
from headway.errors import InvalidRequest, RuntimeFailure, RuntimeInputError
from headway.rng import SeedTree
from headway.rpc.convert import array_from_tensor, duration_from_ns
from headway.runtimes.base import Execution, ItemOutput, Outcome, RuntimeOccupied
from headway.runtimes.drills import UNHARMED, Drills, Fate
from headway.runtimes.settings import PoisonSettings, SimulatedRuntimeSettings
from headway.v1 import types_pb2

NS_PER_MS = 1_000_000
BYTES_PER_UNIT = 4
FAIL_FAST_NS = 2 * NS_PER_MS
# Longer than any process lives: a hang ends by cancellation only.
FOREVER_NS = 10**18
INPUT_KINDS = (
    types_pb2.INPUT_KIND_TEXT,
    types_pb2.INPUT_KIND_TEXTS,
    types_pb2.INPUT_KIND_TOKEN_IDS,
    types_pb2.INPUT_KIND_RAW,
    types_pb2.INPUT_KIND_TENSORS,
)


class SimulatedRuntime:
    """Device time = (intercept + slope * units) * (1 ± jitter) / speed.

    Its output is one int64 tensor "digest" [rows, 2]: the bytes of each row, and their CRC-32, so
    that rows or members mixed up on the way show. A unit is 4 bytes of the whole text or raw
    input, rounded up, one token id, or one element of the largest tensor.
    """

    def __init__(
        self, settings: SimulatedRuntimeSettings, *, clock: Clock, seeds: SeedTree, speed: float = 1
    ) -> None:
        """`speed` > 0 divides all times."""
        self._settings = settings
        self._clock = clock
        self._speed = speed
        self._jitter = seeds.stream("jitter")
        self._drills = Drills(settings.failures, seeds.stream("drills"))

    async def load(self) -> None:
        """Nothing to load."""

    def card(self) -> types_pb2.ModelCard:
        """Takes every kind of input; the prior is the truth, but for the jitter."""
        settings = self._settings
        return types_pb2.ModelCard(
            runtime=settings.kind,
            input_kinds=INPUT_KINDS,
            unit_estimate=types_pb2.UnitEstimate(
                units_per_byte=1 / BYTES_PER_UNIT, units_per_element=1
            ),
            batch_limits=types_pb2.BatchLimits(
                max_requests=settings.max_requests,
                max_rows=settings.max_rows,
                max_units=settings.max_units,
            ),
            cost_prior=types_pb2.CostPrior(
                intercept=duration_from_ns(round(settings.intercept_ms * NS_PER_MS / self._speed)),
                slope_ns_per_unit=settings.slope_ms_per_unit * NS_PER_MS / self._speed,
            ),
            accelerator="simulated",
        )

    def count_units(self, item: types_pb2.Input) -> int:
        """Work units of an input."""
        return _units(item, _rows(item))

    async def run(self, items: Sequence[types_pb2.Input]) -> Execution:
        """Answers after the device's time, or as the drills have it."""
        begun_at = self._clock.now_ns()
        outcomes = [answer(item) for item in items]
        if self._settings.failures.poison is not None:
            outcomes = _poisoned(items, outcomes, self._settings.failures.poison)
        fate = self._drills.draw()
        if fate is UNHARMED and self._settings.instant:
            return Execution(outcomes, max(1, self._clock.now_ns() - begun_at))
        device_ns = fate.stall_ns + self._draw_device_ns(outcomes)
        await self._suffer(fate, begun_at, device_ns)
        if any(isinstance(outcome, _Spoiled) for outcome in outcomes):
            raise RuntimeFailure("the batch held a poisonous input")
        return Execution(outcomes, max(1, device_ns), fate.tampering)

    async def close(self) -> None:
        """Nothing to free."""

    def _draw_device_ns(self, outcomes: Sequence[Outcome]) -> int:
        settings = self._settings
        units = sum(outcome.units for outcome in outcomes if isinstance(outcome, ItemOutput))
        jitter = 1 + settings.jitter_ratio * (2 * self._jitter.uniform() - 1)
        mean_ms = settings.intercept_ms + settings.slope_ms_per_unit * units
        return round(mean_ms * NS_PER_MS * jitter / self._speed)

    async def _suffer(self, fate: Fate, begun_at: int, device_ns: int) -> None:
        if fate.busy:
            raise RuntimeOccupied("drill: busy", retry_after_ns=device_ns)
        if fate.hangs:
            await self._clock.sleep(FOREVER_NS)
        if fate.fails_fast:
            await self._clock.sleep(FAIL_FAST_NS)
            raise RuntimeFailure("drill: failed after 2 ms")
        # Measured from the beginning, so that the worker's own work does not lengthen the device's.
        await self._clock.sleep(begun_at + device_ns - self._clock.now_ns())
        if fate.fails:
            raise RuntimeFailure("drill: failed")


class _Spoiled(RuntimeFailure):
    """A poisonous input that takes its batch with it."""


def _poisoned(
    items: Sequence[types_pb2.Input], outcomes: Sequence[Outcome], poison: PoisonSettings
) -> list[Outcome]:
    failure = _Spoiled if poison.spoils == "batch" else RuntimeFailure
    marker = poison.marker.encode()
    return [
        failure(f"the input holds the poison marker {poison.marker!r}")
        if isinstance(outcome, ItemOutput) and any(marker in row for row in _rows(item))
        else outcome
        for item, outcome in zip(items, outcomes, strict=True)
    ]


def answer(item: types_pb2.Input) -> Outcome:
    """The digest of an input, or what is wrong with it."""
    try:
        rows = _rows(item)
    except RuntimeInputError as error:
        return error
    digest = types_pb2.Tensor(
        name="digest",
        dtype=types_pb2.DATA_TYPE_INT64,
        shape=(len(rows), 2),
        data=b"".join([struct.pack("<qq", len(row), crc32(row)) for row in rows]),
    )
    return ItemOutput(types_pb2.Output(tensors=(digest,)), _units(item, rows), len(rows))


def _rows(item: types_pb2.Input) -> list[bytes]:
    """The bytes of each row; at least one row, at least one byte in all.

    Raises:
      RuntimeInputError: empty, or malformed.
    """
    kind = item.WhichOneof("kind")
    if kind == "text":
        rows = [item.text.encode()]
    elif kind == "texts":
        rows = [text.encode() for text in item.texts.values]
    elif kind == "token_ids":
        rows = [array("I", item.token_ids.ids).tobytes()]
    elif kind == "raw":
        rows = [item.raw]
    elif kind == "tensors":
        rows = _tensor_rows(item.tensors)
    else:
        raise RuntimeInputError("input has no kind set; set one of text, texts, token_ids, ...")
    if not rows or not all(rows):
        raise RuntimeInputError(f"input.{kind} is empty, or has an empty row; send some content")
    return rows


def _tensor_rows(tensors: types_pb2.TensorList) -> list[bytes]:
    try:
        arrays = [
            array_from_tensor(tensor, f"input.tensors.values[{index}]")
            for index, tensor in enumerate(tensors.values)
        ]
    except InvalidRequest as error:
        raise RuntimeInputError(error.message) from error
    extents = {len(values) for values in arrays}
    if len(extents) > 1:
        raise RuntimeInputError(
            f"input.tensors have the first extents {sorted(extents)}; give all the same rows"
        )
    return [b"".join(row.tobytes() for row in rows) for rows in zip(*arrays, strict=True)]


def _units(item: types_pb2.Input, rows: Sequence[bytes]) -> int:
    kind = item.WhichOneof("kind")
    if kind == "token_ids":
        return len(item.token_ids.ids)
    if kind == "tensors":
        return max(math.prod(tensor.shape) for tensor in item.tensors.values)
    return -(-sum(map(len, rows)) // BYTES_PER_UNIT)
