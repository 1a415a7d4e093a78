"""Outputs through a gateway and a worker, on the wire."""

import asyncio

import grpc
import pytest
from tests.integration.worker import peers
from tests.support.fleet import refusal, running_gateway
from tests.support.writers import MODEL, read_all, request, running_writer, until

from headway.v1 import inference_pb2, types_pb2, worker_pb2


async def test_a_stream_brings_its_parts_and_then_the_whole() -> None:
    async with running_gateway() as gateway, running_writer(gateway):
        call = gateway.inference.InferStream(
            inference_pb2.InferStreamRequest(request=request(tokens=8))
        )
        deltas, final = await read_all(call)
    assert [delta.index for delta in deltas] == list(range(len(deltas)))
    assert "".join(delta.text for delta in deltas) == "b c d e f g h i "
    assert [token for delta in deltas for token in delta.token_ids] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert final.output.text == "b c d e f g h i "
    assert final.output.finish_reason == types_pb2.FINISH_REASON_LENGTH
    assert (final.usage.prompt_units, final.usage.output_units) == (4, 8)
    assert final.replica == "w1"
    assert final.attempts == 1


async def test_a_unary_call_answers_once_with_all_of_it() -> None:
    async with running_gateway() as gateway, running_writer(gateway):
        response = await gateway.inference.Infer(request(tokens=4))
    assert response.output.text == "b c d e "
    assert list(response.output.token_ids) == [1, 2, 3, 4]
    assert response.usage.output_units == 4


async def test_stop_strings_end_the_output_before_them() -> None:
    sampling = types_pb2.SamplingParameters(stop=["e f"])
    async with running_gateway() as gateway, running_writer(gateway):
        response = await gateway.inference.Infer(request(tokens=20, sampling=sampling))
    assert response.output.text == "b c d "
    assert response.output.finish_reason == types_pb2.FINISH_REASON_STOP


async def test_infer_many_takes_outputs_too() -> None:
    async with running_gateway() as gateway, running_writer(gateway):
        call = gateway.inference.InferMany()
        for number in (1, 2):
            await call.write(
                inference_pb2.InferManyRequest(id=number, request=request(tokens=number + 1))
            )
        await call.done_writing()
        answers = {answer.id: answer.response.output.text async for answer in call}
    assert answers == {1: "b c ", 2: "b c d "}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"sampling": types_pb2.SamplingParameters(top_p=2)}, "sampling.top_p"),
        ({"sampling": types_pb2.SamplingParameters(temperature=-1)}, "sampling.temperature"),
        (
            {"sampling": types_pb2.SamplingParameters(temperature=float("nan"))},
            "sampling.temperature",
        ),
        (
            {"sampling": types_pb2.SamplingParameters(temperature=float("inf"))},
            "sampling.temperature",
        ),
        ({"sampling": types_pb2.SamplingParameters(top_p=float("nan"))}, "sampling.top_p"),
        ({"sampling": types_pb2.SamplingParameters(top_p=float("inf"))}, "sampling.top_p"),
        ({"sampling": types_pb2.SamplingParameters(logprobs=21)}, "sampling.logprobs"),
        ({"sampling": types_pb2.SamplingParameters(stop=[""])}, "sampling.stop[0]"),
    ],
)
async def test_a_bad_parameter_is_named(fields: dict[str, object], field: str) -> None:
    async with running_gateway() as gateway, running_writer(gateway):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await gateway.inference.Infer(request(**fields))
    refused = refusal(caught.value)
    assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.field == field


async def test_more_requests_than_lanes_wait_at_the_gateway() -> None:
    async with (
        running_gateway() as gateway,
        running_writer(gateway, runtime={"max_lanes": 2}),
    ):
        calls = [gateway.inference.Infer(request(tokens=6)) for _ in range(7)]
        answers = await asyncio.gather(*calls)
    assert [answer.output.text for answer in answers] == ["b c d e f g "] * 7


