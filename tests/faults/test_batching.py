"""Known faults 1 to 9: batching and deadlines, on a live fleet."""

import asyncio

import grpc
import pytest
from tests.faults.conftest import (
    CRITICAL,
    HANG,
    SHEDDABLE,
    all_counters_are_zero,
    begin,
    endings,
    items,
    one_by_one,
    outcomes,
    refused,
)
from tests.support.fleet import ms, running_gateway, running_worker, text_request, until, until_live
from tests.support.scripted import HeldClock, ScriptedWorker, scripted

from headway._core import CostModel
from headway.sim import Device, Fleet, Policy, PolicyKind, Workload, simulate
from headway.v1 import control_pb2, inference_pb2

MS = 1_000_000
INVALID = grpc.StatusCode.INVALID_ARGUMENT
EXCEEDED = grpc.StatusCode.DEADLINE_EXCEEDED


async def test_fault_01_feasible_on_arrival_is_judged_again_at_dispatch() -> None:
    async with scripted(intercept_ms=300) as (running, worker):
        first = running.inference.Infer(text_request("first"), timeout=60)
        await until(lambda: worker.executed == [["first"]])
        # Alone it would end after 300 ms; behind the first it can begin after 300.
        doomed = running.inference.Infer(text_request("doomed", slo=ms(450)), timeout=60)
        fine = running.inference.Infer(text_request("fine", slo=ms(900)), timeout=60)
        await until_live(running, 3)
        worker.resume()
        assert (await first).output.text == "first"
        assert (await fine).output.text == "fine"
        told = await refused(doomed)
        assert (told.code, told.reason) == (EXCEEDED, "DEADLINE_EXPIRED")
        assert "while it was queued" in told.message
        assert worker.executed == [["first"], ["fine"]]


def test_fault_01_nothing_is_run_that_cannot_end_in_time() -> None:
    """In simulation, where a device without noise shows it exactly: nobody is answered late.

    197.5/s is what first-come-first-served with this rule alone reaches on this workload.
    """
    trace = Workload.reference(260, duration_s=60).draw(10001)
    steady = Fleet(device=Device(noise=0))
    report = simulate(trace, steady, Policy(prior_intercept_ms=18, prior_slope_ms=0.022))
    assert report.summary()["late_per_s"] == 0
    assert report.goodput_per_s() > 197.5


async def test_fault_02_overload_executes_nothing_for_nothing() -> None:
    async with scripted(intercept_ms=50) as (running, worker):
        # Five times of what the device can serve within the deadline, which is 20.
        calls = [
            running.inference.Infer(text_request(f"{n}", slo=ms(1010)), timeout=60)
            for n in range(100)
        ]
        await until(lambda: len(worker.executed) == 1)
        await until_live(running, 100)
        worker.resume()
        ended = await endings(calls)
        # Earliest deadline first, feasible on arrival and not judged again: 20 in time, 80 late.
        assert ended.count("ok") == 20
        assert set(ended) == {"ok", "DEADLINE_EXPIRED"}
        assert len(worker.executed) == 20


def test_fault_02_goodput_stays_flat_far_above_capacity() -> None:
    """In simulation: 8 s at 1 and 3 times the capacity of 221/s, where EDF falls to a third."""
    capacity = Device().capacity_per_s(Workload.reference(1))
    at_once, thrice = (
        Workload.reference(factor * capacity, duration_s=8).draw(10001) for factor in (1, 3)
    )
    edf = Policy(kind=PolicyKind.EARLIEST_DEADLINE)
    assert simulate(thrice).goodput_per_s() >= 0.9 * simulate(at_once).goodput_per_s()
    collapsed = simulate(thrice, policy=edf).goodput_per_s()
    assert collapsed <= simulate(at_once, policy=edf).goodput_per_s() / 2


async def test_fault_03_who_is_admitted_keeps_its_place_before_later_arrivals() -> None:
    async with scripted() as (running, worker):
        admitted = [
            running.inference.Infer(text_request(f"{n}", slo=ms(600)), timeout=60) for n in range(5)
        ]
        await until_live(running, 5)
        later = [
            running.inference.Infer(text_request("later", slo=ms(1050)), timeout=60)
            for n in range(20)
        ]
        await until_live(running, 25)
        worker.resume()
        # 25 requests of 100 ms: no more than five of those behind can be in time.
        assert await endings(admitted) == ["ok"] * 5
        assert (await endings(later)).count("ok") == 5
        assert sorted(worker.executed[:5]) == [[f"{n}"] for n in range(5)]


async def test_fault_03_where_value_overtakes_it_is_counted() -> None:
    async with scripted() as (running, worker):
        first = running.inference.Infer(text_request("first"), timeout=60)
        await until(lambda: worker.executed == [["first"]])
        cheap = running.inference.Infer(
            text_request("cheap", priority=SHEDDABLE, slo=ms(350)), timeout=60
        )
        await until_live(running, 2)
        dear = [
            running.inference.Infer(
                text_request("dear", priority=CRITICAL, slo=ms(2000)), timeout=60
            )
            for _ in range(4)
        ]
        await until_live(running, 6)
        worker.resume()
        assert await endings([first, *dear]) == ["ok"] * 5
        assert (await refused(cheap)).reason == "DEADLINE_EXPIRED"
        assert worker.executed == [["first"], *([["dear"]] * 4)]
        assert await outcomes(running) == {"ok": 5, "DEADLINE_EXPIRED": 1}


