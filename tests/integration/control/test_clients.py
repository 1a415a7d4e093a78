"""The blocking clients do what the asynchronous ones do."""

import asyncio

import pytest
from tests.support.fleet import RunningGateway, running_worker, text_request
from tests.support.operating import ADMIN, CALLER, FLEET_TOKEN, closed_gateway

from headway import errors
from headway.client import BlockingClient, BlockingControlClient
from headway.v1 import control_pb2


def operate(running: RunningGateway) -> None:
    with BlockingControlClient(running.addresses["control"], api_key=ADMIN) as control:
        watched = control.watch(0.1)
        assert next(watched).snapshot
        watched.close()
        assert [r.worker_id for r in control.replicas("sim")] == ["w1"]
        assert control.set_split("sim", {"v1": 1.0}) == control.split("sim")
        control.drain("w1")
        control.undrain("w1")
        control.create_tenant(control_pb2.Tenant(tenant="globex"))
        control.update_tenant(control_pb2.Tenant(tenant="globex", weight=2))
        made = control.create_key("globex", valid_for_s=60, description="x")
        rotated = control.rotate_key(made.key.key_id, overlap_s=0)
        control.revoke_key(rotated.key.key_id)
        assert len(control.keys("globex")) == 2
        control.delete_tenant("globex")
        assert [t.tenant for t in control.tenants()] == ["acme", "ops"]
        control.set_log_level("info", "headway.gateway.fleet")
        with pytest.raises(errors.FailedPrecondition):
            control.reload()
        assert control.state().gateway.ready
        with BlockingClient(running.addresses["data"], api_key=CALLER) as client:
            assert [m.model for m in client.list_models()] == ["sim"]
            answer = client.infer(text_request(request_id="mine"), timeout_s=5)
            assert answer.version == "v1"
            client.close()
        assert control.explain("mine").record.outcome == "ok"
        assert len(control.audit(limit=4)) == 4
        control.close()


async def test_a_thread_without_a_loop_operates_a_gateway() -> None:
    async with (
        closed_gateway() as running,
        running_worker(running, fleet_token=FLEET_TOKEN, wait=False),
    ):
        await running.until_serving()
        await asyncio.to_thread(operate, running)
