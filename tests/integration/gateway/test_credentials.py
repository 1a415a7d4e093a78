"""Who shows no key, a wrong one, or one of too small a role is told so, and is not let in."""

import hashlib

import grpc
import pytest
from tests.support.fleet import refusal, refused, running_gateway, running_worker, text_request

from headway.v1 import control_pb2, fleet_pb2, fleet_pb2_grpc, types_pb2

INVALID = grpc.StatusCode.INVALID_ARGUMENT
SECRET = "hw_Ab3dEf7h_" + "s" * 40
VIEWER = "hw_ViewerKy_" + "v" * 40
TENANTS = {
    "acme": {
        "keys": [{"key_id": "Ab3dEf7h", "sha256": hashlib.sha256(SECRET.encode()).hexdigest()}],
        "units_per_second": 10,
        "burst_units": 20,
    },
    "ops": {
        "keys": [
            {
                "key_id": "ViewerKy",
                "sha256": hashlib.sha256(VIEWER.encode()).hexdigest(),
                "role": "viewer",
            }
        ]
    },
}
CLOSED = {"insecure_no_auth": False, "fleet_token": "fleet-secret", "tenants": TENANTS}


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("authorization", "Bearer hw_Ab3dEf7h_wrong"),),
        (("authorization", "Bearer nonsense"),),
        (("authorization", f"Basic {SECRET}"),),
        (("x-api-key", SECRET.lower()),),
    ],
    ids=["none", "wrong secret", "nonsense", "wrong scheme", "wrong case"],
)
async def test_a_bad_key_is_unauthenticated(
    transport: str, metadata: tuple[tuple[str, str], ...]
) -> None:
    async with running_gateway(transport=transport, **CLOSED) as running:
        told = await refused(running, text_request(), metadata=metadata)
        assert told.code == grpc.StatusCode.UNAUTHENTICATED
        assert told.reason == "UNAUTHENTICATED"
        assert "headway key new" in told.message
        assert SECRET not in told.message


async def test_a_good_key_is_served_within_its_quota_and_told_when_to_return(
    transport: str,
) -> None:
    async with (
        running_gateway(transport=transport, **CLOSED) as running,
        running_worker(running, fleet_token="fleet-secret", wait=False),
    ):
        await running.until_serving()
        key = (("authorization", f"Bearer {SECRET}"),)
        await running.inference.Infer(text_request("x" * 80), timeout=5, metadata=key)
        told = await refused(running, text_request("x" * 80), metadata=key)
        assert (told.code, told.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED")
        assert told.metadata["tenant"] == "acme"
        assert 1_000_000_000 < (told.retry_ns or 0) <= 2_000_000_000  # 20 units at 10 a second
        told = await refused(running, text_request("x" * 84), metadata=key)
        # 21 units never fit into a burst of 20: not "retry later".
        assert (told.code, told.retry_ns) == (INVALID, None)


async def test_control_asks_for_a_role(transport: str) -> None:
    async with running_gateway(transport=transport, **CLOSED) as running:
        viewer = (("authorization", f"Bearer {VIEWER}"),)
        tenant = (("authorization", f"Bearer {SECRET}"),)
        state = await running.control.GetState(control_pb2.GetStateRequest(), metadata=viewer)
        assert state.state.gateway.transport == transport
        for key in (viewer, tenant):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await running.control.DrainReplica(
                    control_pb2.DrainReplicaRequest(worker_id="w1"), metadata=key
                )
            assert refusal(caught.value).reason == "PERMISSION_DENIED"


async def test_a_worker_without_the_fleets_token_is_not_let_in(transport: str) -> None:
    async with running_gateway(transport=transport, **CLOSED) as running:
        stub = fleet_pb2_grpc.FleetServiceStub(running.control_channel)
        request = fleet_pb2.RegisterRequest(
            worker_id="evil",
            instance_id="1",
            address="127.0.0.1:1",
            models=[types_pb2.ModelCard(model="sim", version="v1")],
            fleet_token="guess",
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Register(request, timeout=5)
        assert refusal(caught.value).reason == "UNAUTHENTICATED"
        assert running.gateway.fleet.workers == {}
