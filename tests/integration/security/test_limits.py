"""What one connection, one address and one message may cost, over real sockets."""

import asyncio
from typing import Any

import grpc
import h2.errors
import h2.events
import h2.settings
import pytest
from grpc_health.v1 import health_pb2
from tests.support.fleet import (
    MODEL,
    refusal,
    running_gateway,
    running_worker,
    text_request,
    until_executing,
    until_live,
)
from tests.support.http2 import INFER_MANY, PREFACE, frame, http2, message, raw
from tests.support.writers import read_all, running_writer
from tests.support.writers import request as output

from headway.client import Client, ManyStream
from headway.clock import SystemClock
from headway.errors import InvalidRequest, MessageTooLarge
from headway.v1 import inference_pb2, inference_pb2_grpc, types_pb2

MS = 1_000_000
# A device that takes any number of units.
LARGE = {"max_units": 1 << 40, "intercept_ms": 20}
LIST = "/headway.v1.InferenceService/ListModels"
STATUS = health_pb2.HealthCheckResponse
GO_AWAY = h2.events.ConnectionTerminated


class TestPings:
    async def test_a_flood_is_told_to_calm_down(self) -> None:
        async with running_gateway() as running, http2(running.addresses["data"]) as client:
            for _ in range(10):
                client.h2.ping(b"12345678")
            await client.flush()
            goodbye = await client.until(GO_AWAY)
        assert goodbye.error_code == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
        assert goodbye.additional_data == b"too_many_pings"

    async def test_pings_that_keep_the_interval_are_answered(self) -> None:
        """Ten seconds against the five of the default, at a hundredth of the time."""
        limits = {"min_ping_interval_seconds": 0.05}
        async with (
            running_gateway(limits=limits) as running,
            http2(running.addresses["data"]) as client,
        ):
            for number in range(6):
                client.h2.ping(number.to_bytes(8, "big"))
                await client.flush()
                client.seen.clear()
                assert await client.until(h2.events.PingAckReceived) is not None
                await SystemClock().sleep(100 * MS)
            assert (await client.call(LIST, message(b"")))["grpc-status"] == "0"
            assert not [event for event in client.seen if isinstance(event, GO_AWAY)]


class TestKeepalive:
    @pytest.mark.parametrize(
        ("transport", "port"),
        [("grpcio", "data"), ("native", "data"), ("grpcio", "control"), ("grpcio", "worker")],
    )
    async def test_a_peer_that_answers_no_ping_is_dropped(self, transport: str, port: str) -> None:
        """As after a power cut: the connection is there, and nobody behind it."""
        quick = {"keepalive_seconds": 0.2, "keepalive_timeout_seconds": 0.3}
        async with running_gateway(transport=transport, limits=quick) as running:
            async with running_worker(running, limits=quick) as worker:
                address = {**running.addresses, "worker": worker.addresses["worker"]}[port]
                async with raw(address) as (reader, writer):
                    writer.write(PREFACE + frame(4, 0, 0, b"") + frame(4, 1, 0, b""))
                    async with asyncio.timeout(30):
                        while await reader.read(1 << 16):
                            pass


