"""Fault 52: ready before any worker is routable; one model that loads makes all unready."""

import grpc
from grpc_health.v1 import health_pb2
from tests.support.fleet import RunningGateway, refusal, running_gateway, running_worker

from headway.v1 import control_pb2, fleet_pb2, fleet_pb2_grpc, inference_pb2, types_pb2

STATUS = health_pb2.HealthCheckResponse


async def test_fault_52_ready_before_routable() -> None:
    """Each model is SERVING exactly while a request for it is answered."""
    async with running_gateway(models={"loads": {}}) as running:
        # Nothing: not ready. A worker that registered and cannot be reached: not ready either.
        assert await _served(running, "") == (False, False)
        await fleet_pb2_grpc.FleetServiceStub(running.control_channel).Register(
            fleet_pb2.RegisterRequest(
                worker_id="unreachable",
                instance_id="i",
                address="127.0.0.1:1",
                models=[types_pb2.ModelCard(model="loads", version="v1")],
            ),
            timeout=5,
        )
        assert await _served(running, "loads") == (False, False)
        # The other model is served, and readiness says so of each.
        async with running_worker(running):
            assert await _served(running, "sim") == (True, True)
            assert await _served(running, "loads") == (False, False)
            # A drained one is not.
            await running.control.DrainReplica(
                control_pb2.DrainReplicaRequest(worker_id="w1"), timeout=5
            )
            await running.until_serving("sim", serving=False)
            assert await _served(running, "sim") == (False, False)
            await running.control.UndrainReplica(
                control_pb2.UndrainReplicaRequest(worker_id="w1"), timeout=5
            )
            await running.until_serving("sim")
            assert await _served(running, "sim") == (True, True)


async def _served(running: RunningGateway, model: str) -> tuple[bool, bool]:
    """(health says so, a request is answered)."""
    check = health_pb2.HealthCheckRequest(service=model)
    status = await running.health.Check(check, timeout=5)
    request = inference_pb2.InferRequest(model=model or "sim", input=types_pb2.Input(text="t"))
    request.slo.FromMilliseconds(300)
    try:
        await running.inference.Infer(request, timeout=5)
    except grpc.aio.AioRpcError as error:
        assert refusal(error).reason in ("NO_CAPACITY", "MODEL_LOADING", "DEADLINE_EXPIRED")
        return status.status == STATUS.SERVING, False
    return status.status == STATUS.SERVING, True
