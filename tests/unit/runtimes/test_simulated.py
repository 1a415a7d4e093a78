"""The simulated device: its times, its units, its digests and its drills."""

import asyncio
import struct
from typing import Any

import pytest

from headway.errors import RuntimeFailure, RuntimeInputError
from headway.rng import SeedTree
from headway.runtimes.base import Execution, ItemOutput, RuntimeOccupied, Tampering
from headway.runtimes.settings import SimulatedRuntimeSettings
from headway.runtimes.simulated import SimulatedRuntime
from headway.testing import ManualClock
from headway.v1 import types_pb2

MS = 1_000_000
CRC_OF_HELLO = 0x3610A686


def text(value: str) -> types_pb2.Input:
    return types_pb2.Input(text=value)


def texts(*values: str) -> types_pb2.Input:
    return types_pb2.Input(texts=types_pb2.TextList(values=values))


def token_ids(*ids: int) -> types_pb2.Input:
    return types_pb2.Input(token_ids=types_pb2.TokenIds(ids=ids))


def tensors(*shapes: tuple[int, ...]) -> types_pb2.Input:
    values = []
    for index, shape in enumerate(shapes):
        elements = 1
        for extent in shape:
            elements *= extent
        data = struct.pack(f"<{elements}q", *range(elements))
        values.append(
            types_pb2.Tensor(
                name=f"t{index}", dtype=types_pb2.DATA_TYPE_INT64, shape=shape, data=data
            )
        )
    return types_pb2.Input(tensors=types_pb2.TensorList(values=values))


def device(
    clock: ManualClock | None = None, *, seed: int = 1, speed: float = 1, **settings: Any
) -> SimulatedRuntime:
    parsed = SimulatedRuntimeSettings.model_validate(settings)
    return SimulatedRuntime(parsed, clock=clock or ManualClock(), seeds=SeedTree(seed), speed=speed)


async def timed(
    clock: ManualClock, runtime: SimulatedRuntime, *items: types_pb2.Input
) -> tuple[Execution, int]:
    begun_at = clock.now_ns()
    async with clock.auto_jump():
        execution = await runtime.run(items)
    return execution, clock.now_ns() - begun_at


def digest(outcome: object) -> list[tuple[int, ...]]:
    assert isinstance(outcome, ItemOutput)
    (tensor,) = outcome.output.tensors
    assert (tensor.name, tensor.dtype) == ("digest", types_pb2.DATA_TYPE_INT64)
    assert list(tensor.shape) == [outcome.rows, 2]
    return list(struct.iter_unpack("<qq", tensor.data))


@pytest.mark.parametrize(
    ("item", "units", "rows"),
    [
        pytest.param(text("a"), 1, 1, id="one byte is one unit"),
        pytest.param(text("abcd"), 1, 1, id="four bytes are one unit"),
        pytest.param(text("abcde"), 2, 1, id="five bytes are two"),
        pytest.param(text("ééé"), 2, 1, id="bytes count, not characters"),
        pytest.param(texts("abc", "de"), 2, 2, id="bytes of all texts together"),
        pytest.param(token_ids(5, 6, 7), 3, 1, id="a token id is a unit"),
        pytest.param(types_pb2.Input(raw=b"123456789"), 3, 1, id="raw bytes are as text"),
        pytest.param(tensors((2, 5)), 10, 2, id="a tensor element is a unit"),
        pytest.param(tensors((2, 5), (2, 3)), 10, 2, id="the largest tensor counts"),
    ],
)
async def test_units_and_rows(item: types_pb2.Input, units: int, rows: int) -> None:
    runtime = device(intercept_ms=0, slope_ms_per_unit=0)
    assert runtime.count_units(item) == units
    (outcome,) = (await runtime.run([item])).outcomes
    assert isinstance(outcome, ItemOutput)
    assert (outcome.units, outcome.rows) == (units, rows)


@pytest.mark.parametrize(
    ("item", "part"),
    [
        pytest.param(types_pb2.Input(), "no kind", id="nothing"),
        pytest.param(text(""), "input.text is empty", id="empty text"),
        pytest.param(texts(), "input.texts is empty", id="no texts"),
        pytest.param(texts("a", ""), "empty row", id="an empty text among others"),
        pytest.param(token_ids(), "input.token_ids is empty", id="no tokens"),
        pytest.param(tensors((2, 2), (3, 2)), "first extents [2, 3]", id="rows that differ"),
    ],
)
async def test_what_it_does_not_take(item: types_pb2.Input, part: str) -> None:
    runtime = device(intercept_ms=0, slope_ms_per_unit=0)
    bad, good = (await runtime.run([item, text("hello")])).outcomes
    assert isinstance(bad, RuntimeInputError)
    assert part in str(bad)
    assert digest(good) == [(5, CRC_OF_HELLO)]
    with pytest.raises(RuntimeInputError):
        runtime.count_units(item)


async def test_digests_tell_rows_apart() -> None:
    runtime = device(intercept_ms=0, slope_ms_per_unit=0)
    one, three = (await runtime.run([text("hello"), texts("a", "hello", "a")])).outcomes
    assert digest(one) == [(5, CRC_OF_HELLO)]
    rows = digest(three)
    assert rows[1] == (5, CRC_OF_HELLO)
    assert rows[0] == rows[2] != rows[1]


