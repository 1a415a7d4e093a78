"""Fault 59: work of a request that grows with the fleet."""

import sys
from types import FrameType
from typing import Any

from tests.support.fleet import MODEL, running_gateway, running_worker, text_request

from headway.v1 import fleet_pb2, types_pb2

PATH = ("gateway/path.py", "gateway/dispatch.py", "gateway/pending.py", "gateway/catalog.py",
        "gateway/servicer.py", "telemetry/gateway.py")  # fmt: skip


async def test_fault_59_work_grows_with_the_fleet() -> None:
    """One request makes as many calls in the path's code with 500 workers as with one."""
    async with running_gateway() as running, running_worker(running):
        await running.inference.Infer(text_request(), timeout=5)
        alone = await _calls(running)
        for number in range(500):
            running.gateway.fleet.register(
                fleet_pb2.RegisterRequest(
                    worker_id=f"far-{number}",
                    instance_id="i",
                    address="127.0.0.1:1",
                    models=[types_pb2.ModelCard(model=MODEL, version="v1")],
                )
            )
        among_many = await _calls(running)
    assert alone > 5
    # A timer that fires meanwhile makes one or two.
    assert among_many <= alone + 3


async def _calls(running: Any) -> int:
    """Calls of Python functions in the path's modules for one request; the least of five."""
    counts = []
    for _ in range(5):
        count = 0

        def on_event(frame: FrameType, event: str, _argument: object) -> None:
            nonlocal count
            if event == "call" and frame.f_code.co_filename.endswith(PATH):
                count += 1

        sys.setprofile(on_event)
        try:
            await running.inference.Infer(text_request(), timeout=5)
        finally:
            sys.setprofile(None)
        counts.append(count)
    return min(counts)
