"""Known faults 19 to 23: cancellation and cleanup, on a live fleet."""

import asyncio
from typing import Any

import grpc
import pytest
from tests.faults.conftest import (
    HANG,
    all_counters_are_zero,
    begin,
    endings,
    items,
    one_by_one,
    outcomes,
)
from tests.integration.worker import peers
from tests.support.fleet import (
    RunningGateway,
    ms,
    running_gateway,
    running_worker,
    text_request,
    until,
    until_executing,
    until_live,
)
from tests.support.scripted import scripted
from tests.support.writers import request, running_writer

from headway._core import Rng
from headway.v1 import inference_pb2, inference_pb2_grpc, worker_pb2

S = 1_000_000_000


async def test_fault_19_cancelled_in_the_queue_it_is_never_executed() -> None:
    async with (
        running_gateway() as running,
        running_worker(running, runtime=one_by_one(300), http_port=0) as worker,
    ):
        first = await begin(running)
        second = running.inference.Infer(text_request("second"), timeout=60)
        await until_live(running, 2)
        second.cancel()
        # Its slot is free at once, not when its turn would have come.
        await until_live(running, 1)
        assert not first.done()
        await first
        await running.inference.Infer(text_request("third"), timeout=60)
        assert await items(worker) == {"ok": 2}
        assert await outcomes(running) == {"ok": 2, "CANCELLED": 1}


async def test_fault_19_a_client_that_disconnects_in_the_queue_leaves_it() -> None:
    async with (
        running_gateway() as running,
        running_worker(running, runtime=one_by_one(300), http_port=0) as worker,
    ):
        first = await begin(running)
        options = [("grpc.use_local_subchannel_pool", 1)]
        channel = grpc.aio.insecure_channel(running.addresses["data"], options)
        stub = inference_pb2_grpc.InferenceServiceStub(channel)
        lost = stub.Infer(text_request("second"), timeout=60)
        await until_live(running, 2)
        await channel.close()
        assert lost.cancelled()
        await until_live(running, 1)
        await first
        await all_counters_are_zero(running)
        assert await items(worker) == {"ok": 1}


async def test_fault_19_cancelled_while_executing_the_device_stops() -> None:
    async with (
        running_gateway() as running,
        running_worker(running, runtime=HANG, http_port=0) as worker,
    ):
        for _ in range(3):
            # On a device that hangs, the next one could not begin if the last one still ran.
            call = await begin(running)
            call.cancel()
            await all_counters_are_zero(running)
        assert await items(worker) == {"cancelled": 3}
        assert await outcomes(running) == {"CANCELLED": 3}


async def test_fault_19_a_cancelled_output_gives_its_lane_back() -> None:
    async with (
        running_gateway() as running,
        running_writer(running, runtime={"max_lanes": 1}, http_port=0) as worker,
    ):
        endless = running.inference.InferStream(
            inference_pb2.InferStreamRequest(request=request(tokens=4000)), timeout=60
        )
        await endless.read()
        endless.cancel()
        # The only lane: the next output could not be written beside it.
        answer = await running.inference.Infer(request(tokens=3), timeout=60)
        assert answer.usage.output_units == 3
        assert await items(worker) == {"cancelled": 1, "ok": 1}


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_fault_20_a_storm_of_cancels_leaves_no_counter_behind(seed: int) -> None:
    device = {"intercept_ms": 2, "jitter_ratio": 0.5, "max_requests": 4}
    chance = Rng(seed)
    async with (
        running_gateway() as running,
        running_worker(running, worker_id="w1", runtime=device, http_port=0) as one,
        running_worker(running, worker_id="w2", runtime=device, http_port=0) as two,
    ):
        waiting = {
            asyncio.ensure_future(running.inference.Infer(text_request(f"{n}"), timeout=60))
            for n in range(200)
        }
        ended: list[Any] = []
        # Each answer cancels another call, which may be queued, starting, executing or answered.
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            ended.extend(done)
            for call in list(waiting)[: chance.below(3)]:
                call.cancel()
        await all_counters_are_zero(running)
        told = await endings(ended)
        assert set(told) <= {"ok", "CANCELLED"}
        # Each that came is counted once; one whose answer was on its way may count as answered.
        counted = await outcomes(running)
        assert set(counted) <= {"ok", "CANCELLED"}
        assert sum(counted.values()) <= 200
        assert counted["ok"] >= told.count("ok")
        answer = await running.inference.Infer(text_request("and on"), timeout=60)
        assert answer.attempts == 1
        reached = [await items(one), await items(two)]
        assert sum(each.get("ok", 0) for each in reached) >= counted["ok"]


ENDINGS: dict[str, tuple[dict[str, Any], str]] = {
    "answered": ({"intercept_ms": 2}, "ok"),
    "failed": ({"failures": {"fail": 1}}, "UPSTREAM_FAILURE"),
    "failed at once": ({"failures": {"fail_fast": 1}}, "UPSTREAM_FAILURE"),
    "members missing or extra": ({"failures": {"garbage": 1}}, ""),
    "busy, then answered": ({"failures": {"busy": 0.5}}, "ok"),
    "always busy": ({"failures": {"busy": 1}}, "DEADLINE_EXPIRED"),
    "poison": ({"failures": {"poison": {"marker": "text", "spoils": "batch"}}}, "UPSTREAM_FAILURE"),
    "deadline while it ran": (HANG, "DEADLINE_EXPIRED"),
}


