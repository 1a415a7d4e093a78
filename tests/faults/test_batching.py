"""Known faults 1 to 18: batching and deadlines, on a live fleet."""

import asyncio
import hashlib
import time  # noqa: TID251 - only to step it
import zlib
from itertools import pairwise
from typing import Any

import grpc
import numpy as np
import pytest
from tests.faults.conftest import (
    BULK,
    CRITICAL,
    HANG,
    SHEDDABLE,
    HeldClock,
    ScriptedWorker,
    all_counters_are_zero,
    begin,
    endings,
    items,
    ms,
    one_by_one,
    outcomes,
    refused,
    scripted,
    steady_stream,
    texts_request,
    until,
)
from tests.support.fleet import (
    running_gateway,
    running_worker,
    text_request,
    until_executing,
    until_live,
)
from tests.support.writers import read_all, running_writer

from headway._core import CostModel
from headway.sim import Device, Fleet, Policy, PolicyKind, Workload, simulate
from headway.v1 import control_pb2, inference_pb2, types_pb2

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


class TestFault10:
    """Prompt length has a price everywhere. A unit is four bytes of text."""

    async def test_fault_10_length_counts_in_the_cost(self) -> None:
        device = {"intercept_ms": 2, "slope_ms_per_unit": 0.5, "jitter_ratio": 0}
        async with running_gateway() as running, running_worker(running, runtime=device):
            for units, predicted_ms in ((4, 4), (40, 22), (100, 52)):
                answer = await running.inference.Infer(text_request("x" * 4 * units), timeout=30)
                assert answer.usage.prompt_units == units
                predicted_ns = answer.batch.predicted_device.ToNanoseconds()
                # By the prior, which is the truth; later ones by what was measured.
                assert predicted_ns == pytest.approx(predicted_ms * MS, rel=0.01)

    async def test_fault_10_length_counts_against_the_quota(self) -> None:
        secret = "hw_aaaaaaaa_" + "s" * 32
        key = {"key_id": "aaaaaaaa", "sha256": hashlib.sha256(secret.encode()).hexdigest()}
        tenant = {"units_per_second": 0.001, "burst_units": 100, "keys": [key]}
        metadata = (("authorization", f"Bearer {secret}"),)
        async with (
            running_gateway(
                insecure_no_auth=False, fleet_token="fleet", tenants={"t": tenant}
            ) as running,
            running_worker(running, wait=False, fleet_token="fleet"),
        ):
            await running.until_serving("sim")

            def ask(units: int) -> Any:
                request = text_request("x" * 4 * units)
                return running.inference.Infer(request, metadata=metadata, timeout=30)

            await ask(90)
            assert (await refused(ask(20))).reason == "QUOTA_EXCEEDED"
            await ask(10)
            never = await refused(ask(101))
            assert (never.code, never.retry_ns) == (INVALID, None)

    async def test_fault_10_length_counts_in_the_batch_and_the_worker_s_limit_holds(self) -> None:
        device = {"intercept_ms": 100, "jitter_ratio": 0, "max_units": 100}
        async with running_gateway() as running, running_worker(running, runtime=device):
            first = await begin(running)
            calls = [
                running.inference.Infer(text_request("x" * 4 * 40), timeout=60) for _ in range(5)
            ]
            answers = [await call for call in calls]
            assert max(answer.batch.units for answer in answers) <= 100
            assert max(answer.batch.size for answer in answers) == 2
            await first
            told = await refused(running.inference.Infer(text_request("x" * 404), timeout=60))
            assert (told.code, told.retry_ns) == (INVALID, None)
            assert "101" in told.message
            assert "100" in told.message


async def test_fault_11_rows_count_against_the_batch_limit() -> None:
    device = {"intercept_ms": 100, "jitter_ratio": 0, "max_rows": 32}
    async with running_gateway() as running, running_worker(running, runtime=device):
        first = await begin(running)
        wide = texts_request(*(f"row {n}" for n in range(31)))
        calls = [running.inference.Infer(each, timeout=60) for each in (wide, wide)]
        calls += [running.inference.Infer(text_request(f"{n}"), timeout=60) for n in range(2)]
        answers = [await call for call in calls]
        # Each of the wide ones has room for one more row, and no batch is above the limit.
        assert sorted((a.batch.rows, a.batch.size) for a in answers) == [(32, 2)] * 4
        await first
        told = await refused(
            running.inference.Infer(texts_request(*(f"row {n}" for n in range(33))), timeout=60)
        )
        assert (told.code, told.retry_ns) == (INVALID, None)
        assert "33" in told.message
        assert "32" in told.message