@pytest.mark.parametrize("transport", ["grpcio", "native"])
class TestConnections:
    async def test_an_idle_one_is_closed_and_a_busy_one_is_not(self, transport: str) -> None:
        limits = {"max_connection_idle_seconds": 0.5}
        async with running_gateway(transport=transport, limits=limits) as running:
            async with http2(running.addresses["data"]) as busy:
                busy.begin(INFER_MANY)
                await busy.flush()
                async with http2(running.addresses["data"]) as idle:
                    goodbye = await idle.until(GO_AWAY)
                    if transport == "grpcio":
                        assert goodbye.additional_data == b"connection idle"
                    else:
                        assert goodbye.error_code == h2.errors.ErrorCodes.NO_ERROR
                assert (await busy.call(LIST, message(b"")))["grpc-status"] == "0"
                assert not [event for event in busy.seen if isinstance(event, GO_AWAY)]

    async def test_an_old_one_goes_with_its_call_answered(self, transport: str) -> None:
        limits = {"max_connection_age_seconds": 0.2, "max_connection_age_grace_seconds": 10}
        device = {"intercept_ms": 600}
        async with running_gateway(transport=transport, limits=limits) as running:
            async with running_worker(running, runtime=device):
                assert (await running.inference.Infer(text_request(), timeout=5)).replica == "w1"
                async with http2(running.addresses["data"]) as client:
                    goodbye = await client.until(GO_AWAY)
                    assert goodbye.error_code == h2.errors.ErrorCodes.NO_ERROR
                    if transport == "grpcio":
                        assert goodbye.additional_data == b"max_age"
                # The old connection goes; the next call finds another.
                assert (await running.inference.Infer(text_request(), timeout=5)).replica == "w1"

    async def test_an_old_one_is_closed_when_its_grace_is_over(self, transport: str) -> None:
        limits = {"max_connection_age_seconds": 0.1, "max_connection_age_grace_seconds": 0.2}
        async with running_gateway(transport=transport, limits=limits) as running:
            async with http2(running.addresses["data"]) as client:
                client.begin(INFER_MANY)
                await client.flush()
                async with asyncio.timeout(20):
                    while await client.read():
                        pass
            await _until_no_streams(running)

    async def test_one_too_many_is_closed_at_once_and_the_others_go_on(
        self, transport: str
    ) -> None:
        limits = {"max_connections": 3}
        async with running_gateway(transport=transport, limits=limits) as running:
            address = running.addresses["data"]
            async with http2(address) as first, http2(address) as second, http2(address) as third:
                for client in (first, second, third):
                    assert (await client.call(LIST, message(b"")))["grpc-status"] == "0"
                async with http2(address) as fourth:
                    while await fourth.read():
                        pass
                assert (await first.call(LIST, message(b"")))["grpc-status"] == "0"

    async def test_room_is_made_by_those_that_leave(self, transport: str) -> None:
        limits = {"max_connections": 1}
        async with running_gateway(transport=transport, limits=limits) as running:
            address = running.addresses["data"]
            async with asyncio.timeout(20):
                for _ in range(5):
                    # The one before may be counted for a moment yet.
                    ended = {"closed": ""}
                    while "closed" in ended:
                        async with http2(address) as client:
                            ended = await client.call(LIST, message(b""))
                    assert ended["grpc-status"] == "0"

    async def test_streams_beyond_the_bound_are_refused_not_queued(self, transport: str) -> None:
        async with (
            running_gateway(transport=transport, limits={"max_concurrent_streams": 5}) as running,
            http2(running.addresses["data"]) as client,
        ):
            changed = await client.until(h2.events.RemoteSettingsChanged)
            bound = changed.changed_settings[h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS]
            assert bound.new_value == 5


async def test_native_counts_what_its_bounds_end() -> None:
    limits = {
        "max_connections": 2,
        "max_connection_idle_seconds": 0.3,
        "keepalive_timeout_seconds": 0.1,
    }
    async with running_gateway(transport="native", limits=limits, http_port=0) as running:
        address = running.addresses["data"]
        async with raw(address) as (silent, _), http2(address) as idle, http2(address) as full:
            while await full.read():
                pass
            await silent.read()
            assert await idle.until(GO_AWAY) is not None
            counted = await metrics(running)
    assert counted['headway_connections_ended_total{port="data",reason="full"}'] == 1
    assert counted['headway_connections_ended_total{port="data",reason="silent"}'] == 1
    assert counted['headway_connections_ended_total{port="data",reason="idle"}'] == 1


async def metrics(running: Any) -> dict[str, float]:
    """What the gateway's /metrics says, by name with labels."""
    async with raw(running.addresses["http"]) as (reader, writer):
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        _, _, text = (await reader.read()).decode().partition("\r\n\r\n")
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines if name}


async def test_headers_beyond_the_bound_end_the_call_not_the_connection() -> None:
    async with running_gateway() as running:
        flood = [(f"x-{number}", "v" * 1000) for number in range(40)]
        listed = inference_pb2.ListModelsRequest()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.inference.ListModels(listed, metadata=flood, timeout=5)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "vs. 16384" in str(caught.value.details())
        fits = [(f"x-{number}", "v" * 1000) for number in range(14)]
        await running.inference.ListModels(listed, metadata=fits, timeout=5)


async def test_on_native_such_headers_end_as_http_431_and_the_connection_lives() -> None:
    """docs/security.md says so: gRPC has no code of its own for it and shows UNKNOWN."""
    async with running_gateway(transport="native") as running:
        flood = [(f"x-{number}", "v" * 1000) for number in range(40)]
        listed = inference_pb2.ListModelsRequest()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.inference.ListModels(listed, metadata=flood, timeout=5)
        assert caught.value.code() is grpc.StatusCode.UNKNOWN
        assert "431" in str(caught.value.details())
        await running.inference.ListModels(listed, timeout=5)


