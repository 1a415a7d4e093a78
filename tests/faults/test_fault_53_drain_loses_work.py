"""Fault 53: a drain that refuses too late, loses what it has, or waits for idle connections."""

import asyncio

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.support.fleet import (
    refusal,
    running_gateway,
    running_worker,
    text_request,
    until_executing,
    until_live,
)

from headway.v1 import inference_pb2, inference_pb2_grpc

STATUS = health_pb2.HealthCheckResponse


async def test_fault_53_drain_loses_work() -> None:
    """NOT_SERVING first, new ones refused, old ones answered; idle connections hold nothing."""
    async with (
        running_gateway() as running,
        running_worker(running, runtime={"intercept_ms": 400}),
        grpc.aio.insecure_channel(running.addresses["data"]) as idle,
    ):
        await idle.channel_ready()
        watch = health_pb2_grpc.HealthStub(idle).Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == STATUS.SERVING
        many = inference_pb2_grpc.InferenceServiceStub(idle).InferMany()
        await many.write(inference_pb2.InferManyRequest(id=1))
        await many.read()
        old = [asyncio.ensure_future(running.inference.Infer(text_request())) for _ in range(3)]
        await until_executing(running)
        await until_live(running, 3)

        stopping = asyncio.ensure_future(running.process.stop())
        assert (await watch.read()).status == STATUS.NOT_SERVING
        try:
            await running.inference.Infer(text_request(), timeout=5)
            raise AssertionError("a draining gateway took a request")
        except grpc.aio.AioRpcError as error:
            assert refusal(error).reason == "DRAINING"
        # Old ones are answered, and the idle connection with its open streams holds up nothing.
        assert [(await each).replica for each in old] == ["w1", "w1", "w1"]
        await stopping
