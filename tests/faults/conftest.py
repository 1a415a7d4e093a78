"""What the faults are counted with: what reached a worker, and what is left when all is over.

Each fault of the list that Headway guards against has tests named `test_fault_NN_...`, on a live
fleet: gateway and workers over real sockets, with real gRPC clients.
"""

import asyncio
from typing import Any

import aiohttp
import grpc
from prometheus_client.parser import text_string_to_metric_families
from tests.support.fleet import (
    RunningGateway,
    refusal,
    text_request,
    until_executing,
    until_live,
)

from headway.v1 import (
    control_pb2,
    inference_pb2,
    types_pb2,
)
from headway.worker.wiring import Worker

HANG = {"failures": {"hang": 1}}
CRITICAL, SHEDDABLE = types_pb2.PRIORITY_CRITICAL, types_pb2.PRIORITY_SHEDDABLE
BULK = types_pb2.LANE_BULK


def one_by_one(intercept_ms: float, **more: Any) -> dict[str, Any]:
    """A device that takes so long for any request, and one at a time."""
    return {"intercept_ms": intercept_ms, "jitter_ratio": 0, "max_requests": 1, **more}


def texts_request(*texts: str, **fields: Any) -> inference_pb2.InferRequest:
    """A request of several rows."""
    value = types_pb2.Input(texts=types_pb2.TextList(values=texts))
    return inference_pb2.InferRequest(model="sim", input=value, **fields)


async def worker_counts(worker: Worker, name: str, label: str) -> dict[str, int]:
    """A counter of a worker by one of its labels, from its /metrics."""
    url = f"http://{worker.addresses['http']}/metrics"
    async with aiohttp.ClientSession() as client, client.get(url) as response:
        text = await response.text()
    counts: dict[str, int] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and sample.value:
                key = sample.labels[label]
                counts[key] = counts.get(key, 0) + int(sample.value)
    return counts


async def items(worker: Worker) -> dict[str, int]:
    """Members of batches that reached a worker, by how they ended there."""
    return await worker_counts(worker, "headway_worker_items_total", "status")


async def outcomes(running: RunningGateway) -> dict[str, int]:
    """Requests that ended on a gateway, by outcome."""
    state = await running.control.GetState(control_pb2.GetStateRequest(), timeout=5)
    return dict(state.state.gateway.requests)


async def begin(running: RunningGateway, text: str = "blocker", **fields: Any) -> Any:
    """A call whose request executes when this returns; nothing else may be executing."""
    call = running.inference.Infer(text_request(text, **fields), timeout=60)
    await until_executing(running)
    return call


async def refused(call: Any) -> Any:
    """What a call that fails was told."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return refusal(error)
    raise AssertionError("it was answered")


async def endings(calls: list[Any]) -> list[str]:
    """How each call ended: "ok", or the reason of its refusal."""
    ended = await asyncio.gather(*calls, return_exceptions=True)
    return [_ending(each) for each in ended]


def _ending(ended: Any) -> str:
    if isinstance(ended, grpc.aio.AioRpcError):
        return str(refusal(ended).reason)
    if isinstance(ended, asyncio.CancelledError):
        return "CANCELLED"
    assert not isinstance(ended, BaseException), ended
    return "ok"


async def all_counters_are_zero(running: RunningGateway) -> None:
    """Returns when nothing is counted as queued or executing anywhere, and checks all of it."""
    await until_live(running, 0)
    await until_executing(running, 0)
    state = (await running.control.GetState(control_pb2.GetStateRequest(), timeout=5)).state
    assert [pool.queued_requests for pool in state.pools] == [0] * len(state.pools)
    assert [pool.queued_units for pool in state.pools] == [0] * len(state.pools)
    assert [each.outstanding_batches for each in state.replicas] == [0] * len(state.replicas)
    assert running.gateway.dispatcher.num_flights() == 0
    assert running.gateway.scheduler.num_live() == 0
