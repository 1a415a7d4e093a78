"""Known fault 35: two gateways share two workers, and each thinks that a slot is its own."""

import asyncio

from tests.support.fleet import running_gateway, running_worker, text_request

from headway.v1 import control_pb2


async def test_fault_35_shared_workers() -> None:
    device = {"intercept_ms": 4}
    async with (
        running_gateway() as one,
        running_gateway() as two,
        running_worker(one, two, worker_id="w1", runtime=device),
        running_worker(one, two, worker_id="w2", runtime=device),
    ):
        answers = await asyncio.gather(
            *(
                gateway.inference.Infer(text_request(f"{number}"), timeout=30)
                for number in range(100)
                for gateway in (one, two)
            )
        )
        assert len(answers) == 200
        for gateway in (one, two):
            listed = await gateway.control.ListReplicas(
                control_pb2.ListReplicasRequest(), timeout=5
            )
            for replica in listed.replicas:
                assert (replica.failed_batches, replica.recent_failures) == (0, 0)
                assert replica.condition == control_pb2.REPLICA_CONDITION_READY
            assert gateway.gateway.scheduler.num_live() == 0
