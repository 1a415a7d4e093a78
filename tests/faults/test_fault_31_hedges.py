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
    hanging = {**DEVICE, "failures": {"hang": 1}}
    failing = {**DEVICE, "failures": {"fail_fast": 1}}
    async with (
        running_gateway(resilience={"hedge_share": 1}) as running,
        running_worker(running, worker_id="good", runtime=DEVICE),
    ):
        infer = running.inference.Infer
        for _ in range(40):
            await infer(text_request(), timeout=30)
        async with running_worker(running, worker_id="hanging", runtime=hanging):
            stopped = None
            for _ in range(2_000):
                answer = await infer(text_request(), timeout=30)
                assert (answer.replica, answer.attempts) == ("good", 1)
                if answer.hedged:
                    # What hung is told to stop: it would hang for ever.
                    await until_executing(running, 0)
                    stopped = await running.control.ExplainRequest(
                        control_pb2.ExplainRequestRequest(request_id=answer.request_id), timeout=5
                    )
                    first = stopped.record.attempts[0]
                    if first.replica == "hanging/sim/v1":
                        break
            assert stopped is not None
            assert [(a.replica, a.hedge, a.outcome) for a in stopped.record.attempts] == [
                ("hanging/sim/v1", False, "cancelled"),
                ("good/sim/v1", True, "ok"),
            ]
            text = " ".join(stopped.sentences)
            assert "later than 95 % of that version's batches" in text
            assert "The other copy answered first" in text
        async with running_worker(running, worker_id="failing", runtime=failing):
            # Copies that go to one that fails harm nobody, and neither do primaries there.
            answers = await asyncio.gather(*(infer(text_request(), timeout=30) for _ in range(100)))
            assert {answer.replica for answer in answers} == {"good"}
        await until_executing(running, 0)
        assert running.gateway.scheduler.num_live() == 0
