"""Known fault 24: a replica that fails in 2 ms looks fastest."""

import asyncio

from tests.support.fleet import running_gateway, running_worker, text_request

from headway.v1 import control_pb2

DEVICE = {"intercept_ms": 5}


async def test_fault_24_fast_failure() -> None:
    failing = {**DEVICE, "failures": {"fail_fast": 1}}
    async with (
        running_gateway() as running,
        running_worker(running, worker_id="good-1", runtime=DEVICE),
        running_worker(running, worker_id="good-2", runtime=DEVICE),
        running_worker(running, worker_id="bad", runtime=failing),
    ):
        repeated = []
        for _ in range(20):
            answers = await asyncio.gather(
                *(running.inference.Infer(text_request(), timeout=20) for _ in range(30))
            )
            assert {answer.replica for answer in answers} <= {"good-1", "good-2"}
            repeated += [answer for answer in answers if answer.attempts > 1]
        assert repeated
        told = await running.control.ExplainRequest(
            control_pb2.ExplainRequestRequest(request_id=repeated[0].request_id), timeout=5
        )
        assert [attempt.outcome for attempt in told.record.attempts] == ["failed", "ok"]
        assert told.record.attempts[0].replica == "bad/sim/v1"
        listed = await running.control.ListReplicas(control_pb2.ListReplicasRequest(), timeout=5)
        by_name = {replica.worker_id: replica for replica in listed.replicas}
        bad = by_name["bad"]
        assert bad.condition == control_pb2.REPLICA_CONDITION_EJECTED
        assert bad.breaker == control_pb2.BREAKER_STATE_OPEN
        assert 0 < bad.breaker_open_for.ToMilliseconds() <= 5_500
        assert bad.completed_batches == 0
        assert not bad.HasField("latency"), "a failure was taken for a latency"
        for good in ("good-1", "good-2"):
            assert by_name[good].breaker == control_pb2.BREAKER_STATE_CLOSED
            assert by_name[good].recent_failures == 0