@pytest.mark.parametrize("transport", ["grpcio", "native"])
class TestStreamsOfOneAddress:
    async def test_are_bounded_over_all_its_connections(self, transport: str) -> None:
        limits = {"max_streams_per_peer": 3}
        async with running_gateway(transport=transport, limits=limits) as running:
            address = running.addresses["data"]
            async with (
                grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as one,
                grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as two,
            ):
                open_streams = [stub(one).InferMany(), stub(one).InferMany(), stub(two).InferMany()]
                for call in open_streams:
                    await call.write(inference_pb2.InferManyRequest(id=1))
                    await call.read()
                refused = stub(two).InferMany()
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await refused.read()
                told = refusal(caught.value)
                assert (told.code.name, told.reason) == ("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")
                assert told.message == (
                    "3 streams are open from this address, the most that one may have; close "
                    "some, or raise gateway.limits.max_streams_per_peer"
                )
                open_streams[0].cancel()
                while True:
                    again = stub(one).InferMany()
                    await again.write(inference_pb2.InferManyRequest(id=1))
                    try:
                        assert (await again.read()).id == 1
                        break
                    except grpc.aio.AioRpcError:
                        continue

    async def test_leave_no_count_behind(self, transport: str) -> None:
        async with running_gateway(transport=transport) as running:
            async with grpc.aio.insecure_channel(running.addresses["data"]) as channel:
                calls = [stub(channel).InferMany() for _ in range(50)]
                for call in calls:
                    await call.write(inference_pb2.InferManyRequest(id=1))
                    await call.read()
                assert running.gateway.peer_streams.num_open() == 50
                for call in calls:
                    call.cancel()
                while running.gateway.peer_streams.num_open():
                    await running.control.GetState(control_request())


@pytest.mark.parametrize("transport", ["grpcio", "native"])
class TestMessageSizes:
    async def test_a_request_beyond_the_gateways_limit(self, transport: str) -> None:
        async with running_gateway(transport=transport, max_message_bytes=20_000) as running:
            async with Client(running.addresses["data"]) as client:
                with pytest.raises(MessageTooLarge) as caught:
                    await client.infer(text_request("x" * 30_000), timeout_s=5)
        assert caught.value.message == (
            "the request has 30013 bytes and at most 20000 are taken; send fewer rows at once, or "
            "raise gateway.max_message_bytes"
        )
        assert caught.value.metadata == {"size_bytes": "30013", "limit_bytes": "20000"}

    async def test_a_request_beyond_the_clients_own(self, transport: str) -> None:
        async with running_gateway(transport=transport) as running:
            async with Client(running.addresses["data"], max_message_bytes=10_000) as client:
                with pytest.raises(MessageTooLarge) as caught:
                    await client.infer(text_request("x" * 30_000), timeout_s=5)
        assert caught.value.message == (
            "the request has 30013 bytes and at most 10000 are taken; send fewer rows at once, or "
            "raise this client's max_message_bytes"
        )

    async def test_a_large_one_within_the_limits_is_served(self, transport: str) -> None:
        # Sixty MiB hold the event loop, which gateway and worker share here, on a busy machine.
        async with running_gateway(transport=transport, lease_seconds=60) as running:
            async with running_worker(running, runtime=LARGE):
                async with Client(running.addresses["data"]) as client:
                    await client.infer(text_request("x" * (60 << 20)), timeout_s=60)

    async def test_on_a_stream_it_alone_fails(self, transport: str) -> None:
        async with running_gateway(transport=transport) as running:
            async with running_worker(running, runtime={"intercept_ms": 50}):
                many = ManyStream(running.addresses["data"], max_message_bytes=10_000)
                good = asyncio.ensure_future(many.infer(text_request(), timeout_s=5))
                with pytest.raises(MessageTooLarge):
                    await many.infer(text_request("x" * 30_000), timeout_s=5)
                assert (await good).replica == "w1"
                await many.close()


class TestAnswersThatAreTooLarge:
    """The simulated device answers with 16 bytes a row."""

    async def test_for_the_gateway_are_told_with_their_size(self) -> None:
        async with running_gateway(max_message_bytes=20_000) as running:
            async with running_worker(running):
                rows = types_pb2.TextList(values=["t"] * 2000)
                request = inference_pb2.InferRequest(model=MODEL, input=types_pb2.Input(texts=rows))
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await running.inference.Infer(request, timeout=5)
                told = refusal(caught.value)
                assert (told.code.name, told.reason) == ("RESOURCE_EXHAUSTED", "MESSAGE_TOO_LARGE")
                assert int(told.metadata["size_bytes"]) > 32_000
                assert (await running.inference.Infer(text_request(), timeout=5)).replica == "w1"

    async def test_for_the_worker_leave_its_session_alive(self) -> None:
        async with running_gateway() as running:
            async with running_worker(running, max_message_bytes=20_000):
                rows = types_pb2.TextList(values=["t"] * 2000)
                request = inference_pb2.InferRequest(model=MODEL, input=types_pb2.Input(texts=rows))
                async with Client(running.addresses["data"]) as client:
                    with pytest.raises(InvalidRequest, match=r"more than worker\.max_message_by"):
                        await client.infer(request, timeout_s=5)
                    answer = await client.infer(text_request(), timeout_s=5)
        assert answer.attempts == 1


