"""What became of a request, in words that somebody who did not write them can follow."""

import asyncio
import itertools
import re
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from tests.support.fleet import (
    RunningGateway,
    refusal,
    running_gateway,
    running_worker,
    text_request,
)
from tests.support.operating import operator

from headway import errors
from headway.client import Client, ControlClient
from headway.v1 import control_pb2, types_pb2


def masked(sentences: Any) -> list[str]:
    """Without the figures that differ from run to run: times, and shares of the way."""
    text = [re.sub(r"-?\d+\.\d+ (ms|s)\b", "T", sentence) for sentence in sentences]
    text = [re.sub(r"[\d.]+ % of the way", "P of the way", sentence) for sentence in text]
    return [re.sub(r"[\d.]+ times", "X times", sentence) for sentence in text]


async def told(control: ControlClient, request_id: str) -> list[str]:
    return masked((await control.explain(request_id)).sentences)


def client_of(running: RunningGateway) -> Client:
    return Client(running.addresses["data"])


DEVICE = {"intercept_ms": 5, "jitter_ratio": 0}


async def test_a_served_request() -> None:
    async with (
        running_gateway() as running,
        running_worker(running, runtime=DEVICE),
        running_worker(running, worker_id="w2", version="v2", runtime=DEVICE),
        operator(running) as control,
        client_of(running) as client,
    ):
        await running.until_serving("sim/v2")
        await control.set_split("sim", {"v1": 0.75, "v2": 0.25})
        answer = await client.infer(text_request("x" * 40, request_id="mine"), timeout_s=5)
        replica = f"{answer.replica}/sim/{answer.version}"
        other = {"v1": "v1's part", "v2": "v2's part"}[answer.version]
        assert await told(control, "mine") == [
            "Request mine of tenant anonymous arrived T ago for model sim, to be answered within "
            "T; its work was estimated at 10 units in 1 row.",
            "It was admitted with priority standard, lane interactive and weight 1: its tenant's "
            "quota had room, its deadline looked reachable and the queue was below its bound; the "
            "gateway then had 1 request in flight, this one included.",
            f"Version {answer.version} was chosen by the traffic split (v1 75 %, v2 25 %): the "
            f"hash of its key falls at P of the way, which is {other}.",
            "At its arrival 0 other requests with 0 units were queued for that version and 0 "
            "requests executing; the fleet needed about T for all of it.",
            f"After T in the queue it went to replica {replica} alone in batch 1, 10 units in all; "
            "the batch was closed because everything queued that could run was in it. It was "
            "predicted to take T of device time, which left T to its deadline.",
            "The device took T, X times the prediction.",
            "It was answered after T, T before its deadline.",
        ]
        record = (await control.explain("mine")).record
        assert (record.outcome, record.version, record.version_reason) == (
            "ok", answer.version, "split",
        )  # fmt: skip
        assert {s.version: s.share for s in record.shares} == {"v1": 0.75, "v2": 0.25}
        lies_in_v1 = record.split_point < 0.75
        assert answer.version == ("v1" if lies_in_v1 else "v2")
        assert record.attempts[0].batch.id == answer.batch.id
        assert record.timings.total == answer.timings.total


async def test_batch_companions_and_the_choice_of_a_replica() -> None:
    async with (
        running_gateway() as running,
        running_worker(running, runtime=DEVICE),
        running_worker(running, worker_id="w2", runtime=DEVICE),
        operator(running) as control,
        client_of(running) as client,
    ):
        await running.until_serving()
        names = [f"r{number}" for number in range(3)]
        await asyncio.gather(
            *(client.infer(text_request(request_id=name), timeout_s=5) for name in names)
        )
        found = [(await control.explain(name)).record.attempts[0] for name in names]
        largest = max(found, key=lambda attempt: attempt.batch.size)
        assert len(largest.companion_ids) == largest.batch.size - 1
        weighed = [attempt for attempt in found if attempt.other_replica]
        assert weighed
        assert {weighed[0].replica, weighed[0].other_replica} == {"w1/sim/v1", "w2/sim/v1"}
        assert weighed[0].score.ToNanoseconds() <= weighed[0].other_score.ToNanoseconds()
        texts = [await told(control, name) for name in names]
        assert any(
            "looked cheaper: T of expected wait and service against T." in sentence
            for text in texts
            for sentence in text
        )


