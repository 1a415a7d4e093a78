"""Health per service and per model, reflection, channelz, metrics and probes."""

import asyncio
import json
import urllib.request
from typing import Any

import grpc
import pytest
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.support.fleet import running_gateway, running_worker, text_request, until_replica

from headway.v1 import control_pb2

STATUS = health_pb2.HealthCheckResponse
INFERENCE = "headway.v1.InferenceService"


async def get(url: str) -> tuple[int, str]:
    def fetch() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    return await asyncio.to_thread(fetch)


async def check(running: Any, service: str) -> int:
    answer = await running.health.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
    return int(answer.status)


async def test_ready_means_that_a_request_would_be_served(transport: str) -> None:
    # Known fault 52.
    async with running_gateway(transport=transport) as running:
        for service in ("", INFERENCE):
            assert await check(running, service) == STATUS.NOT_SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await check(running, "sim")
        assert caught.value.code() == grpc.StatusCode.NOT_FOUND
        assert (await get(f"http://{running.addresses['http']}/readyz"))[0] == 503
        async with running_worker(running):
            for service in ("", INFERENCE, "sim", "sim/v1"):
                assert await check(running, service) == STATUS.SERVING, service
            status, body = await get(f"http://{running.addresses['http']}/readyz")
            assert status == 200
            assert json.loads(body)["models"] == {"sim": True}
        await running.until_serving("sim", serving=False)
        assert await check(running, "") == STATUS.NOT_SERVING


async def test_one_model_without_workers_does_not_unready_another(transport: str) -> None:
    async with (
        running_gateway(transport=transport, models={"later": {}}) as running,
        running_worker(running),
    ):
        assert await check(running, "sim") == STATUS.SERVING
        assert (await get(f"http://{running.addresses['http']}/readyz"))[0] == 200


@pytest.mark.parametrize("port", ["data", "control"])
async def test_reflection_lists_the_services_of_each_port(transport: str, port: str) -> None:
    async with running_gateway(transport=transport) as running:
        channel = running.channel if port == "data" else running.control_channel
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        call = stub.ServerReflectionInfo(timeout=5)
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        names = {s.name for s in (await call.read()).list_services_response.service}
        await call.done_writing()
        standard = {
            "grpc.health.v1.Health",
            "grpc.channelz.v1.Channelz",
            "grpc.reflection.v1alpha.ServerReflection",
        }
        own = (
            {INFERENCE}
            if port == "data"
            else {"headway.v1.ControlService", "headway.v1.FleetService"}
        )
        assert names == standard | own


async def test_channelz_answers(transport: str) -> None:
    async with running_gateway(transport=transport) as running:
        stub = channelz_pb2_grpc.ChannelzStub(running.control_channel)
        answer = await stub.GetServers(channelz_pb2.GetServersRequest(), timeout=5)
        assert len(answer.server) >= 1
        data = channelz_pb2_grpc.ChannelzStub(running.channel)
        assert await data.GetServers(channelz_pb2.GetServersRequest(), timeout=5)


async def test_metrics_tell_what_happened(transport: str) -> None:
    async with running_gateway(transport=transport) as running, running_worker(running):
        for _ in range(3):
            await running.inference.Infer(text_request(), timeout=5)
        status, body = await get(f"http://{running.addresses['http']}/metrics")
        assert status == 200
        lines = set(body.splitlines())
        labels = 'model="sim",version="v1"'
        assert 'headway_requests_total{model="sim",outcome="ok",version="v1"} 3.0' in lines
        assert f"headway_request_duration_seconds_count{{{labels}}} 3.0" in lines
        assert f"headway_queue_duration_seconds_count{{{labels}}} 3.0" in lines
        assert f"headway_queue_requests{{{labels}}} 0.0" in lines
        assert 'headway_replicas{model="sim",state="ready",version="v1"} 1.0' in lines
        assert "headway_inflight_requests 0.0" in lines
        assert "headway_config_generation 1.0" in lines
        for family in ("headway_batch_requests", "headway_batch_device_seconds",
                       "headway_batch_cost_ratio"):  # fmt: skip
            assert f"# TYPE {family} histogram" in lines
        assert (await get(f"http://{running.addresses['http']}/healthz"))[0] == 200


async def test_state_is_watched_as_a_snapshot_and_then_changes(transport: str) -> None:
    async with running_gateway(transport=transport) as running:
        request = control_pb2.WatchStateRequest()
        request.interval.FromMilliseconds(100)
        call = running.control.WatchState(request)
        changes = aiter(call)
        first = await anext(changes)
        assert first.snapshot
        assert list(first.state.replicas) == []
        async with running_worker(running):
            pass
        appeared, removed = False, False
        async for change in changes:
            assert not change.snapshot
            appeared |= any(r.replica == "w1/sim/v1" for r in change.state.replicas)
            removed |= "w1/sim/v1" in change.removed_replicas
            if removed:
                break
        assert removed
        assert appeared


async def test_the_split_is_changed_live(transport: str) -> None:
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, worker_id="w1", version="v1"),
        running_worker(running, worker_id="w2", version="v2"),
    ):
        await until_replica(running, "w2/sim/v2")
        shares = [control_pb2.VersionShare(version="v2", share=1)]
        changed = await running.control.SetTrafficSplit(
            control_pb2.SetTrafficSplitRequest(model="sim", shares=shares), timeout=5
        )
        assert changed.split.source == control_pb2.TRAFFIC_SPLIT_SOURCE_OPERATOR
        assert (await running.inference.Infer(text_request(), timeout=5)).version == "v2"


@pytest.mark.parametrize(
    ("shares", "field"),
    [
        ([("v9", 1.0)], "shares[0].version"),
        ([("v1", 0.5)], "shares"),
        ([("v1", 1.5)], "shares[0].share"),
        ([("v1", 0.5), ("v1", 0.5)], "shares[1].share"),
        ([("v1", float("nan"))], "shares[0].share"),
    ],
)
async def test_a_bad_split_names_its_field(shares: list[tuple[str, float]], field: str) -> None:
    from tests.support.fleet import refusal

    async with running_gateway() as running, running_worker(running):
        request = control_pb2.SetTrafficSplitRequest(
            model="sim",
            shares=[control_pb2.VersionShare(version=v, share=s) for v, s in shares],
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.control.SetTrafficSplit(request, timeout=5)
        assert refusal(caught.value).field == field


async def test_the_log_level_is_changed_and_told() -> None:
    import logging

    async with running_gateway() as running:
        logger = logging.getLogger("headway.gateway.fleet")
        request = control_pb2.SetLogLevelRequest(level="debug", logger=logger.name)
        await running.control.SetLogLevel(request, timeout=5)
        assert logger.isEnabledFor(logging.DEBUG)
        request.level = "error"
        answer = await running.control.SetLogLevel(request, timeout=5)
        assert answer.previous_level == "debug"
        logger.setLevel(logging.NOTSET)
