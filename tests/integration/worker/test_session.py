"""Sessions with a worker over real gRPC."""

import asyncio
import json
from pathlib import Path

import aiohttp
import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status
from tests.integration.worker.peers import (
    HANGING,
    MIB,
    Request,
    S,
    running_worker,
    session,
    simulated,
    text_item,
    texts_item,
)

from headway.errors import StartupError
from headway.v1 import types_pb2, worker_pb2

OK = worker_pb2.ITEM_STATUS_OK
FAILED = worker_pb2.ITEM_STATUS_FAILED
CANCELLED = worker_pb2.ITEM_STATUS_CANCELLED
EXPIRED = worker_pb2.ITEM_STATUS_EXPIRED


def statuses(result: worker_pb2.BatchResult) -> dict[int, int]:
    return {item.item_id: item.status for item in result.items}


async def test_a_batch_is_executed() -> None:
    async with (
        running_worker(models=simulated(intercept_ms=3, jitter_ratio=0)) as worker,
        session(worker.addresses["worker"]) as gateway,
    ):
        await gateway.execute(7, [text_item(1, "hello"), text_item(2, "the tide turns")])
        result = await gateway.result()
        assert result.batch_id == 7
        assert statuses(result) == {1: OK, 2: OK}
        assert [item.usage.prompt_units for item in result.items] == [2, 4]
        assert result.units == 6
        assert result.device_ns == 3_000_000
        assert result.wall_ns >= 3_000_000
        assert result.idle_ns > 0


async def test_members_get_exactly_their_rows() -> None:
    # Known fault 14: three concurrent requests with different row counts.
    counts = {1: 1, 2: 3, 3: 7}
    items = [
        texts_item(item_id, *(f"row {row} of {item_id}" for row in range(count)))
        for item_id, count in counts.items()
    ]
    async with running_worker() as worker, session(worker.addresses["worker"]) as gateway:
        alone = {}
        for item in items:
            await gateway.execute(item.item_id, [item])
            alone[item.item_id] = (await gateway.result()).items[0]
        await gateway.execute(9, items)
        together = (await gateway.result()).items
        assert [item.item_id for item in together] == [1, 2, 3]
        for item in together:
            assert item.usage.rows == counts[item.item_id]
            assert list(item.output.tensors[0].shape) == [counts[item.item_id], 2]
            assert item == alone[item.item_id]


async def test_a_busy_worker_says_so_and_not_that_it_failed() -> None:
    async with (
        running_worker(models=[{"model": "sim", "runtime": HANGING}]) as worker,
        session(worker.addresses["worker"]) as one,
        session(worker.addresses["worker"]) as other,
    ):
        await one.execute(1, [text_item(1, "a")])
        # In order on one stream: once the second is turned away, the first has been taken.
        await one.execute(2, [text_item(2, "b")])
        assert (await one.read()).busy.batch_id == 2
        # Known fault 35: another gateway thinks that the slot is its own.
        await other.execute(1, [text_item(3, "c")])
        busy = (await other.read()).busy
        assert (busy.batch_id, busy.draining) == (1, False)
        assert busy.retry_after_ns > 0
        await one.cancel(1)
        # Both were turned away, and hear of the room before whoever was served has its answer.
        assert (await one.read()).capacity.free_slots == 1
        assert statuses(await one.result()) == {1: CANCELLED}
        assert (await other.read()).capacity.free_slots == 1
        await other.execute(4, [text_item(4, "d")])
        await other.cancel(4, 4)
        assert statuses(await other.result()) == {4: CANCELLED}


async def test_a_queue_takes_what_would_be_turned_away() -> None:
    async with (
        running_worker(models=simulated(intercept_ms=1), max_queued_batches=2) as worker,
        session(worker.addresses["worker"]) as gateway,
    ):
        for batch_id in (1, 2, 3):
            await gateway.execute(batch_id, [text_item(batch_id, "x")])
        assert [(await gateway.result()).batch_id for _ in range(3)] == [1, 2, 3]


