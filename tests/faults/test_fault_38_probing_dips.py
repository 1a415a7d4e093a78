"""Probing for the least latency pins the limit to 1 and makes traffic dip."""

import asyncio

from tests.support.fleet import RunningGateway, running_gateway, running_worker, text_request

from headway.v1 import control_pb2

LIMIT = {"limit": {"initial": 40, "min": 1, "max": 100_000}}
CLIENTS = 32


async def limit_of(running: RunningGateway) -> float:
    told = await running.control.GetState(control_pb2.GetStateRequest())
    return float(told.state.pools[0].inflight_limit)


async def test_fault_38_probing_dips() -> None:
    device = {"intercept_ms": 4, "slope_ms_per_unit": 0.01, "jitter_ratio": 0.05}
    async with running_gateway(admission=LIMIT) as running, running_worker(running, runtime=device):
        least = await limit_of(running)

        async def client() -> None:
            nonlocal least
            for _ in range(30):
                # Any refusal would end the test: there is none in 960 requests.
                await running.inference.Infer(text_request(), timeout=10)
                if running.gateway.clock.now_ns() % 8 == 0:
                    least = min(least, await limit_of(running))

        await asyncio.gather(*(client() for _ in range(CLIENTS)))
        assert await limit_of(running) >= CLIENTS
    assert least >= CLIENTS, "live traffic taught it; nothing was held back to measure"
