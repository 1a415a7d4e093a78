"""Known fault 29: queue-full answers shut the last worker out, which then stays out while idle."""

import asyncio

from tests.support.fleet import running_gateway, running_worker, text_request

from headway.v1 import control_pb2


async def test_fault_29_backpressure() -> None:
    async with (
        running_gateway() as running,
        running_worker(running, runtime={"failures": {"busy": 0.8}}),
    ):
        answers = await asyncio.gather(
            *(running.inference.Infer(text_request(), timeout=30) for _ in range(100))
        )
        assert len(answers) == 100
        for _ in range(20):
            await running.inference.Infer(text_request(), timeout=30)
        listed = await running.control.ListReplicas(control_pb2.ListReplicasRequest(), timeout=5)
        (replica,) = listed.replicas
        assert replica.busy_answers >= 20
        assert replica.recent_failures == 0
        assert replica.condition == control_pb2.REPLICA_CONDITION_READY