async def test_fault_04_an_idle_device_never_waits_for_company() -> None:
    # The gateway's clock stands still: a linger of any length would never end.
    async with running_gateway(clock=HeldClock()) as running, running_worker(running):
        answer = await running.inference.Infer(text_request(), timeout=30)
        assert answer.timings.queued.ToNanoseconds() == 0
        assert answer.batch.size == 1
        assert answer.batch.reason == inference_pb2.BATCH_REASON_QUEUE_EMPTIED


async def test_fault_05_a_device_that_was_slow_is_trusted_again_within_seconds() -> None:
    async with scripted(intercept_ms=10) as (running, worker):
        worker.resume()
        worker.device_ns = 400 * MS
        for _ in range(8):
            await running.inference.Infer(text_request("slow"), timeout=60)
        worker.device_ns = 10 * MS
        # By what was learned, 400 ms would be needed: each of these is refused, but for probes.
        request = text_request("quick again?", slo=ms(100))
        begun_ns, in_a_row, refusals = worker.clock.present_ns, 0, 0
        while in_a_row < 20:
            (ended,) = await endings([running.inference.Infer(request, timeout=60)])
            if ended == "ok":
                in_a_row += 1
            else:
                in_a_row, refusals = 0, refusals + 1
                worker.clock.present_ns += 50 * MS  # the next request comes a little later
        assert refusals > 0
        assert worker.clock.present_ns - begun_ns < 5_000 * MS


@pytest.mark.parametrize("slope_ns", [0, 22_000])
def test_fault_06_same_size_batches_do_not_turn_the_fit_over(slope_ns: int) -> None:
    """In the core: 200 batches of 100 units, then larger ones get quicker."""
    model = CostModel(prior_intercept_ns=18 * MS, prior_slope_ns=slope_ns)
    for n in range(200):
        model.observe(100, 20 * MS + (n % 5 - 2) * MS)
    assert model.predict_ns(100) == pytest.approx(20 * MS, rel=0.05)
    assert model.predict_ns(1000) <= 40 * MS
    for n in range(200):
        model.observe(100 + n, 20 * MS - n * 20_000)
        assert model.intercept_ns >= 0
        assert model.slope_ns >= 0
        assert 0 < model.predict_ns(1) <= model.predict_ns(10_000)


async def test_fault_06_a_live_fit_of_same_size_batches_stays_sane() -> None:
    async with (
        running_gateway() as running,
        running_worker(running, runtime={**one_by_one(4), "jitter_ratio": 0.5}),
    ):
        for _ in range(40):
            await running.inference.Infer(text_request("of one size"), timeout=30)
        state = await running.control.GetState(control_pb2.GetStateRequest(), timeout=5)
        (pool,) = state.state.pools
        assert pool.cost.num_observations == 40
        assert pool.cost.slope_ns_per_unit >= 0
        assert 2 * MS <= pool.cost.intercept.ToNanoseconds() <= 6 * MS


async def test_fault_07_a_deadline_on_the_device_is_answered_at_the_deadline() -> None:
    async with (
        running_gateway() as running,
        running_worker(running, runtime=HANG, http_port=0) as worker,
    ):
        begun = asyncio.get_running_loop().time()
        told = await refused(running.inference.Infer(text_request(slo=ms(150)), timeout=60))
        took_s = asyncio.get_running_loop().time() - begun
        assert (told.code, told.reason) == (EXCEEDED, "DEADLINE_EXPIRED")
        assert "while it ran" in told.message
        assert 0.15 <= took_s < 5
        # The device is free again, nothing was answered late, and it counts as missed.
        await all_counters_are_zero(running)
        assert await items(worker) == {"cancelled": 1}
        assert await outcomes(running) == {"DEADLINE_EXPIRED": 1}


async def test_fault_08_a_deadline_behind_a_long_run_is_answered_at_the_deadline() -> None:
    async with (
        running_gateway() as running,
        running_worker(running, runtime=HANG, http_port=0) as worker,
    ):
        endless = await begin(running)
        begun = asyncio.get_running_loop().time()
        told = await refused(running.inference.Infer(text_request(slo=ms(150)), timeout=60))
        took_s = asyncio.get_running_loop().time() - begun
        assert (told.code, told.reason) == (EXCEEDED, "DEADLINE_EXPIRED")
        assert "while it was queued" in told.message
        assert 0.15 <= took_s < 5
        endless.cancel()
        await all_counters_are_zero(running)
        assert await items(worker) == {"cancelled": 1}


async def test_fault_09_an_idle_replica_beside_a_busy_one_takes_the_work() -> None:
    async with running_gateway() as running:
        async with running_worker(running, worker_id="busy", runtime=HANG):
            endless = await begin(running)
            async with running_worker(running, worker_id="idle"):
                answers = [
                    await running.inference.Infer(text_request(slo=ms(5000)), timeout=60)
                    for _ in range(5)
                ]
                assert {answer.replica for answer in answers} == {"idle"}
            endless.cancel()


async def test_fault_09_the_whole_fleet_counts_when_work_is_judged() -> None:
    async with scripted(worker_id="w1") as (running, one):
        others = [ScriptedWorker(one.clock, worker_id=f"w{n}") for n in (2, 3)]
        for worker in others:
            await worker.join(running)
        # One after the other they would take 300 ms; side by side all are in time.
        calls = [
            running.inference.Infer(text_request(f"{n}", slo=ms(150)), timeout=60) for n in range(3)
        ]
        workers = [one, *others]
        await until(lambda: [len(worker.executed) for worker in workers] == [1, 1, 1])
        for call in calls:
            call.cancel()
        await until_live(running, 0)
        for worker in others:
            await worker.close()
