"""Known fault 31: a hedge kills its primary, doubles the load, or is waited for in vain."""

import asyncio

from tests.support.fleet import (
    running_gateway,
    running_worker,
    text_request,
    until_executing,
)

from headway.v1 import control_pb2

DEVICE = {"intercept_ms": 5, "jitter_ratio": 0}


async def test_fault_31_hedges() -> None:
    hanging = {**DEVICE, "failures": {"hang": 0.2}}
    failing = {**DEVICE, "failures": {"fail_fast": 1}}
    async with (
        running_gateway(resilience={"hedge_share": 1}) as running,
        running_worker(running, worker_id="good", runtime=DEVICE),
    ):
        infer = running.inference.Infer
        for _ in range(40):
            await infer(text_request(), timeout=30)
        async with running_worker(running, worker_id="hanging", runtime=hanging):
            answers = [await infer(text_request(), timeout=30) for _ in range(60)]
            assert all(answer.attempts == 1 for answer in answers)
            # What hung was told to stop: it would hang for ever.
            await until_executing(running, 0)
            hedged = [answer for answer in answers if answer.hedged and answer.replica == "good"]
            told = [
                await running.control.ExplainRequest(
                    control_pb2.ExplainRequestRequest(request_id=answer.request_id), timeout=5
                )
                for answer in hedged
            ]
            stopped = [
                each
                for each in told
                if [(a.replica, a.hedge, a.outcome) for a in each.record.attempts]
                == [("hanging/sim/v1", False, "cancelled"), ("good/sim/v1", True, "ok")]
            ]
            assert stopped
            text = " ".join(stopped[0].sentences)
            assert "later than 95 % of that version's batches" in text
            assert "The other copy answered first" in text
        async with running_worker(running, worker_id="failing", runtime=failing):
            # Copies that go to one that fails harm nobody, and neither do primaries there.
            answers = await asyncio.gather(*(infer(text_request(), timeout=30) for _ in range(100)))
            assert {answer.replica for answer in answers} == {"good"}
        await until_executing(running, 0)
        assert running.gateway.scheduler.num_live() == 0