@pytest.mark.parametrize("name", ENDINGS)
async def test_fault_21_every_way_in_which_a_dispatch_ends_is_counted(name: str) -> None:
    device, expected = ENDINGS[name]
    async with running_gateway() as running, running_worker(running, runtime=device):
        calls = [
            running.inference.Infer(text_request(f"text {n}", slo=ms(800)), timeout=60)
            for n in range(6)
        ]
        ended = await endings(calls)
        if expected:
            assert ended == [expected] * 6
        await all_counters_are_zero(running)
        assert sum((await outcomes(running)).values()) == 6


async def test_fault_21_a_dispatch_that_is_lost_with_its_worker_is_counted() -> None:
    async with running_gateway() as running:
        async with running_worker(running, runtime=HANG):
            calls = [
                running.inference.Infer(text_request(f"{n}", slo=ms(1500)), timeout=60)
                for n in range(6)
            ]
            await until_executing(running)
        assert set(await endings(calls)) <= {"DEADLINE_EXPIRED", "UPSTREAM_FAILURE"}
        await all_counters_are_zero(running)


async def test_fault_22_each_hop_gets_the_time_that_is_left() -> None:
    async with scripted() as (running, worker):
        call = running.inference.Infer(text_request(slo=ms(4000)), timeout=60)
        first = await worker.batches.get()
        assert [item.remaining_ns for item in first.items] == [4 * S]
        # A second later it goes out again: with three seconds, not with a fresh default.
        worker.clock.present_ns += S
        worker.say(busy=worker_pb2.BatchBusy(batch_id=first.batch_id, retry_after_ns=1))
        await until(lambda: running.gateway.dispatcher.num_flights() == 0)
        worker.clock.present_ns += S // 2
        second = await worker.batches.get()
        assert [item.remaining_ns for item in second.items] == [5 * S // 2]
        call.cancel()
        await until(lambda: running.gateway.scheduler.num_live() == 0)


async def test_fault_22_the_worker_begins_nothing_whose_time_is_over() -> None:
    # Straight to a worker: the second batch has 50 ms left and waits behind one of 200.
    models = peers.simulated(intercept_ms=200, jitter_ratio=0)
    async with (
        peers.running_worker(models=models, max_outstanding_batches=2) as worker,
        peers.session(worker.addresses["worker"]) as gateway,
    ):
        await gateway.execute(1, [peers.text_item(1, "first")])
        await gateway.execute(2, [peers.text_item(2, "second", remaining_ns=S // 20)])
        first, second = await gateway.result(), await gateway.result()
    assert [item.status for item in first.items] == [worker_pb2.ITEM_STATUS_OK]
    assert [item.status for item in second.items] == [worker_pb2.ITEM_STATUS_EXPIRED]
    assert second.device_ns == 0


async def test_fault_23_of_hundreds_cancelled_at_once_none_runs_on() -> None:
    async with (
        running_gateway() as running,
        running_worker(running, runtime={**HANG, "max_requests": 32}, http_port=0) as worker,
    ):
        calls = [running.inference.Infer(text_request(f"{n}"), timeout=600) for n in range(400)]
        await until_live(running, 400)
        for call in calls:
            call.cancel()
        await all_counters_are_zero(running)
        # What the device had in hand it stopped, or it would hang; nothing was done.
        reached = await items(worker)
        assert set(reached) == {"cancelled"}
        assert await outcomes(running) == {"CANCELLED": 400}
        again = await begin(running)
        again.cancel()
        await all_counters_are_zero(running)


async def test_fault_23_of_many_outputs_cancelled_at_once_none_is_written_on() -> None:
    endless = {"max_lanes": 4, "mean_output_tokens": 1e9}
    async with (
        running_gateway() as running,
        running_writer(running, runtime=endless, http_port=0) as worker,
    ):
        calls = {
            f"r{n}": running.inference.InferStream(
                inference_pb2.InferStreamRequest(request=request(tokens=3000, request_id=f"r{n}")),
                timeout=80_000,
            )
            for n in range(120)
        }
        await _until_streams(running, 120)
        live = running.gateway.streams.live
        await until(lambda: sum(each.attempts for each in live.values()) == 4)
        written = {each.request_id for each in live.values() if each.attempts}
        # Those in the queue first: who leaves a lane makes room for the next one.
        for name in calls.keys() - written:
            calls[name].cancel()
        await _until_streams(running, 4)
        for name in written:
            calls[name].cancel()
        await _until_streams(running, 0)
        answer = await running.inference.Infer(request(tokens=2), timeout=60)
        assert answer.usage.output_units == 2
        reached = await items(worker)
        assert reached["ok"] == 1
        assert reached["cancelled"] == 4


async def _until_streams(running: RunningGateway, count: int) -> None:
    await until(lambda: len(running.gateway.streams.live) == count)
