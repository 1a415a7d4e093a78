"""One batch at a time: order, bounds, deadlines, cancellation, failures, times."""

from dataclasses import dataclass

import pytest
from tests.unit.worker.devices import (
    CANCELLED,
    EXPIRED,
    FAILED,
    INVALID,
    MS,
    OK,
    Asker,
    HandRuntime,
    echo,
    hosted,
    item,
    statuses,
)

from headway.errors import RuntimeFailure, RuntimeInputError
from headway.runtimes.base import Execution, RuntimeOccupied, Tampering
from headway.testing import ManualClock
from headway.worker.device import Device


@dataclass
class Bench:
    clock: ManualClock
    runtime: HandRuntime
    asker: Asker
    device: Device


def bench(max_batches: int = 1) -> Bench:
    clock = ManualClock(1_000 * MS)
    runtime = HandRuntime()
    asker = Asker(clock, hosted(runtime))
    return Bench(clock, runtime, asker, Device(clock, max_batches=max_batches))


async def test_a_batch_is_executed_and_answered_in_its_order() -> None:
    b = bench()
    b.device.submit(b.asker.batch(5, item(30, "c"), item(10, "a"), item(20, "bb")))
    await b.clock.settle()
    assert b.runtime.given == [["c", "a", "bb"]]
    b.runtime.finish()
    await b.clock.settle()
    (result,) = b.asker.results
    assert result.batch_id == 5
    assert [(each.item_id, each.output.text) for each in result.items] == [
        (30, "c"),
        (10, "a"),
        (20, "bb"),
    ]
    assert [each.usage.prompt_units for each in result.items] == [1, 1, 2]
    assert result.units == 4
    assert b.device.num_batches == 0


async def test_times_are_told_apart() -> None:
    b = bench(max_batches=2)
    await b.clock.advance(40 * MS)
    b.device.submit(b.asker.batch(1, item(1)))
    b.device.submit(b.asker.batch(2, item(2)))
    await b.clock.advance(10 * MS)
    b.runtime.finish(device_ns=7 * MS)
    await b.clock.advance(20 * MS)
    b.runtime.finish(device_ns=15 * MS)
    await b.clock.advance(5 * MS)
    b.device.submit(b.asker.batch(3, item(3)))
    await b.clock.settle()
    b.runtime.finish(device_ns=0)
    await b.clock.settle()
    times = [(r.device_ns, r.wall_ns, r.idle_ns) for r in b.asker.results]
    assert times == [
        (7 * MS, 10 * MS, 40 * MS),
        (15 * MS, 30 * MS, 0),  # it had waited: the device was not idle
        (0, 0, 5 * MS),  # 0: the runtime could not tell
    ]
    assert b.device.idle_ns == 45 * MS


async def test_one_batch_executes_at_a_time_and_more_are_turned_away() -> None:
    b = bench(max_batches=2)
    for batch_id in (1, 2, 3):
        b.device.submit(b.asker.batch(batch_id, item(batch_id), predicted_ms=20))
    await b.clock.settle()
    assert b.runtime.given == [["text 1"]]
    assert [busy.batch_id for busy in b.asker.busy] == [3]
    b.runtime.finish()
    await b.clock.settle()
    assert b.runtime.given == [["text 1"], ["text 2"]]
    assert b.device.free_slots == 1


async def test_one_batch_that_follows_its_gateway_s_last_one_may_wait() -> None:
    b = bench()
    b.device.submit(b.asker.batch(1, item(1), predicted_ms=20))
    b.device.submit(b.asker.batch(2, item(2), predicted_ms=20, pipelined=True))
    # Only one, and nobody else's: another gateway hears at once to look elsewhere.
    other = Asker(b.clock, b.asker.model)
    b.device.submit(b.asker.batch(3, item(3), predicted_ms=20, pipelined=True))
    b.device.submit(other.batch(4, item(4), predicted_ms=20))
    await b.clock.advance(10 * MS)
    assert [busy.batch_id for busy in b.asker.busy + other.busy] == [3, 4]
    assert b.device.free_slots == 0
    b.runtime.finish(device_ns=10 * MS)
    await b.clock.advance(20 * MS)
    b.runtime.finish(device_ns=20 * MS)
    await b.clock.settle()
    times = [(r.batch_id, r.device_ns, r.wall_ns, r.idle_ns) for r in b.asker.results]
    assert times == [(1, 10 * MS, 10 * MS, 0), (2, 20 * MS, 30 * MS, 0)]


async def test_a_draining_device_takes_nothing_that_would_wait() -> None:
    b = bench()
    b.device.submit(b.asker.batch(1, item(1)))
    b.device.draining = True
    b.device.submit(b.asker.batch(2, item(2), pipelined=True))
    assert [(busy.batch_id, busy.draining) for busy in b.asker.busy] == [(2, True)]
    await b.clock.settle()
    b.runtime.finish()
    await b.clock.settle()