async def test_fault_12_bulk_and_interactive_work_bound_each_other() -> None:
    async with scripted(intercept_ms=15) as (running, worker):

        def ask(text: str, **fields: Any) -> Any:
            return running.inference.Infer(text_request(text, **fields), timeout=60)

        bulk = [ask("bulk", lane=BULK, slo=ms(60_000)) for _ in range(40)]
        await until_live(running, 40)
        await steady_stream(
            running,
            worker,
            lambda: ask("soon", slo=ms(30_000)),
            bulk,
            at_once=4,
            batches=161,
        )
        order = [text for batch in worker.executed[1:161] for text in batch]
        # Aged bulk work has its 5 % of device time, one in twenty: never nothing, never more.
        turns = [n for n, text in enumerate(order) if text == "bulk"]
        assert 6 <= len(turns) <= 8
        assert {later - earlier for earlier, later in pairwise(turns)} == {20}
        worker.resume()
        assert await endings(bulk) == ["ok"] * 40


async def test_fault_13_a_member_that_leaves_its_batch_harms_nobody() -> None:
    device = {"intercept_ms": 250, "jitter_ratio": 0}
    async with (
        running_gateway() as running,
        running_worker(running, runtime=device, http_port=0) as worker,
    ):
        first = await begin(running)
        members = [running.inference.Infer(text_request(f"{n}"), timeout=60) for n in range(4)]
        await until_live(running, 5)
        await first
        await until_executing(running)
        members[1].cancel()
        assert await endings(members) == ["ok", "CANCELLED", "ok", "ok"]
        assert (await members[0]).batch.size == 4
        await running.inference.Infer(text_request("the loop lives"), timeout=60)
        await all_counters_are_zero(running)
        assert await items(worker) == {"ok": 5, "cancelled": 1}


async def test_fault_14_each_gets_exactly_its_own_rows() -> None:
    async with (
        running_gateway() as running,
        running_worker(running, runtime={"intercept_ms": 100, "jitter_ratio": 0}),
    ):
        first = await begin(running)
        rows = [[f"row {n} of {count}" + "!" * n for n in range(count)] for count in (1, 3, 7)]
        calls = [running.inference.Infer(texts_request(*each), timeout=60) for each in rows]
        answers = [await call for call in calls]
        await first
        assert {answer.batch.rows for answer in answers} == {11}
        for texts, answer in zip(rows, answers, strict=True):
            # The simulated model answers each row with its length and its CRC-32.
            (digest,) = answer.output.tensors
            read = np.frombuffer(digest.data, np.int64).reshape(tuple(digest.shape))
            assert read.tolist() == [[len(t), zlib.crc32(t.encode())] for t in texts]


@pytest.mark.parametrize("spoils", ["item", "batch"])
async def test_fault_15_a_poison_request_fails_alone(spoils: str) -> None:
    device = {
        "intercept_ms": 30,
        "jitter_ratio": 0,
        "failures": {"poison": {"marker": "poison", "spoils": spoils}},
    }
    async with running_gateway() as running, running_worker(running, runtime=device):
        first = await begin(running)
        calls = [
            running.inference.Infer(text_request("poison" if n == 5 else f"{n}"), timeout=60)
            for n in range(16)
        ]
        ended = await endings(calls)
        await first
        assert [n for n, each in enumerate(ended) if each != "ok"] == [5]
        assert ended[5] == "UPSTREAM_FAILURE"
        # Its worker stays in service.
        state = await running.control.GetState(control_pb2.GetStateRequest(), timeout=5)
        (replica,) = state.state.replicas
        assert replica.condition == control_pb2.REPLICA_CONDITION_READY
        await running.inference.Infer(text_request("an innocent one"), timeout=60)


