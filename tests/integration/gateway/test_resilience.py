"""What a caller and an operator see of breakers and the retry budget."""

import asyncio

import grpc
from tests.support.fleet import refusal, running_gateway, running_worker, text_request

from headway.v1 import control_pb2

FAILING = {"failures": {"fail_fast": 1}}


async def test_in_an_outage_retries_stop_and_the_caller_is_told_why(transport: str) -> None:
    async with (
        running_gateway(transport=transport, resilience={"retry_share": 0}) as running,
        running_worker(running, worker_id="w1", runtime=FAILING),
        running_worker(running, worker_id="w2", runtime=FAILING),
    ):
        answers = await asyncio.gather(
            *(running.inference.Infer(text_request(), timeout=30) for _ in range(400)),
            return_exceptions=True,
        )
        told = [refusal(each) for each in answers if isinstance(each, grpc.aio.AioRpcError)]
        assert len(told) == 400
        assert {each.reason for each in told} == {"UPSTREAM_FAILURE"}
        refused = [each for each in told if "retry budget is spent" in each.message]
        assert refused
        explained = await running.control.ExplainRequest(
            control_pb2.ExplainRequestRequest(request_id=refused[-1].metadata["request_id"]),
            timeout=5,
        )
        assert "retry budget is spent" in explained.sentences[-1]
        listed = await running.control.ListReplicas(control_pb2.ListReplicasRequest(), timeout=5)
        ejected = [
            replica.worker_id
            for replica in listed.replicas
            if replica.condition == control_pb2.REPLICA_CONDITION_EJECTED
        ]
        assert len(ejected) <= 1, "the last replica was shut out"
        assert running.gateway.scheduler.num_live() == 0
