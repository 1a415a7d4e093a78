"""A low-priority tenant alone on an idle fleet is refused."""

import asyncio

from tests.support.fleet import running_worker, text_request
from tests.support.operating import CALLER, CLOSED, FLEET_TOKEN, closed_gateway

from headway.v1 import types_pb2

ACME = (("authorization", f"Bearer {CALLER}"),)
ADMISSION = {
    "limit": {"initial": 20, "min": 1, "max": 20},
    "reserved": {"critical": 0.5, "standard": 0.4},
}


async def test_fault_44_lone_tenant_refused() -> None:
    lowest = {**CLOSED["tenants"]["acme"], "weight": 0.001, "max_priority": "sheddable",
              "units_per_second": None}  # fmt: skip
    tenants = {**CLOSED["tenants"], "acme": lowest}
    device = {"intercept_ms": 20, "jitter_ratio": 0, "max_requests": 4}
    async with (
        closed_gateway(tenants=tenants, admission=ADMISSION) as running,
        running_worker(running, fleet_token=FLEET_TOKEN, runtime=device, wait=False),
    ):
        await running.until_serving()
        request = text_request(priority=types_pb2.PRIORITY_SHEDDABLE)
        # As many as the limit holds at once, five times over: nine tenths of it are kept for
        # classes that do not ask, and none is refused.
        for _ in range(5):
            calls = [running.inference.Infer(request, metadata=ACME, timeout=10) for _ in range(20)]
            answers = await asyncio.gather(*calls)
            assert len(answers) == 20
        pool = running.gateway.state.read().pools[0]
    assert pool.displaced.sheddable == 0