async def test_fault_16_small_ones_pass_a_head_that_does_not_fit_and_it_is_served() -> None:
    async with scripted(intercept_ms=40, max_requests=8, max_units=100) as (running, worker):

        def ask(letter: str, units: int, slo_ms: int = 6000) -> Any:
            request = text_request(letter * 4 * units, slo=ms(slo_ms))
            return running.inference.Infer(request, timeout=60)

        first = ask("a", 5)
        await until(lambda: len(worker.executed) == 1)
        head = ask("b", 60, 3000)
        await until_live(running, 2)
        # It does not fit beside the head; what comes behind does.
        large = ask("c", 80, 5900)
        await until_live(running, 3)
        passed = ask("d", 20)
        await until_live(running, 4)
        worker.work(await worker.batches.get())
        await first
        second = await worker.batches.get()
        assert sorted(item.input.text[0] for item in second.items) == ["b", "d"]
        worker.batches.put_nowait(second)
        # Bounded: a steady stream of small ones, which it never fits beside, does not keep it out.
        await steady_stream(
            running, worker, lambda: ask("e", 40), [head, large, passed], at_once=4, batches=200
        )
        assert (await large).usage.prompt_units == 80


async def test_fault_16_a_huge_prompt_does_not_hold_up_a_small_one_nor_wait_for_ever() -> None:
    memory = {"context": 200_000, "kv_tokens": 400_000, "surface": "gpu", "max_lanes": 8}
    huge = types_pb2.Input(token_ids=types_pb2.TokenIds(ids=[1] * 60_000))
    small = types_pb2.Input(token_ids=types_pb2.TokenIds(ids=[1] * 101))

    def ask(value: types_pb2.Input) -> Any:
        request = inference_pb2.InferRequest(model="writer", input=value, max_output_units=2)
        return inference_pb2.InferStreamRequest(request=request)

    async with running_gateway() as running, running_writer(running, runtime=memory):
        long = running.inference.InferStream(ask(huge), timeout=60)
        first_of_long = asyncio.ensure_future(long.read())
        await until(lambda: len(running.gateway.streams.live) == 1)
        for _ in range(3):
            _, final = await read_all(running.inference.InferStream(ask(small), timeout=60))
            assert final.usage.prompt_units == 101
            assert not first_of_long.done()
        # And beside a steady stream of small ones the huge one ends all the same.
        while not first_of_long.done():
            await read_all(running.inference.InferStream(ask(small), timeout=60))
        assert (await first_of_long).delta.token_ids == [1]


async def test_fault_17_the_low_class_is_served_beside_a_steady_stream_of_the_high_one() -> None:
    async with scripted(intercept_ms=15) as (running, worker):

        def ask(text: str, **fields: Any) -> Any:
            return running.inference.Infer(text_request(text, **fields), timeout=60)

        low = [ask("low", priority=SHEDDABLE, slo=ms(20_000)) for _ in range(30)]
        await until_live(running, 30)
        await steady_stream(
            running,
            worker,
            lambda: ask("high", priority=CRITICAL, slo=ms(20_000)),
            low,
            at_once=4,
            batches=201,
        )
        order = [text for batch in worker.executed[1:201] for text in batch]
        # The bound: 2 % of device time for a class that others would starve, one in fifty.
        turns = [n for n, text in enumerate(order) if text == "low"]
        assert 3 <= len(turns) <= 5
        assert {later - earlier for earlier, later in pairwise(turns)} == {50}
        worker.resume()
        assert await endings(low) == ["ok"] * 30


def step_wall_clock(monkeypatch: pytest.MonkeyPatch, step_s: int) -> None:
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() + step_s)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + step_s * 1_000_000_000)


# gRPC's own clock cannot be stepped from a test, so the deadlines are in the requests.
@pytest.mark.parametrize("step_s", [-3, 10])
async def test_fault_18_a_step_of_the_wall_clock_ends_nothing_and_loses_no_worker(
    step_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        running_gateway(lease_seconds=3) as running,
        running_worker(running, runtime=one_by_one(60)),
    ):
        calls = [
            running.inference.Infer(text_request(f"{n}", slo=ms(9000)), timeout=None)
            for n in range(8)
        ]
        await until_live(running, 8)
        step_wall_clock(monkeypatch, step_s)
        answers = [await call for call in calls]
        assert [answer.attempts for answer in answers] == [1] * 8
        late = running.inference.Infer(text_request("still there", slo=ms(9000)), timeout=None)
        assert (await late).replica == "w1"


@pytest.mark.parametrize("step_s", [-3, 10])
async def test_fault_18_a_step_of_the_wall_clock_moves_no_deadline(
    step_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_gateway() as running, running_worker(running, runtime=HANG):
        begun = asyncio.get_running_loop().time()
        call = await begin(running, slo=ms(600))
        step_wall_clock(monkeypatch, step_s)
        assert (await refused(call)).reason == "DEADLINE_EXPIRED"
        assert 0.6 <= asyncio.get_running_loop().time() - begun < 3