async def test_the_price_of_a_request() -> None:
    async with (
        running_gateway() as running,
        running_worker(running, runtime=DEVICE),
        operator(running) as control,
        client_of(running) as client,
    ):
        await running.until_serving()
        await client.infer(text_request("x" * 400, request_id="first"), timeout_s=5)
        await client.infer(text_request("x" * 400, request_id="second"), timeout_s=5)
        assert not any("a second of device time" in each for each in await told(control, "first"))
        seen = (await control.explain("second")).record.admission
        assert (
            f"For a second of device time it offered a value of {seen.offered_per_second:,.3g}, "
            f"where the batches of late earned {seen.earned_per_second:,.3g}."
        ) in await told(control, "second")
        # The first went alone, and bore all of the fixed cost; a full batch would share it.
        assert seen.offered_per_second > 2 * seen.earned_per_second > 0


async def test_a_pinned_request() -> None:
    async with (
        running_gateway() as running,
        running_worker(running),
        operator(running) as control,
        client_of(running) as client,
    ):
        await client.infer(text_request(request_id="mine", version="v1"), timeout_s=5)
        assert "Version v1 was asked for by the caller." in await told(control, "mine")


async def test_a_shed_request_is_found_by_the_id_in_its_error() -> None:
    async with (
        running_gateway() as running,
        running_worker(running, runtime={"intercept_ms": 200, "jitter_ratio": 0}),
        operator(running) as control,
        client_of(running) as client,
    ):
        for _ in range(5):
            await client.infer(text_request(), timeout_s=10)
        hopeless = text_request(slo=Duration(nanos=50_000_000))
        with pytest.raises(errors.DeadlineUnreachable) as caught:
            await client.infer(hopeless, timeout_s=10)
        request_id = caught.value.metadata["request_id"]
        text = await told(control, request_id)
        assert len(text) == 4
        assert text[1] == (
            "It was refused at the door (DEADLINE_UNREACHABLE): sim would need T and the deadline "
            "leaves T; allow more time or send less."
        )
        assert text[2] == "Version v1 gets all of the model's traffic."


async def test_a_request_that_was_retried_after_its_worker_was_lost() -> None:
    async with (
        running_gateway() as running,
        operator(running) as control,
        client_of(running) as client,
    ):
        async with running_worker(running, worker_id="w1", runtime={"failures": {"hang": 1}}):
            waiting = asyncio.ensure_future(
                client.infer(text_request(request_id="mine"), timeout_s=30)
            )
            while not (await control.state()).pools[0].executing_batches:
                pass
            running.gateway.fleet.take_drains({"w1": False}, full=True)
            await control.drain("w1")
            worker = running.gateway.fleet.worker("w1")
            running.gateway.fleet.deregister(worker.lease_id)
        async with running_worker(running, worker_id="w2"):
            assert (await waiting).attempts == 2
        text = await told(control, "mine")
        assert [sentence for sentence in text if "lost" in sentence] == [
            "The connection to the worker was lost before an answer; the request went back to the "
            "queue."
        ]
        assert text[4].startswith("Attempt 1: after T in the queue it went to replica w1/sim/v1")
        assert text[6].startswith("Attempt 2: after T in the queue it went to replica w2/sim/v1")
        record = (await control.explain("mine")).record
        assert [attempt.outcome for attempt in record.attempts] == ["lost", "ok"]


async def test_a_request_whose_deadline_passed_while_it_ran() -> None:
    async with (
        running_gateway() as running,
        running_worker(running, runtime={"failures": {"hang": 1}}),
        operator(running) as control,
        client_of(running) as client,
    ):
        with pytest.raises(errors.DeadlineExpired):
            slow = text_request(request_id="mine", slo=Duration(nanos=200_000_000))
            await client.infer(slow, timeout_s=30)
        text = await told(control, "mine")
        assert (
            text[-1] == "It ended with DEADLINE_EXPIRED after T: its deadline passed while it ran."
        )
        record = (await control.explain("mine")).record
        assert [attempt.outcome for attempt in record.attempts] == ["expired"]


async def test_a_poisoned_request_among_healthy_ones() -> None:
    poison = {"failures": {"poison": {}}}
    async with (
        running_gateway() as running,
        running_worker(running, runtime=poison),
        operator(running) as control,
        client_of(running) as client,
    ):
        await client.infer(text_request("good", request_id="good"), timeout_s=5)
        with pytest.raises(errors.UpstreamFailure):
            await client.infer(text_request("poison", request_id="bad"), timeout_s=5)
        text = await told(control, "bad")
        why = "the input holds the poison marker 'poison'"
        assert text[-2] == f"The batch failed as a whole ({why}); no attempt or time was left."
        assert text[-1] == (
            "It ended with UPSTREAM_FAILURE after T: it was begun X times without an answer: "
            f"{why}."
        )
        record = (await control.explain("bad")).record
        assert [attempt.outcome for attempt in record.attempts] == ["failed"] * 3
        assert (await control.explain("good")).record.attempts[-1].outcome == "ok"