async def test_cancelling_one_member_leaves_the_others() -> None:
    # Known fault 13.
    async with (
        running_worker(
            models=simulated(failures={"slow": 1, "slow_ms": 50}), max_queued_batches=1
        ) as worker,
        session(worker.addresses["worker"]) as gateway,
    ):
        await gateway.execute(1, [text_item(1, "a")])
        await gateway.execute(2, [text_item(2, "b"), text_item(3, "c")])
        await gateway.cancel(2, 3)
        assert statuses(await gateway.result()) == {1: OK}
        assert statuses(await gateway.result()) == {2: OK, 3: CANCELLED}


async def test_a_poisonous_member_fails_alone() -> None:
    # Known fault 15.
    async with (
        running_worker(models=simulated(failures={"poison": {"marker": "bad"}})) as worker,
        session(worker.addresses["worker"]) as gateway,
    ):
        await gateway.execute(1, [text_item(1, "fine"), text_item(2, "bad"), text_item(3, "fine")])
        assert statuses(await gateway.result()) == {1: OK, 2: FAILED, 3: OK}


async def test_expired_members_are_not_executed() -> None:
    async with running_worker() as worker, session(worker.addresses["worker"]) as gateway:
        await gateway.execute(1, [text_item(1, "a", remaining_ns=0), text_item(2, "b")])
        result = await gateway.result()
        assert statuses(result) == {1: EXPIRED, 2: OK}
        assert result.units == 1


async def test_a_lost_session_frees_the_device() -> None:
    async with (
        running_worker(models=[{"model": "sim", "runtime": HANGING}]) as worker,
        session(worker.addresses["worker"]) as survivor,
    ):
        async with session(worker.addresses["worker"]) as lost:
            await lost.execute(1, [text_item(1, "a")])
            await lost.execute(2, [text_item(2, "b")])
            assert (await lost.read()).HasField("busy")
            await survivor.execute(1, [text_item(1, "c")])
            assert (await survivor.read()).HasField("busy")
        assert (await survivor.read()).capacity.free_slots == 1


async def test_two_models_share_the_device() -> None:
    models = [
        {"model": "sim", "version": version, "runtime": simulated()[0]["runtime"]}
        for version in ("v1", "v2")
    ]
    async with (
        running_worker(models=models) as worker,
        session(worker.addresses["worker"], greet=False) as gateway,
    ):
        hosted = (await gateway.greet()).models
        assert [(m.handle, m.card.version) for m in hosted] == [(0, "v1"), (1, "v2")]
        for handle in (0, 1):
            await gateway.execute(handle, [text_item(handle, "x")], handle=handle)
            assert statuses(await gateway.result()) == {handle: OK}
        assert await gateway.serving("sim/v1")
        assert await gateway.serving("sim")
        assert await gateway.serving("headway.v1.WorkerService")


async def test_messages_above_the_usual_bound_pass() -> None:
    # Known fault 55: gRPC's own bound is 4 MiB.
    item = worker_pb2.BatchItem(
        item_id=1, remaining_ns=60 * S, input=types_pb2.Input(raw=bytes(8 * MIB))
    )
    async with running_worker() as worker, session(worker.addresses["worker"]) as gateway:
        await gateway.execute(1, [item])
        result = await gateway.result()
        assert result.units == 2 * MIB


@pytest.mark.parametrize(
    ("request_", "code", "reason"),
    [
        pytest.param(
            Request(execute=worker_pb2.ExecuteBatch(batch_id=1)),
            grpc.StatusCode.INVALID_ARGUMENT,
            "INVALID_REQUEST",
            id="no greeting",
        ),
        pytest.param(
            Request(greeting=worker_pb2.GatewayGreeting(gateway_id="g", fleet_token="guess")),
            grpc.StatusCode.UNAUTHENTICATED,
            "UNAUTHENTICATED",
            id="wrong token",
        ),
    ],
)
async def test_a_session_that_breaks_the_rules_ends(
    request_: Request, code: grpc.StatusCode, reason: str
) -> None:
    async with (
        running_worker(fleet_token="secret") as worker,
        session(worker.addresses["worker"], greet=False) as gateway,
    ):
        await gateway.call.write(request_)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await gateway.call.read()
        assert caught.value.code() == code
        status = rpc_status.from_call(caught.value)
        assert status is not None
        info = error_details_pb2.ErrorInfo()
        assert status.details[0].Unpack(info)
        assert info.reason == reason
        assert "secret" not in status.message