@pytest.mark.parametrize(
    ("settings", "speed", "num_units", "expected_ns"),
    [
        pytest.param({}, 1, 1000, 40 * MS, id="the reference device"),
        pytest.param({}, 0.5, 1000, 80 * MS, id="half as fast"),
        pytest.param({}, 2, 1000, 20 * MS, id="twice as fast"),
        pytest.param({"intercept_ms": 5}, 1, 1000, 27 * MS, id="another intercept"),
        pytest.param({"slope_ms_per_unit": 0.1}, 1, 100, 28 * MS, id="another slope"),
    ],
)
async def test_device_time(
    settings: dict[str, float], speed: float, num_units: int, expected_ns: int
) -> None:
    clock = ManualClock()
    runtime = device(clock, speed=speed, jitter_ratio=0, **settings)
    execution, elapsed_ns = await timed(clock, runtime, token_ids(*range(num_units)))
    assert execution.device_ns == elapsed_ns == expected_ns


async def test_the_prior_is_the_truth() -> None:
    card = device(speed=0.5).card()
    assert card.cost_prior.intercept.ToNanoseconds() == 36 * MS
    assert card.cost_prior.slope_ns_per_unit == 44_000
    assert (card.batch_limits.max_requests, card.batch_limits.max_units) == (32, 16_384)
    assert card.unit_estimate.units_per_byte == 0.25


async def test_jitter_is_seeded_and_bounded() -> None:
    async def times(seed: int) -> list[int]:
        clock = ManualClock()
        runtime = device(clock, seed=seed, slope_ms_per_unit=0)
        return [(await timed(clock, runtime, text("x")))[0].device_ns for _ in range(200)]

    first = await times(7)
    assert first == await times(7)
    assert first != await times(8)
    assert 18 * MS * 0.92 <= min(first) < 18 * MS * 0.93
    assert 18 * MS * 1.07 < max(first) <= 18 * MS * 1.08


async def test_the_null_model_never_waits() -> None:
    clock = ManualClock()
    runtime = device(clock, intercept_ms=0, slope_ms_per_unit=0)
    running = asyncio.ensure_future(runtime.run([text("x")] * 32))
    await clock.settle()
    assert running.done()
    assert len(running.result().outcomes) == 32
    assert running.result().device_ns == 1  # 0 would mean that it cannot tell


@pytest.mark.parametrize(
    ("failures", "error", "elapsed_ns"),
    [
        pytest.param({"fail": 1}, RuntimeFailure, 18 * MS, id="fails after its time"),
        pytest.param({"fail_fast": 1}, RuntimeFailure, 2 * MS, id="fails fast"),
        pytest.param({"busy": 1}, RuntimeOccupied, 0, id="busy"),
        pytest.param({"busy": 1, "fail": 1}, RuntimeOccupied, 0, id="busy comes first"),
        pytest.param(
            {"slow": 1, "fail": 1, "slow_ms": 100},
            RuntimeFailure,
            118 * MS,
            id="stalls, then fails",
        ),
        pytest.param(
            {"poison": {"spoils": "batch"}}, RuntimeFailure, 18 * MS, id="poison spoils the batch"
        ),
    ],
)
async def test_drills_that_end_the_batch(
    failures: dict[str, Any], error: type[Exception], elapsed_ns: int
) -> None:
    clock = ManualClock()
    runtime = device(clock, jitter_ratio=0, slope_ms_per_unit=0, failures=failures)
    async with clock.auto_jump():
        with pytest.raises(error):
            await runtime.run([text("good"), text("some poison in it")])
    assert clock.now_ns() == elapsed_ns


async def test_a_hang_ends_by_cancellation_only() -> None:
    clock = ManualClock()
    running = asyncio.ensure_future(device(clock, failures={"hang": 1}).run([text("x")]))
    await clock.advance(86_400 * 1_000 * MS)
    assert not running.done()
    running.cancel()
    await clock.settle()
    assert running.cancelled()


async def test_a_stall_is_device_time() -> None:
    clock = ManualClock()
    runtime = device(clock, jitter_ratio=0, failures={"slow": 1, "slow_ms": 100})
    execution, elapsed_ns = await timed(clock, runtime, token_ids(*range(1000)))
    assert execution.device_ns == elapsed_ns == 140 * MS


async def test_poison_fails_alone() -> None:
    runtime = device(intercept_ms=0, slope_ms_per_unit=0, failures={"poison": {"marker": "☠"}})
    one, two, three = (await runtime.run([text("hello"), text("a ☠ b"), text("hello")])).outcomes
    assert digest(one) == digest(three) == [(5, CRC_OF_HELLO)]
    assert isinstance(two, RuntimeFailure)


async def test_garbage_is_asked_for_in_turn() -> None:
    runtime = device(intercept_ms=0, slope_ms_per_unit=0, failures={"garbage": 1})
    asked = [(await runtime.run([text("x")])).tampering for _ in range(4)]
    missing, extra = Tampering.MISSING_MEMBER, Tampering.EXTRA_MEMBER
    assert asked == [missing, extra, missing, extra]


async def test_shares_are_of_batches() -> None:
    clock = ManualClock()
    runtime = device(clock, failures={"fail": 0.25})
    failed = 0
    async with clock.auto_jump():
        for _ in range(400):
            try:
                await runtime.run([text("x")])
            except RuntimeFailure:
                failed += 1
    # Binomial(400, 1/4): mean 100, standard deviation 8.7; four of them either way.
    assert 65 <= failed <= 135
