"""A request through a real gateway and a real worker, on both transports."""

import asyncio

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from tests.support.fleet import (
    read_status,
    refusal,
    running_gateway,
    running_worker,
    text_request,
    until_executing,
    until_live,
)
from tests.support.scripted import scripted

from headway.v1 import inference_pb2, types_pb2


async def test_an_answer_says_what_was_decided(transport: str) -> None:
    async with running_gateway(transport=transport) as running, running_worker(running):
        answer = await running.inference.Infer(text_request(request_id="r-1"), timeout=5)
        assert answer.request_id == "r-1"
        assert (answer.model, answer.version, answer.replica) == ("sim", "v1", "w1")
        assert answer.attempts == 1
        assert answer.batch.size == 1
        assert answer.batch.reason == inference_pb2.BATCH_REASON_QUEUE_EMPTIED
        assert answer.output.tensors[0].shape[0] == 1
        assert answer.usage.prompt_units == 4  # 14 bytes, 4 a unit
        total = answer.timings.total.ToNanoseconds()
        assert 0 < answer.timings.queued.ToNanoseconds() < total < 5 * 10**9
        assert answer.timings.slack_at_dispatch.ToNanoseconds() > 0


async def test_the_gateway_names_requests_that_have_no_name(transport: str) -> None:
    async with running_gateway(transport=transport) as running, running_worker(running):
        names = {
            (await running.inference.Infer(text_request(), timeout=5)).request_id for _ in range(3)
        }
        assert len(names) == 3
        assert "" not in names


async def test_requests_that_arrive_together_share_a_batch(transport: str) -> None:
    # The device is busy with another one until all of them are there.
    async with scripted(transport=transport, max_requests=32) as (running, worker):
        before = running.inference.Infer(text_request("before"), timeout=60)
        await until_executing(running)
        calls = [running.inference.Infer(text_request(), timeout=60) for _ in range(20)]
        await until_live(running, 21)
        worker.resume()
        await before
        answers = await asyncio.gather(*calls)
        assert max(answer.batch.size for answer in answers) >= 10


async def test_a_one_shot_model_streams_one_final_event(transport: str) -> None:
    async with running_gateway(transport=transport) as running, running_worker(running):
        call = running.inference.InferStream(
            inference_pb2.InferStreamRequest(request=text_request()), timeout=5
        )
        events = [event async for event in call]
        assert [event.WhichOneof("event") for event in events] == ["final"]
        assert events[0].final.replica == "w1"


async def test_many_requests_share_a_stream_and_errors_end_only_their_own(transport: str) -> None:
    async with running_gateway(transport=transport) as running, running_worker(running):
        call = running.inference.InferMany(timeout=10)
        for number in range(50):
            request = text_request("" if number == 7 else f"text {number}")
            await call.write(inference_pb2.InferManyRequest(id=number, request=request))
        await call.done_writing()
        answers = {answer.id: answer async for answer in call}
        assert sorted(answers) == list(range(50))
        status = answers[7].error
        failed = read_status(status, grpc.StatusCode.OK)
        assert status.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
        assert (failed.reason, failed.field) == ("INVALID_REQUEST", "input.text")
        assert all(a.response.replica == "w1" for n, a in answers.items() if n != 7)


async def test_a_member_of_a_stream_can_be_cancelled_and_time_out(transport: str) -> None:
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, runtime={"failures": {"hang": 1}}),
    ):
        call = running.inference.InferMany(timeout=30)
        timeout = Duration(nanos=50_000_000)
        for number in (1, 2):
            message = inference_pb2.InferManyRequest(id=number, request=text_request())
            if number == 2:
                message.timeout.CopyFrom(timeout)
            await call.write(message)
        await call.write(inference_pb2.InferManyRequest(id=1, cancel=True))
        await call.done_writing()
        reasons = {
            answer.id: read_status(answer.error, grpc.StatusCode.OK).reason async for answer in call
        }
        assert reasons == {1: "CANCELLED", 2: "DEADLINE_EXPIRED"}
        assert running.gateway.scheduler.num_live() == 0