async def test_a_poisoned_request_whose_companion_was_answered() -> None:
    poison = {"intercept_ms": 1000, "jitter_ratio": 0, "failures": {"poison": {}}}
    async with (
        running_gateway() as running,
        running_worker(running, runtime=poison),
        operator(running) as control,
        client_of(running) as client,
    ):
        # While the first is on the device, the two behind it come to share a batch; the device is
        # slow, so that they are there by then on a busy machine too.
        first = asyncio.ensure_future(client.infer(text_request("first"), timeout_s=60))
        while not (await control.state()).pools[0].executing_batches:
            pass
        results = await asyncio.gather(
            client.infer(text_request("good", request_id="good"), timeout_s=60),
            client.infer(text_request("poison", request_id="bad"), timeout_s=60),
            return_exceptions=True,
        )
        await first
        assert not isinstance(results[0], BaseException)
        assert isinstance(results[1], errors.UpstreamFailure)
        text = await told(control, "bad")
        assert text[-2:] == [
            "The replica answered the others of its batch, and for this request with an error.",
            "It ended with UPSTREAM_FAILURE after T: the model failed on it: the input holds the "
            "poison marker 'poison'.",
        ]


async def test_a_cancelled_and_a_live_request() -> None:
    async with (
        running_gateway() as running,
        running_worker(running, runtime={"failures": {"hang": 1}}),
        operator(running) as control,
    ):
        call = running.inference.Infer(text_request(request_id="mine"), timeout=60)
        while not (await control.state()).pools[0].executing_batches:
            pass
        assert (await told(control, "mine"))[-1] == "It is executing now, T after its arrival."
        call.cancel()
        while (await control.state()).gateway.inflight_requests:
            pass
        assert (await told(control, "mine"))[-1] == (
            "It ended with CANCELLED after T: the caller left."
        )


async def test_only_the_newest_requests_are_kept() -> None:
    async with (
        running_gateway(explained_requests=3) as running,
        running_worker(running),
        operator(running) as control,
        client_of(running) as client,
    ):
        for number in range(4):
            await client.infer(text_request(request_id=f"r{number}"), timeout_s=5)
        assert (await control.explain("r1")).record.outcome == "ok"
        with pytest.raises(errors.NotFound, match="among the last 3 of this gateway"):
            await control.explain("r0")
        with pytest.raises(errors.InvalidRequest):
            await control.explain("")


async def test_a_refused_input_is_not_kept() -> None:
    async with running_gateway() as running, operator(running) as control:
        request = text_request("secret words", request_id="mine", weight=-1)
        with pytest.raises(grpc.aio.AioRpcError):
            await running.inference.Infer(request, timeout=5)
        answer = await control.explain("mine")
        assert "secret words" not in str(answer)
        assert answer.record.outcome == "INVALID_REQUEST"
        assert answer.record.priority == types_pb2.PRIORITY_UNSPECIFIED
        assert answer.record.version_reason == ""
        assert isinstance(answer, control_pb2.ExplainRequestResponse)


async def test_a_request_refused_early_is_told_its_chance() -> None:
    # Slow beside what a request costs here, so that a busy machine changes little.
    device = {"intercept_ms": 90, "jitter_ratio": 0, "max_requests": 4}
    async with (
        running_gateway(lease_seconds=60) as running,
        running_worker(running, runtime=device),
        operator(running) as control,
    ):
        await running.until_serving()
        refused: asyncio.Queue[str] = asyncio.Queue()

        async def ask(name: str) -> None:
            try:
                await running.inference.Infer(text_request(request_id=name), timeout=1.2)
            except grpc.aio.AioRpcError as error:
                if refusal(error).metadata.get("rule") == "value":
                    refused.put_nowait(name)

        async def press() -> None:
            """Has 120 requests in hand, where 53 can be answered in time."""
            numbers, asking = itertools.count(), set[asyncio.Task[None]]()
            while refused.empty():
                while len(asking) < 120:
                    asking.add(asyncio.ensure_future(ask(f"r-{next(numbers)}")))
                _, asking = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(asking)

        await press()
        explained = await control.explain(refused.get_nowait())
        seen = explained.record.admission
        assert 0 <= seen.chance < seen.wanted_chance < 1
        assert (
            f"Its chance of being served in time was {100 * seen.chance:.4g} %, judged by moments "
            f"like that one and the work ahead; at least {100 * seen.wanted_chance:.4g} % was "
            "asked for."
        ) in explained.sentences
