"""The limit grows without bound while the offered load is below it."""

from tests.support.fleet import running_gateway, running_worker, text_request

from headway.v1 import control_pb2

LIMIT = {"limit": {"initial": 100, "min": 4, "max": 100_000}}


async def test_fault_37_limit_grows_unused() -> None:
    async with running_gateway(admission=LIMIT) as running, running_worker(running):
        for _ in range(200):
            await running.inference.Infer(text_request(), timeout=5)
        told = await running.control.GetState(control_pb2.GetStateRequest())
    (pool,) = told.state.pools
    assert pool.inflight_limit == 100, "one request at a time is no reason to allow more"
