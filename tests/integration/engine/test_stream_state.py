"""What operators see of outputs: waiting, lanes and memory, time to first token and gaps."""

import asyncio
from typing import Any

import aiohttp
from tests.support.fleet import RunningGateway, running_gateway
from tests.support.writers import read_all, request, running_writer, until

from headway.v1 import control_pb2, inference_pb2


async def stream_state(gateway: RunningGateway) -> Any:
    state = await gateway.control.GetState(control_pb2.GetStateRequest(), timeout=5)
    (pool,) = state.state.pools
    return pool.streams


async def samples(address: str) -> dict[str, float]:
    """Value of each sample of /metrics by its name, over all labels."""
    async with (
        aiohttp.ClientSession() as client,
        client.get(f"http://{address}/metrics") as response,
    ):
        lines = (await response.text()).splitlines()
    found: dict[str, float] = {}
    for line in lines:
        if not line.startswith("#"):
            name, value = line.split("{")[0].split(" ")[0], line.rsplit(" ", 1)[1]
            found[name] = found.get(name, 0.0) + float(value)
    return found


async def test_the_state_shows_who_waits_and_what_is_free() -> None:
    room = {"max_lanes": 2, "kv_tokens": 10_000, "context": 4_000, "mean_output_tokens": 1e9}
    async with running_gateway() as gateway, running_writer(gateway, runtime=room):
        idle = await stream_state(gateway)
        assert (idle.waiting, idle.writing) == (0, 0)
        assert (idle.free_lanes, idle.total_lanes) == (2, 2)
        assert (idle.free_kv_units, idle.total_kv_units) == (10_000, 10_000)
        calls = [
            gateway.inference.InferStream(
                inference_pb2.InferStreamRequest(request=request(tokens=2_000)), timeout=80_000
            )
            for _ in range(5)
        ]
        live = gateway.gateway.streams.live
        await until(lambda: len(live) == 5 and sum(each.attempts for each in live.values()) == 2)
        busy = await stream_state(gateway)
        assert (busy.waiting, busy.writing, busy.free_lanes) == (3, 2, 0)
        assert busy.free_kv_units < 10_000 - 2 * 2_000
        read = await samples(gateway.addresses["http"])
        assert read["headway_stream_waiting"] == 3
        assert read["headway_stream_lanes"] == 2
        assert read["headway_inflight_requests"] == 5
        for call in calls:
            call.cancel()
        await until(lambda: not gateway.gateway.streams.live)


async def test_time_to_first_token_and_gaps_are_counted_on_both_sides() -> None:
    async with running_gateway() as gateway, running_writer(gateway, http_port=0) as worker:
        for _ in range(3):
            call = gateway.inference.InferStream(
                inference_pb2.InferStreamRequest(request=request(tokens=6)), timeout=60
            )
            deltas, _ = await read_all(call)
            assert deltas
        front = await samples(gateway.addresses["http"])
        back = await samples(worker.addresses["http"])
    assert front["headway_first_token_seconds_count"] == 3
    assert back["headway_worker_first_token_seconds_count"] == 3
    # Six tokens are at most six parts, so at most five gaps.
    assert 1 <= back["headway_worker_token_gap_seconds_count"] <= 15
    assert front["headway_token_gap_seconds_count"] <= 15
    assert back["headway_worker_lanes"] == 8
    assert back["headway_worker_free_lanes"] == 8


async def test_several_models_that_write_share_a_worker() -> None:
    decoder = {"kind": "simulated-decoder", "noise": 0, "mean_output_tokens": 1000}
    models = [
        {"model": "writer", "runtime": {**decoder, "max_lanes": 2}},
        {"model": "poet", "runtime": {**decoder, "max_lanes": 3}},
    ]
    async with running_gateway() as gateway, running_writer(gateway, models=models):
        await gateway.until_serving("poet")
        asked = [request(f"text {n}", tokens=5) for n in range(8)]
        for each in asked[::2]:
            each.model = "poet"
        answers = await asyncio.gather(*(gateway.inference.Infer(each) for each in asked))
        assert [answer.model for answer in answers] == ["poet", "writer"] * 4
        assert [answer.usage.output_units for answer in answers] == [5] * 8
        state = await gateway.control.GetState(control_pb2.GetStateRequest(), timeout=5)
        lanes = {pool.model: pool.streams.total_lanes for pool in state.state.pools}
        assert lanes == {"writer": 2, "poet": 3}
