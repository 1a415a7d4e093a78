"""Rollouts of models that write: what ends a stream counts for its version."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from tests.integration.rollout.test_rollouts import QUICK, SLOW_STEPS
from tests.support.fleet import RunningGateway, running_gateway
from tests.support.writers import MODEL, read_all, request, running_writer

from headway.client import ControlClient
from headway.v1 import control_pb2, inference_pb2


@contextlib.asynccontextmanager
async def two_writers() -> AsyncIterator[tuple[RunningGateway, ControlClient]]:
    decoder = {"kind": "simulated-decoder", "noise": 0, "mean_output_tokens": 8}

    def writer(version: str) -> Any:
        models = [{"model": MODEL, "version": version, "runtime": decoder}]
        return running_writer(running, worker_id=version, version=version, models=models)

    async with (
        running_gateway() as running,
        writer("v1"),
        writer("v2"),
        ControlClient(running.addresses["control"]) as control,
    ):
        yield running, control


async def stream(running: RunningGateway, key: int, **fields: Any) -> str:
    """The version that answered."""
    asked = request(session_key=str(key), tokens=4, **fields)
    call = running.inference.InferStream(
        inference_pb2.InferStreamRequest(request=asked), timeout=10
    )
    _, final = await read_all(call)
    return str(final.version)


async def counted(control: ControlClient, rollout_id: str, at_least: int) -> tuple[int, int]:
    """Requests of both versions in the last verdict, once there are so many."""
    while True:
        verdicts = await control.verdicts(rollout_id)
        if verdicts:
            last = verdicts[-1]
            arms = last.baseline.requests, last.canary.requests
            if sum(arms) >= at_least:
                return arms
        await asyncio.wait([asyncio.ensure_future(control.state())])


async def test_streams_count_for_the_version_that_the_split_chose() -> None:
    async with two_writers() as (running, control):
        rollout = await control.start_rollout(MODEL, "v2", settings=SLOW_STEPS)
        answered = await asyncio.gather(*(stream(running, key) for key in range(60)))
        # What names its version does not count.
        await asyncio.gather(*(stream(running, key, version="v2") for key in range(10)))
        # Nor does a refusal of what nobody could serve.
        with pytest.raises(grpc.aio.AioRpcError):
            await running.inference.Infer(request(tokens=0), timeout=10)
        arms = await counted(control, rollout.rollout_id, 60)
        assert arms == (answered.count("v1"), answered.count("v2"))
        assert arms[1] > 0


async def test_a_rollout_of_streams_reaches_its_end() -> None:
    async with two_writers() as (running, control):
        rollout = await control.start_rollout(MODEL, "v2", settings=QUICK)
        number = 0
        while not (now := await control.rollout(rollout.rollout_id)).HasField("ended_at"):
            await asyncio.gather(*(stream(running, number + key) for key in range(20)))
            number += 20
        assert now.phase == control_pb2.ROLLOUT_PHASE_PROMOTED
        assert await stream(running, 1) == "v2"