async def test_sessions_are_bounded() -> None:
    async with (
        running_worker(max_sessions=1) as worker,
        session(worker.addresses["worker"]),
        session(worker.addresses["worker"], greet=False) as second,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await second.call.read()
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "raise worker.max_sessions" in str(caught.value.details())


async def test_a_taken_port_is_a_clear_error() -> None:
    async with running_worker() as worker:
        port = int(worker.addresses["worker"].rpartition(":")[2])
        with pytest.raises(StartupError, match=rf"cannot listen on 127\.0\.0\.1:{port}.*taken"):
            async with running_worker(port=port):
                pass


async def test_the_address_file_says_where_it_listens(tmp_path: Path) -> None:
    path = tmp_path / "state" / "worker.json"
    async with running_worker(address_file=path, http_port=0) as worker:
        addresses = json.loads(path.read_text())
        assert addresses == worker.addresses
        assert sorted(addresses) == ["http", "worker"]
        async with session(addresses["worker"]):
            pass
    assert not path.exists()


async def test_metrics_and_probes() -> None:
    async with (
        running_worker(http_port=0) as worker,
        session(worker.addresses["worker"]) as gateway,
        aiohttp.ClientSession(f"http://{worker.addresses['http']}") as http,
    ):
        await gateway.execute(1, [text_item(1, "hello"), text_item(2, "b", remaining_ns=0)])
        await gateway.result()
        async with http.get("/metrics") as response:
            lines = (await response.text()).splitlines()
        for status in ("ok", "expired"):
            labels = f'model="sim",status="{status}",version="v1"'
            assert f"headway_worker_items_total{{{labels}}} 1.0" in lines
        model = 'model="sim",version="v1"'
        assert f"headway_worker_units_total{{{model}}} 2.0" in lines
        assert f"headway_worker_batch_device_seconds_count{{{model}}} 1.0" in lines
        assert "headway_worker_sessions 1.0" in lines
        assert "headway_worker_draining 0.0" in lines
        async with http.get("/readyz") as response:
            assert response.status == 200
            assert (await response.json())["models"] == {"sim/v1": True}
        async with http.get("/healthz") as response:
            assert response.status == 200


async def test_grpcurl_finds_its_way() -> None:
    async with running_worker() as worker, session(worker.addresses["worker"]) as gateway:
        stub = reflection_pb2_grpc.ServerReflectionStub(gateway.channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        async for answer in stub.ServerReflectionInfo(iter([request])):
            names = {service.name for service in answer.list_services_response.service}
        assert names == {
            "headway.v1.WorkerService",
            "grpc.health.v1.Health",
            "grpc.channelz.v1.Channelz",
            "grpc.reflection.v1alpha.ServerReflection",
        }
        servers = await channelz_pb2_grpc.ChannelzStub(gateway.channel).GetServers(
            channelz_pb2.GetServersRequest()
        )
        assert len(servers.server) >= 1


async def test_draining_refuses_new_batches_and_finishes_old_ones() -> None:
    async with (
        running_worker(models=simulated(intercept_ms=50)) as worker,
        session(worker.addresses["worker"]) as gateway,
    ):
        await gateway.execute(1, [text_item(1, "a")])
        await gateway.execute(2, [text_item(2, "b")])
        assert (await gateway.read()).busy.batch_id == 2
        draining = asyncio.ensure_future(worker.drain())
        assert (await gateway.read()).capacity.draining
        assert not await gateway.serving("sim")
        await gateway.execute(3, [text_item(3, "c")])
        busy = (await gateway.read()).busy
        assert (busy.batch_id, busy.draining) == (3, True)
        assert statuses(await gateway.result()) == {1: OK}
        assert await gateway.call.read() is grpc.aio.EOF
        assert await gateway.call.code() == grpc.StatusCode.OK
        await draining