@pytest.mark.parametrize(
    ("elapsed_ms", "expected_ms"),
    [
        pytest.param(0, 50, id="the running batch and the waiting one"),
        pytest.param(15, 35, id="part of it is done"),
        pytest.param(80, 40, id="late: an eighth of its time again, and the waiting one"),
    ],
)
async def test_busy_says_when_to_come_back(elapsed_ms: int, expected_ms: int) -> None:
    b = bench(max_batches=2)
    b.device.submit(b.asker.batch(1, item(1), predicted_ms=20))
    b.device.submit(b.asker.batch(2, item(2), predicted_ms=30))
    await b.clock.advance(elapsed_ms * MS)
    b.device.submit(b.asker.batch(3, item(3)))
    assert [busy.retry_after_ns for busy in b.asker.busy] == [expected_ms * MS]
    assert not b.asker.busy[0].draining


async def test_without_a_prediction_the_last_execution_is_the_guess() -> None:
    b = bench()
    b.device.submit(b.asker.batch(1, item(1)))
    await b.clock.settle()
    b.runtime.finish(device_ns=12 * MS)
    await b.clock.settle()
    b.device.submit(b.asker.batch(2, item(2)))
    await b.clock.advance(2 * MS)
    b.device.submit(b.asker.batch(3, item(3)))
    assert b.asker.busy[0].retry_after_ns == 10 * MS


async def test_members_without_time_left_are_not_begun() -> None:
    b = bench(max_batches=2)
    b.device.submit(b.asker.batch(1, item(1)))
    b.device.submit(b.asker.batch(2, item(2, remaining_ms=9), item(3, remaining_ms=11)))
    await b.clock.advance(10 * MS)
    b.runtime.finish()
    await b.clock.settle()
    assert b.runtime.given == [["text 1"], ["text 3"]]
    b.runtime.finish()
    await b.clock.settle()
    assert statuses(b.asker.results[1]) == {2: EXPIRED, 3: OK}


async def test_a_batch_of_expired_members_costs_the_device_nothing() -> None:
    b = bench()
    b.device.submit(b.asker.batch(1, item(1, remaining_ms=0), item(2, remaining_ms=-5)))
    await b.clock.settle()
    assert b.runtime.given == []
    (result,) = b.asker.results
    assert statuses(result) == {1: EXPIRED, 2: EXPIRED}
    assert (result.device_ns, result.units) == (0, 0)
    assert b.device.num_batches == 0


async def test_a_cancelled_member_leaves_a_waiting_batch() -> None:
    # Known fault 13: one member of a batch is cancelled.
    b = bench(max_batches=2)
    b.device.submit(b.asker.batch(1, item(1)))
    second = b.asker.batch(2, item(2), item(3))
    b.device.submit(second)
    b.device.cancel(second, [2])
    await b.clock.settle()
    b.runtime.finish()
    await b.clock.settle()
    assert b.runtime.given[1] == ["text 3"]
    b.runtime.finish()
    await b.clock.settle()
    assert statuses(b.asker.results[1]) == {2: CANCELLED, 3: OK}


async def test_a_cancelled_member_of_an_executing_batch_gets_no_answer() -> None:
    b = bench()
    batch = b.asker.batch(1, item(1), item(2))
    b.device.submit(batch)
    await b.clock.settle()
    b.device.cancel(batch, [1])
    await b.clock.settle()
    assert b.runtime.stopped == 0
    b.runtime.finish()
    await b.clock.settle()
    (result,) = b.asker.results
    assert statuses(result) == {1: CANCELLED, 2: OK}
    assert not result.items[0].HasField("output")


@pytest.mark.parametrize(
    "cancellations", [[[1, 2]], [[]], [[1], [2]], [[2], [2], [1], [1, 2]]], ids=str
)
async def test_a_batch_nobody_waits_for_is_stopped(cancellations: list[list[int]]) -> None:
    b = bench()
    batch = b.asker.batch(1, item(1), item(2))
    b.device.submit(batch)
    await b.clock.settle()
    for item_ids in cancellations:
        b.device.cancel(batch, item_ids)
    await b.clock.settle()
    assert b.runtime.stopped == 1
    (result,) = b.asker.results
    assert statuses(result) == {1: CANCELLED, 2: CANCELLED}
    assert result.device_ns == 0
    assert b.device.num_batches == 0


async def test_a_batch_cancelled_before_its_first_step_is_answered_once() -> None:
    b = bench()
    batch = b.asker.batch(1, item(1))
    b.device.submit(batch)
    b.device.cancel(batch, [])
    await b.clock.settle()
    assert [statuses(result) for result in b.asker.results] == [{1: CANCELLED}]
    assert b.device.num_batches == 0


async def test_a_waiting_batch_that_is_cancelled_is_answered_at_once() -> None:
    b = bench(max_batches=2)
    b.device.submit(b.asker.batch(1, item(1)))
    second = b.asker.batch(2, item(2))
    b.device.submit(second)
    b.device.cancel(second, [])
    assert [result.batch_id for result in b.asker.results] == [2]
    assert b.device.free_slots == 1


