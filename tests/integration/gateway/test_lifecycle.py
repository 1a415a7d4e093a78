"""What a worker says anew takes effect, and leases that are over hold nobody."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from tests.support.fleet import (
    MODEL,
    RunningGateway,
    running_gateway,
    running_worker,
    text_request,
    until_replica,
)

from headway.v1 import control_pb2, fleet_pb2, fleet_pb2_grpc, types_pb2


def registration(**changes: Any) -> fleet_pb2.RegisterRequest:
    known: dict[str, Any] = {
        "worker_id": "w1",
        "instance_id": "first",
        "address": "127.0.0.1:1",
        "models": [types_pb2.ModelCard(model=MODEL, version="v1")],
        "max_outstanding_batches": 1,
    }
    return fleet_pb2.RegisterRequest(**{**known, **changes})


async def register(running: RunningGateway, **changes: Any) -> fleet_pb2.RegisterResponse:
    stub = fleet_pb2_grpc.FleetServiceStub(running.control_channel)
    answer: fleet_pb2.RegisterResponse = await stub.Register(registration(**changes), timeout=5)
    return answer


async def replicas(running: RunningGateway) -> list[control_pb2.ReplicaState]:
    listed = await running.control.ListReplicas(control_pb2.ListReplicasRequest(), timeout=5)
    return list(listed.replicas)


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"address": "127.0.0.1:2"}, ("w1/sim/v1", "127.0.0.1:2", 1)),
        ({"max_outstanding_batches": 4}, ("w1/sim/v1", "127.0.0.1:1", 4)),
        (
            {"models": [types_pb2.ModelCard(model=MODEL, version="v2")]},
            ("w1/sim/v2", "127.0.0.1:1", 1),
        ),
        ({"instance_id": "second"}, ("w1/sim/v1", "127.0.0.1:1", 1)),
    ],
    ids=["address", "limit", "version", "restart"],
)
async def test_what_changed_replaces_what_was_known(
    changes: dict[str, Any], seen: tuple[str, str, int]
) -> None:
    async with running_gateway() as running:
        first = await register(running)
        second = await register(running, **changes)
        (replica,) = await replicas(running)
        assert (replica.replica, replica.address, replica.max_outstanding_batches) == seen
        assert second.lease_id != first.lease_id
        assert not await lease_known(running, first.lease_id)
        assert await lease_known(running, second.lease_id)


async def test_the_same_again_keeps_the_lease() -> None:
    async with running_gateway() as running:
        assert (await register(running)).lease_id == (await register(running)).lease_id


async def test_a_changed_batch_limit_bounds_the_next_batch() -> None:
    """Found by what the gateway does with it, not by what it lists."""
    async with running_gateway() as running:
        async with running_worker(running, runtime={"max_requests": 1, "intercept_ms": 30}):
            assert await sizes(running, 6) == {1}
        async with running_worker(running, runtime={"max_requests": 3, "intercept_ms": 30}):
            assert max(await sizes(running, 6)) == 3


async def test_a_lease_that_is_over_takes_its_replicas_with_it() -> None:
    async with running_gateway(lease_seconds=0.4) as running:
        lease = await register(running)
        while await replicas(running):
            pass
        assert not await lease_known(running, lease.lease_id)


async def test_a_worker_comes_back_to_a_gateway_that_was_restarted() -> None:
    async with contextlib.AsyncExitStack() as workers:
        async with running_gateway() as first:
            port = int(first.addresses["control"].rpartition(":")[2])
            await workers.enter_async_context(running_worker(first))
            assert (await first.inference.Infer(text_request(), timeout=5)).replica == "w1"
        async with restarted(port) as second:
            await until_replica(second, "w1/sim/v1")
            assert (await second.inference.Infer(text_request(), timeout=5)).replica == "w1"


@contextlib.asynccontextmanager
async def restarted(port: int) -> AsyncIterator[RunningGateway]:
    async with running_gateway(control_port=port) as running:
        yield running


async def lease_known(running: RunningGateway, lease_id: str) -> bool:
    call = fleet_pb2_grpc.FleetServiceStub(running.control_channel).Heartbeat()
    request = fleet_pb2.HeartbeatRequest(lease_id=lease_id, state=fleet_pb2.WORKER_STATE_READY)
    await call.write(request)
    answer = await call.read()
    call.cancel()
    assert answer is not grpc.aio.EOF
    return bool(answer.lease_known)


async def sizes(running: RunningGateway, count: int) -> set[int]:
    """Sizes of the batches of requests that arrive together."""
    await until_replica(running, "w1/sim/v1")
    calls = [running.inference.Infer(text_request(), timeout=10) for _ in range(count)]
    return {answer.batch.size for answer in await asyncio.gather(*calls)}


async def test_who_shows_another_fleets_token_is_not_let_in() -> None:
    async with running_gateway(fleet_token="ours", insecure_no_auth=False) as running:
        stub = fleet_pb2_grpc.FleetServiceStub(running.control_channel)
        for token in ("", "theirs", "our", "ours "):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Register(registration(fleet_token=token), timeout=5)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert "fleet_token is not this fleet's" in str(caught.value.details())
        assert running.gateway.fleet.workers == {}
        await stub.Register(registration(fleet_token="ours"), timeout=5)
        assert list(running.gateway.fleet.workers) == ["w1"]
