"""Rejections and instant errors count as samples of 0 ms."""

import asyncio

import grpc
from google.protobuf.duration_pb2 import Duration
from tests.support.fleet import RunningGateway, running_gateway, running_worker, text_request

from headway.v1 import control_pb2

LIMIT = {"limit": {"initial": 100, "min": 4, "max": 100}}
DEVICE = {"intercept_ms": 60, "slope_ms_per_unit": 0, "jitter_ratio": 0}


async def pool_state(running: RunningGateway) -> control_pb2.PoolState:
    told = await running.control.GetState(control_pb2.GetStateRequest())
    pool: control_pb2.PoolState = told.state.pools[0]
    return pool


async def code_of(running: RunningGateway, **fields: object) -> grpc.StatusCode:
    try:
        await running.inference.Infer(text_request(**fields), timeout=10)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def test_fault_40_refusals_are_samples() -> None:
    async with running_gateway(admission=LIMIT, max_attempts=1) as running:
        async with running_worker(running, runtime=DEVICE):
            for _ in range(12):
                await running.inference.Infer(text_request(), timeout=10)
            hopeless = Duration(nanos=10_000_000)
            codes = await asyncio.gather(*(code_of(running, slo=hopeless) for _ in range(60)))
            assert set(codes) == {grpc.StatusCode.DEADLINE_EXCEEDED}
        failing = {**DEVICE, "intercept_ms": 0, "failures": {"fail": 1}}
        async with running_worker(running, worker_id="w2", runtime=failing):
            for _ in range(60):
                assert await code_of(running) == grpc.StatusCode.INTERNAL
        # Had they been samples of 0 ms, 60 ms batches would now look like congestion.
        async with running_worker(running, worker_id="w3", runtime=DEVICE):
            for _ in range(12):
                await running.inference.Infer(text_request(), timeout=10)
            pool = await pool_state(running)
    assert pool.inflight_limit == 100
    assert pool.limit_gradient > 0.8
