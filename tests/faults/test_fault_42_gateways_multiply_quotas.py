"""N gateways multiply every quota by N."""

import asyncio

import grpc
import pytest
from tests.support.fleet import RunningGateway, running_worker, text_request
from tests.support.operating import CALLER, CLOSED, FLEET_TOKEN, closed_gateway

ACME = (("authorization", f"Bearer {CALLER}"),)
# 200 units at once, and practically none later.
QUOTA = {"units_per_second": 0.001, "burst_units": 200}


async def until_counted(running: RunningGateway, count: int) -> None:
    while running.gateway.state.read().gateway.num_gateways != count:
        await asyncio.to_thread(lambda: None)


async def units_let_through(running: RunningGateway) -> int:
    units = 0
    while True:
        try:
            await running.inference.Infer(text_request("x" * 40), metadata=ACME, timeout=10)
        except grpc.aio.AioRpcError as error:
            assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            return units
        units += 10


async def test_fault_42_gateways_multiply_quotas(sqlite_url: str) -> None:
    tenants = {**CLOSED["tenants"], "acme": {**CLOSED["tenants"]["acme"], **QUOTA}}
    async with closed_gateway(sqlite_url, gateway_id="one", tenants=tenants) as one:
        async with (
            closed_gateway(sqlite_url, gateway_id="other", tenants=tenants) as other,
            running_worker(one, other, fleet_token=FLEET_TOKEN, wait=False),
        ):
            for running in (one, other):
                await running.until_serving()
                async with asyncio.timeout(10):
                    await until_counted(running, 2)
            total = await units_let_through(one) + await units_let_through(other)
            assert total == pytest.approx(200, rel=0.1)
            # A request of the whole quota is not one that "never fits": it waits for its turn.
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await one.inference.Infer(text_request("x" * 800), metadata=ACME, timeout=10)
            assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        # The one that is left has the whole quota again.
        async with asyncio.timeout(10):
            await until_counted(one, 1)
