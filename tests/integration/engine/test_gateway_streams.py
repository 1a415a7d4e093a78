"""What the gateway decides for outputs: refusals, quotas, placement."""

import asyncio
import hashlib

import grpc
import pytest
from tests.support.fleet import refusal, running_gateway
from tests.support.writers import read_all, request, running_writer, until

from headway.v1 import inference_pb2


async def test_an_output_that_cannot_end_in_time_is_refused_with_the_numbers() -> None:
    slow = {"surface": "cpu", "max_lanes": 1, "noise": 0}
    async with running_gateway() as gateway, running_writer(gateway, runtime=slow):
        # What is learned: a lane is held for some 300 ms.
        await gateway.inference.Infer(request(tokens=4))
        endless = gateway.inference.InferStream(
            inference_pb2.InferStreamRequest(request=request(tokens=4000)), timeout=60
        )
        await endless.read()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await gateway.inference.Infer(request(tokens=2000), timeout=0.2)
        endless.cancel()
    refused = refusal(caught.value)
    assert refused.reason == "DEADLINE_UNREACHABLE"
    assert int(refused.metadata["needed_ns"]) > int(refused.metadata["available_ns"]) > 0
    assert "max_output_units" in refused.message


async def test_a_full_queue_says_when_to_come_back() -> None:
    async with (
        running_gateway(max_queued_requests=1) as gateway,
        running_writer(gateway, runtime={"surface": "cpu", "max_lanes": 1}),
    ):
        endless = gateway.inference.InferStream(
            inference_pb2.InferStreamRequest(request=request(tokens=4000))
        )
        await endless.read()
        waiting = asyncio.ensure_future(gateway.inference.Infer(request(tokens=2)))
        await until(lambda: len(gateway.gateway.streams.live) == 2)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await gateway.inference.Infer(request(tokens=2))
        endless.cancel()
        assert (await waiting).usage.output_units == 2
    refused = refusal(caught.value)
    assert refused.reason == "QUEUE_FULL"
    assert refused.retry_ns is not None and refused.retry_ns > 0


async def test_quotas_count_prompt_and_output_and_give_back_what_was_not_used() -> None:
    secret = "hw_aaaaaaaa_" + "s" * 32
    key = {"key_id": "aaaaaaaa", "sha256": hashlib.sha256(secret.encode()).hexdigest()}
    tenant = {"units_per_second": 0.001, "burst_units": 60, "keys": [key]}
    metadata = (("authorization", f"Bearer {secret}"),)
    async with (
        running_gateway(
            insecure_no_auth=False, fleet_token="fleet", tenants={"t": tenant}
        ) as gateway,
        running_writer(gateway, wait=False, fleet_token="fleet"),
    ):
        await gateway.until_serving("writer")
        # 4 prompt and 16 output units; then as much as is left again, and no more.
        for _ in range(2):
            await gateway.inference.Infer(request(tokens=16), metadata=metadata)
        with pytest.raises(grpc.aio.AioRpcError) as short:
            await gateway.inference.Infer(request(tokens=40), metadata=metadata)
        with pytest.raises(grpc.aio.AioRpcError) as never:
            await gateway.inference.Infer(request(tokens=4000), metadata=metadata)
    assert refusal(short.value).reason == "QUOTA_EXCEEDED"
    assert refusal(never.value).reason == "INVALID_REQUEST"


async def test_a_prompt_that_begins_alike_goes_where_that_is_remembered() -> None:
    shared = "The same long beginning of all of these requests, " * 20
    async with (
        running_gateway() as gateway,
        running_writer(gateway, worker_id="w1"),
        running_writer(gateway, worker_id="w2"),
    ):
        first = await gateway.inference.Infer(request(shared + "one", tokens=2))
        answers = [
            await gateway.inference.Infer(request(shared + f"no. {number}", tokens=2))
            for number in range(8)
        ]
    assert {answer.replica for answer in answers} == {first.replica}


async def test_outputs_spread_over_replicas() -> None:
    one_lane = {"max_lanes": 1, "surface": "cpu"}
    async with (
        running_gateway() as gateway,
        running_writer(gateway, worker_id="w1", runtime=one_lane),
        running_writer(gateway, worker_id="w2", runtime=one_lane),
    ):
        both = await asyncio.gather(
            *(gateway.inference.Infer(request(f"text {n}", tokens=6)) for n in range(2))
        )
    assert {answer.replica for answer in both} == {"w1", "w2"}


async def test_two_gateways_share_the_lanes_of_a_worker() -> None:
    """Each thinks the lane is its own; busy answers are no failures."""
    async with running_gateway() as one, running_gateway(gateway_id="two") as two:
        settings = {
            "worker_id": "w1",
            "gateways": [one.addresses["control"], two.addresses["control"]],
            "runtime": {"max_lanes": 1},
        }
        async with running_writer(one, **settings):
            await two.until_serving("writer")
            answers = await asyncio.gather(
                *(
                    gateway.inference.Infer(request(tokens=5))
                    for gateway in (one, two)
                    for _ in range(6)
                )
            )
    assert [answer.usage.output_units for answer in answers] == [5] * 12


async def test_parts_of_several_outputs_do_not_mix() -> None:
    async with running_gateway() as gateway, running_writer(gateway):
        calls = [
            gateway.inference.InferStream(
                inference_pb2.InferStreamRequest(request=request(tokens=5 + number))
            )
            for number in range(6)
        ]
        read = await asyncio.gather(*(read_all(call) for call in calls))
    for number, (deltas, final) in enumerate(read):
        tokens = [token for delta in deltas for token in delta.token_ids]
        assert tokens == list(range(1, 6 + number))
        assert list(final.output.token_ids) == tokens
