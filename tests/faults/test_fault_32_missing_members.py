"""Known fault 32: a worker replies "ok" with members missing or extra."""

import asyncio

from tests.support.fleet import running_gateway, running_worker, text_request

from headway.v1 import control_pb2

DEVICE = {"intercept_ms": 5}


async def test_fault_32_missing_members() -> None:
    garbled = {**DEVICE, "failures": {"garbage": 1}}
    async with (
        running_gateway() as running,
        running_worker(running, worker_id="good", runtime=DEVICE),
        running_worker(running, worker_id="garbled", runtime=garbled),
        running_gateway() as clean,
        running_worker(clean, worker_id="clean"),
    ):
        texts = [f"text {number}" for number in range(80)]
        answers = await asyncio.gather(
            *(running.inference.Infer(text_request(text), timeout=20) for text in texts)
        )
        for text, answer in zip(texts, answers, strict=True):
            expected = await clean.inference.Infer(text_request(text), timeout=5)
            assert answer.output == expected.output
        assert {answer.attempts for answer in answers} <= {1, 2}
        listed = await running.control.ListReplicas(control_pb2.ListReplicasRequest(), timeout=5)
        failures = {replica.worker_id: replica.recent_failures for replica in listed.replicas}
        assert failures["good"] == 0
        assert failures["garbled"] > 0