async def test_large_requests_do_not_add_up_to_a_batch_that_ends_the_session() -> None:
    """Ten of 300 kB, and a session that carries 1 MB."""
    bounds = {"max_message_bytes": 500_000, "max_batch_bytes": 1_000_000}
    async with running_gateway(**bounds, max_attempts=10) as running:
        async with running_worker(running, runtime=LARGE, max_batch_bytes=1_000_000):
            calls = [
                running.inference.Infer(text_request("x" * 300_000), timeout=20) for _ in range(10)
            ]
            answers = await asyncio.gather(*calls)
    assert {answer.replica for answer in answers} == {"w1"}


@pytest.mark.parametrize("transport", ["grpcio", "native"])
async def test_a_watcher_that_stands_still_keeps_health_from_nobody(transport: str) -> None:
    """What it leaves unread delays neither the status nor other watchers."""
    limits = {"write_buffer_bytes": 1024}
    async with running_gateway(transport=transport, limits=limits) as running:
        window = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0}
        asked = health_pb2.HealthCheckRequest(service="changing")
        running.gateway.health.set("changing", False)
        async with http2(running.addresses["data"], window) as still:
            stream = still.begin("/grpc.health.v1.Health/Watch")
            still.h2.send_data(stream, message(asked.SerializeToString()), end_stream=True)
            await still.flush()
            for number in range(600):
                # Each is asked for before the next, so that the watcher is written to every time.
                serving = number % 2 == 0
                running.gateway.health.set("changing", serving)
                answer = await running.health.Check(asked, timeout=20)
                assert answer.status == (STATUS.SERVING if serving else STATUS.NOT_SERVING)
            await running.until_serving("changing", serving=False)


@pytest.mark.parametrize("transport", ["grpcio", "native"])
async def test_readers_that_stand_still_hold_up_neither_others_nor_the_end(transport: str) -> None:
    """On native each took one of six threads: the seventh waited, and the gateway never stopped."""
    async with running_gateway(transport=transport, drain_seconds=0.5) as running:
        async with running_writer(running, runtime={"max_lanes": 16}):
            window = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0}
            wanted = inference_pb2.InferStreamRequest(request=output(tokens=400))
            async with http2(running.addresses["data"], window) as still:
                for _ in range(8):
                    stream = still.begin("/headway.v1.InferenceService/InferStream")
                    still.h2.send_data(stream, message(wanted.SerializeToString()), end_stream=True)
                await still.flush()
                await until_live(running, 8)
                call = running.inference.InferStream(
                    inference_pb2.InferStreamRequest(request=output(tokens=150)), timeout=60
                )
                # Meanwhile the others have filled what there is for their answers.
                _, final = await read_all(call)
                assert final is not None
                async with asyncio.timeout(30):
                    await running.process.stop()


async def test_requests_in_flight_on_a_stream_are_bounded() -> None:
    async with running_gateway(max_inflight_per_stream=8) as running:
        async with running_worker(running, runtime={"intercept_ms": 20_000}):
            async with grpc.aio.insecure_channel(running.addresses["data"]) as channel:
                call = stub(channel).InferMany(timeout=600)

                async def write() -> None:
                    for number in range(100):
                        item = inference_pb2.InferManyRequest(id=number, request=text_request())
                        await call.write(item)

                writer = asyncio.ensure_future(write())
                await until_executing(running)
                await until_live(running, 8)
                for _ in range(20):
                    await until_live(running, 8)
                call.cancel()
                await asyncio.gather(writer, return_exceptions=True)
            await until_live(running, 0)


async def _until_no_streams(running: Any) -> None:
    async with asyncio.timeout(20):
        while running.gateway.peer_streams.num_open():
            await running.control.GetState(control_request())


def stub(channel: grpc.aio.Channel) -> Any:
    return inference_pb2_grpc.InferenceServiceStub(channel)


def control_request() -> Any:
    from headway.v1 import control_pb2

    return control_pb2.GetStateRequest()
