"""The embedded model through a real worker: what a gateway gets for sentences."""

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import numpy.typing as npt
import pytest
from tests.integration.worker.peers import (
    Gateway,
    S,
    running_worker,
    session,
    text_item,
    texts_item,
)

from headway.rpc.convert import array_from_tensor, tensor_from_array
from headway.v1 import types_pb2, worker_pb2

OK = worker_pb2.ITEM_STATUS_OK
INVALID = worker_pb2.ITEM_STATUS_INVALID
TIDE = "The tide turns in the late afternoon."
EBB = "Late in the afternoon the sea begins to ebb."
TAXES = "Please file your tax return before the end of the month."


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with (
        running_worker(
            models=[{"model": "minilm", "runtime": {"kind": "onnx"}}], max_queued_batches=2
        ) as worker,
        session(worker.addresses["worker"]) as gateway,
    ):
        yield gateway


def vectors(item: worker_pb2.ItemResult) -> npt.NDArray[np.float32]:
    assert item.status == OK, item
    (tensor,) = item.output.tensors
    assert tensor.name == "embedding"
    assert list(tensor.shape) == [item.usage.rows, 384]
    return array_from_tensor(tensor)


async def test_a_paraphrase_is_nearer_than_an_unrelated_sentence(gateway: Gateway) -> None:
    await gateway.execute(1, [text_item(1, TIDE), texts_item(2, EBB, TAXES)])
    result = await gateway.result()
    (tide,), (ebb, taxes) = (vectors(item) for item in result.items)
    assert tide @ ebb > 0.5
    assert tide @ taxes < 0.2
    # [CLS], seven words and a full stop, [SEP].
    assert result.items[0].usage.prompt_units == 10
    assert result.units == sum(item.usage.prompt_units for item in result.items)
    assert 0 < result.device_ns < result.wall_ns


async def test_concurrent_requests_get_exactly_their_rows(gateway: Gateway) -> None:
    # Known fault 14, with rows so unlike that they are executed in several groups.
    members = {
        1: texts_item(1, TIDE),
        2: texts_item(2, TAXES * 8, EBB, TIDE),
        3: texts_item(3, *[EBB, TAXES, "x", TIDE * 4] * 2),
    }
    await gateway.execute(1, list(members.values()))
    together = {item.item_id: vectors(item) for item in (await gateway.result()).items}
    for item_id, member in members.items():
        await gateway.execute(10 + item_id, [member])
        (alone,) = (await gateway.result()).items
        cosines = np.sum(vectors(alone) * together[item_id], axis=1)
        assert cosines == pytest.approx(1, abs=1e-4)


async def test_a_bad_member_fails_alone_and_says_why(gateway: Gateway) -> None:
    wrong = types_pb2.Input(
        tensors=types_pb2.TensorList(
            values=[tensor_from_array("input_ids", np.zeros((1, 4), np.float32))]
        )
    )
    bad = worker_pb2.BatchItem(item_id=2, remaining_ns=60 * S, input=wrong)
    await gateway.execute(1, [text_item(1, TIDE), bad, text_item(3, EBB)])
    result = await gateway.result()
    assert [item.status for item in result.items] == [OK, INVALID, OK]
    assert result.items[1].message == (
        "input.tensors.input_ids.dtype is DATA_TYPE_FLOAT32; send DATA_TYPE_INT64"
    )


async def test_a_slowed_replica_really_takes_the_time_it_reports() -> None:
    models = [{"model": "minilm", "speed": 0.05, "runtime": {"kind": "onnx"}}]
    async with (
        running_worker(models=models) as worker,
        session(worker.addresses["worker"]) as gateway,
    ):
        await gateway.execute(1, [text_item(1, TIDE)])
        result = await gateway.result()
        # Unslowed it takes 2 ms or more.
        assert 20_000_000 < result.device_ns <= result.wall_ns


async def test_cancelling_a_long_batch_frees_the_device(gateway: Gateway) -> None:
    await gateway.execute(1, [text_item(item_id, TAXES * 40) for item_id in range(32)])
    await gateway.cancel(1)
    result = await gateway.result()
    assert {item.status for item in result.items} == {worker_pb2.ITEM_STATUS_CANCELLED}
    await gateway.execute(2, [text_item(1, TIDE)])
    assert vectors((await gateway.result()).items[0]).shape == (1, 384)


async def test_the_event_loop_turns_while_the_device_works(gateway: Gateway) -> None:
    await gateway.execute(1, [text_item(item_id, TAXES * 20) for item_id in range(16)])
    result = asyncio.ensure_future(gateway.result())
    # Health is answered while the batch executes, and again, before it ends.
    answers = 0
    while answers < 3:
        assert await gateway.serving("minilm")
        answers += 1
    assert not result.done()
    await gateway.cancel(1)
    assert {item.status for item in (await result).items} == {worker_pb2.ITEM_STATUS_CANCELLED}
