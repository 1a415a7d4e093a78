"""Known faults 10 to 18: size and rows, members of one batch, classes, the wall clock."""

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
    all_counters_are_zero,
    begin,
    endings,
    items,
    one_by_one,
    refused,
    texts_request,
)
from tests.support.fleet import (
    ms,
    running_gateway,
    running_worker,
    text_request,
    until,
    until_executing,
    until_live,
)
from tests.support.scripted import scripted, steady_stream
from tests.support.writers import read_all, running_writer

from headway.v1 import control_pb2, inference_pb2, types_pb2

MS = 1_000_000
INVALID = grpc.StatusCode.INVALID_ARGUMENT
EXCEEDED = grpc.StatusCode.DEADLINE_EXCEEDED


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


async def turns_beside(
    many: dict[str, Any], few: dict[str, Any], *, num_few: int, batches: int
) -> list[int]:
    """Which of so many batches go to `num_few` requests, beside four of the `many` at any time.

    Checks besides that all of the few are answered in the end.
    """
    async with scripted(intercept_ms=15) as (running, worker):

        def ask(text: str, fields: dict[str, Any]) -> Any:
            return running.inference.Infer(text_request(text, **fields), timeout=60)

        # A unit of text each, so that size decides nothing.
        waiting = [ask("few", few) for _ in range(num_few)]
        await until_live(running, num_few)
        await steady_stream(
            running,
            worker,
            lambda: ask("many", many),
            waiting,
            at_once=4,
            batches=batches + 1,
        )
        order = [text for batch in worker.executed[1 : batches + 1] for text in batch]
        worker.resume()
        assert await endings(waiting) == ["ok"] * num_few
    return [n for n, text in enumerate(order) if text == "few"]


async def test_fault_12_bulk_and_interactive_work_bound_each_other() -> None:
    bulk = {"lane": BULK, "slo": ms(60_000)}
    turns = await turns_beside({"slo": ms(30_000)}, bulk, num_few=40, batches=160)
    # Aged bulk work has its 5 % of device time, one in twenty: never nothing, never more.
    assert 6 <= len(turns) <= 8
    assert {later - earlier for earlier, later in pairwise(turns)} == {20}


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
        # Both tokens come in one part where the gateway is behind.
        assert (await first_of_long).delta.token_ids[0] == 1
        _, final = await read_all(long)
        assert (final.usage.prompt_units, final.usage.output_units) == (60_000, 2)


async def test_fault_17_the_low_class_is_served_beside_a_steady_stream_of_the_high_one() -> None:
    high, low = ({"priority": priority, "slo": ms(20_000)} for priority in (CRITICAL, SHEDDABLE))
    turns = await turns_beside(high, low, num_few=30, batches=200)
    # The bound: 2 % of device time for a class that others would starve, one in fifty.
    assert 3 <= len(turns) <= 5
    assert {later - earlier for earlier, later in pairwise(turns)} == {50}


def step_wall_clock(monkeypatch: pytest.MonkeyPatch, step_s: int) -> None:
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() + step_s)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + step_s * 1_000_000_000)


# gRPC's own clock cannot be stepped from a test, so the deadlines are in the requests.
# Deadlines and leases are beyond any pause of a busy machine, and the longest step beyond them.
@pytest.mark.parametrize("step_s", [-3, 10, 1000])
async def test_fault_18_a_step_of_the_wall_clock_ends_nothing_and_loses_no_worker(
    step_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        running_gateway(lease_seconds=90) as running,
        running_worker(running, runtime=one_by_one(60)),
    ):
        calls = [
            running.inference.Infer(text_request(f"{n}", slo=ms(300_000)), timeout=None)
            for n in range(8)
        ]
        await until_live(running, 8)
        step_wall_clock(monkeypatch, step_s)
        answers = [await call for call in calls]
        assert [answer.attempts for answer in answers] == [1] * 8
        late = running.inference.Infer(text_request("still there", slo=ms(300_000)), timeout=None)
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