async def test_a_repeated_id_on_a_stream_is_refused(transport: str) -> None:
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, runtime={"intercept_ms": 50}),
    ):
        call = running.inference.InferMany(timeout=30)
        for _ in range(2):
            await call.write(inference_pb2.InferManyRequest(id=4, request=text_request()))
        await call.done_writing()
        answers = [answer async for answer in call]
        assert sorted(answer.WhichOneof("result") for answer in answers) == ["error", "response"]


async def test_rows_come_back_to_the_request_they_belong_to(transport: str) -> None:
    # Known fault 14: three concurrent requests with different row counts.
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, runtime={"intercept_ms": 20}),
    ):
        counts = (1, 3, 7)
        requests = [
            inference_pb2.InferRequest(
                input=types_pb2.Input(
                    texts=types_pb2.TextList(values=[f"row {n} of {count}" for n in range(count)])
                )
            )
            for count in counts
        ]
        alone = [await running.inference.Infer(request, timeout=5) for request in requests]
        together = await asyncio.gather(
            *(running.inference.Infer(request, timeout=5) for request in requests)
        )
        assert [answer.output.tensors[0].shape[0] for answer in together] == list(counts)
        for one, other in zip(alone, together, strict=True):
            assert one.output == other.output


async def test_the_split_is_sticky_and_a_pin_overrides_it(transport: str) -> None:
    async with (
        running_gateway(
            transport=transport, models={"sim": {"split": {"v1": 0.5, "v2": 0.5}}}
        ) as running,
        running_worker(running, worker_id="w1", version="v1"),
        running_worker(running, worker_id="w2", version="v2"),
    ):
        seen: dict[str, set[str]] = {}
        for _ in range(2):
            for user in map(str, range(40)):
                answer = await running.inference.Infer(text_request(session_key=user), timeout=5)
                seen.setdefault(user, set()).add(answer.version)
        assert all(len(versions) == 1 for versions in seen.values())
        assert {next(iter(versions)) for versions in seen.values()} == {"v1", "v2"}
        for version in ("v1", "v2"):
            answer = await running.inference.Infer(text_request(version=version), timeout=5)
            assert answer.version == version


async def test_without_a_split_the_first_to_register_is_not_the_canary(transport: str) -> None:
    # Known fault 36.
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, worker_id="w2", version="v2"),
        running_worker(running, worker_id="w1", version="v1"),
    ):
        answers = [await running.inference.Infer(text_request(), timeout=5) for _ in range(10)]
        assert {answer.version for answer in answers} == {"v1"}


async def test_models_are_listed_with_their_readiness(transport: str) -> None:
    async with (
        running_gateway(
            transport=transport, models={"sim": {"split": {"v1": 0.9, "v2": 0.1}}}
        ) as running,
        running_worker(running, worker_id="w1", version="v1"),
        running_worker(running, worker_id="w2", version="v2"),
    ):
        listed = await running.inference.ListModels(inference_pb2.ListModelsRequest(), timeout=5)
        (model,) = listed.models
        assert (model.model, model.is_default) == ("sim", True)
        shares = [(v.version, v.ready, v.traffic_share) for v in model.versions]
        assert shares == [("v1", True, 0.9), ("v2", True, pytest.approx(0.1))]


async def test_a_tighter_slo_is_the_deadline(transport: str) -> None:
    # The client would wait 30 s; the answer it gets is the gateway's own, at the SLO.
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, runtime={"failures": {"hang": 1}}),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.inference.Infer(text_request(slo=Duration(nanos=100_000_000)), timeout=30)
        told = refusal(caught.value)
        assert told.code == grpc.StatusCode.DEADLINE_EXCEEDED
        assert told.reason == "DEADLINE_EXPIRED"
        assert running.gateway.scheduler.num_live() == 0