async def test_a_caller_that_leaves_frees_its_lane() -> None:
    async with (
        running_gateway() as gateway,
        running_writer(gateway, runtime={"max_lanes": 1, "surface": "cpu"}),
    ):
        endless = gateway.inference.InferStream(
            inference_pb2.InferStreamRequest(request=request(tokens=4000))
        )
        await endless.read()
        endless.cancel()
        # The only lane is free again, long before 4000 tokens at 75 ms.
        response = await gateway.inference.Infer(request(tokens=2), timeout=10)
    assert response.output.text == "b c "


async def test_a_slow_reader_stalls_only_itself() -> None:
    """At the worker's own session, where credit is the reader's pace."""
    runtime = {"kind": "simulated-decoder", "noise": 0, "mean_output_tokens": 100_000}
    models = [{"model": MODEL, "runtime": runtime}]
    async with (
        peers.running_worker(models=models) as worker,
        peers.session(worker.addresses["worker"]) as reader,
    ):
        for number, tokens, parts in ((1, 400, 2), (2, 100, 1000)):
            item = peers.text_item(number, "the tide turns")
            item.max_output_units = tokens
            await reader.execute(number, [item])
            credit = worker_pb2.StreamCredit(item_id=number, parts=parts)
            await reader.call.write(worker_pb2.SessionRequest(stream_credit=credit))
        read = {1: 0, 2: 0}
        result = await _read_until_result(reader, read)
        assert (result.batch_id, result.items[0].usage.output_units) == (2, 100)
        # Two parts, which hold at most 32 tokens each and one step's more.
        assert 0 < read[1] <= 2 * 40
        credit = worker_pb2.StreamCredit(item_id=1, parts=1000)
        await reader.call.write(worker_pb2.SessionRequest(stream_credit=credit))
        result = await _read_until_result(reader, read)
        assert (result.batch_id, result.items[0].usage.output_units) == (1, 400)


async def _read_until_result(reader: peers.Gateway, read: dict[int, int]) -> worker_pb2.BatchResult:
    """Counts tokens by output on the way."""
    while True:
        message = await reader.read()
        if message.WhichOneof("message") == "result":
            return message.result
        for part in message.parts.parts:
            read[part.item_id] += len(part.token_ids)


async def test_a_deadline_ends_the_output() -> None:
    async with running_gateway() as gateway, running_writer(gateway, runtime={"surface": "cpu"}):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await gateway.inference.Infer(request(tokens=4000), timeout=0.5)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await until(lambda: not gateway.gateway.streams.live)
        response = await gateway.inference.Infer(request(tokens=2))
    assert response.usage.output_units == 2


async def test_a_lost_worker_breaks_a_stream_that_had_begun() -> None:
    async with running_gateway() as gateway:
        async with running_writer(gateway) as worker:
            call = gateway.inference.InferStream(
                inference_pb2.InferStreamRequest(request=request(tokens=4000))
            )
            await call.read()
            await worker.close()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await read_all(call)
    refused = refusal(caught.value)
    assert refused.code is grpc.StatusCode.ABORTED
    assert refused.reason == "STREAM_BROKEN"


async def test_a_lost_worker_passes_on_what_had_not_begun() -> None:
    slow_to_begin = {"surface": "cpu", "max_lanes": 1}
    async with running_gateway() as gateway, running_writer(gateway, runtime=slow_to_begin) as one:
        # Unary: no part is ever delivered, so the whole may be written again.
        answer = asyncio.ensure_future(gateway.inference.Infer(request(tokens=30)))
        await until(lambda: any(s.replica for s in gateway.gateway.streams.live.values()))
        async with running_writer(gateway, worker_id="w2"):
            await one.close()
            response = await answer
    assert response.replica == "w2"
    assert response.attempts == 2


async def test_the_card_says_that_it_writes() -> None:
    async with running_gateway() as gateway, running_writer(gateway):
        models = await gateway.inference.ListModels(inference_pb2.ListModelsRequest())
    (model,) = models.models
    assert model.model == MODEL
    assert model.versions[0].card.generative