async def test_expired_members_do_not_keep_a_cancelled_batch_running() -> None:
    b = bench()
    batch = b.asker.batch(1, item(1, remaining_ms=0), item(2))
    b.device.submit(batch)
    await b.clock.settle()
    b.device.cancel(batch, [2])
    await b.clock.settle()
    assert b.runtime.stopped == 1
    assert statuses(b.asker.results[0]) == {1: EXPIRED, 2: CANCELLED}


async def test_an_abandoned_batch_is_stopped_and_answered_to_nobody() -> None:
    b = bench(max_batches=2)
    first, second = b.asker.batch(1, item(1)), b.asker.batch(2, item(2))
    b.device.submit(first)
    b.device.submit(second)
    await b.clock.settle()
    b.device.abandon(second)
    b.device.abandon(first)
    await b.clock.settle()
    assert b.runtime.given == [["text 1"]]
    assert b.runtime.stopped == 1
    assert b.asker.answers == []
    assert b.device.num_batches == 0


async def test_a_bad_member_and_a_failed_one_do_not_spoil_the_others() -> None:
    # Known fault 15: one poison request.
    b = bench()
    b.device.submit(b.asker.batch(1, item(1), item(2), item(3)))
    await b.clock.settle()
    b.runtime.finish(RuntimeInputError("too long"), RuntimeFailure("broke"), echo("fine"))
    await b.clock.settle()
    (result,) = b.asker.results
    assert statuses(result) == {1: INVALID, 2: FAILED, 3: OK}
    assert [each.message for each in result.items] == ["too long", "broke", ""]
    assert result.units == 4


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(RuntimeFailure("out of memory"), "out of memory", id="it says why"),
        pytest.param(
            KeyError("secret"), "the runtime failed; the worker's log says how", id="no internals"
        ),
    ],
)
async def test_a_failed_batch_fails_every_member(error: Exception, message: str) -> None:
    b = bench()
    b.device.submit(b.asker.batch(1, item(1), item(2)))
    await b.clock.settle()
    b.runtime.fail(error)
    await b.clock.settle()
    (result,) = b.asker.results
    assert statuses(result) == {1: FAILED, 2: FAILED}
    assert {each.message for each in result.items} == {message}
    assert result.device_ns == 0


@pytest.mark.parametrize("num_outcomes", [1, 3])
async def test_a_runtime_that_miscounts_fails_the_batch(num_outcomes: int) -> None:
    # Known fault 32: nobody must get somebody else's answer.
    b = bench()
    b.device.submit(b.asker.batch(1, item(1), item(2)))
    await b.clock.settle()
    b.runtime.finish(*[echo("x")] * num_outcomes)
    await b.clock.settle()
    assert statuses(b.asker.results[0]) == {1: FAILED, 2: FAILED}


async def test_busy_is_told_apart_from_failed() -> None:
    b = bench()
    b.device.submit(b.asker.batch(1, item(1)))
    await b.clock.settle()
    b.runtime.fail(RuntimeOccupied("no memory now", retry_after_ns=5 * MS))
    await b.clock.settle()
    assert b.asker.results == []
    assert [(busy.batch_id, busy.retry_after_ns) for busy in b.asker.busy] == [(1, 5 * MS)]
    assert b.device.num_batches == 0


@pytest.mark.parametrize(
    ("tampering", "ids"),
    [
        pytest.param(Tampering.MISSING_MEMBER, [2], id="one is missing"),
        pytest.param(Tampering.EXTRA_MEMBER, [1, 2, 2**63 + 9], id="one too many"),
    ],
)
async def test_a_drill_falsifies_the_answer(tampering: Tampering, ids: list[int]) -> None:
    b = bench()
    b.device.submit(b.asker.batch(9, item(1), item(2)))
    await b.clock.settle()
    b.runtime.ends[-1].set_result(Execution([echo("a"), echo("b")], 1, tampering))
    await b.clock.settle()
    assert [each.item_id for each in b.asker.results[0].items] == ids


async def test_a_draining_device_finishes_what_it_has_and_takes_no_more() -> None:
    b = bench(max_batches=3)
    b.device.submit(b.asker.batch(1, item(1)))
    b.device.submit(b.asker.batch(2, item(2)))
    b.device.draining = True
    b.device.submit(b.asker.batch(3, item(3)))
    assert [(busy.batch_id, busy.draining) for busy in b.asker.busy] == [(3, True)]
    for _ in range(2):
        await b.clock.settle()
        b.runtime.finish()
    await b.device.until_idle()
    assert [result.batch_id for result in b.asker.results] == [1, 2]


async def test_units_in_hand_are_counted() -> None:
    b = bench(max_batches=2)
    b.device.submit(b.asker.batch(1, item(1, "four"), item(2, "fiver")))
    b.device.submit(b.asker.batch(2, item(3, "x")))
    assert b.device.count_units() == 10
