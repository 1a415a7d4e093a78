"""Calls whose message does not come, or not whole: ended by the server, whatever their deadline."""

import asyncio
import base64

import h2.events
import pytest
from tests.support.fleet import RunningGateway, running_gateway, running_worker
from tests.support.http2 import GET_STATE, HEALTH, INFER, INFER_MANY, Http2, http2, message, raw

from headway.clock import SystemClock

LIST = "/headway.v1.InferenceService/ListModels"
STREAM = "/headway.v1.InferenceService/InferStream"
WATCH_STATE = "/headway.v1.ControlService/WatchState"
REGISTER = "/headway.v1.FleetService/Register"
HEARTBEAT = "/headway.v1.FleetService/Heartbeat"
WATCH = "/grpc.health.v1.Health/Watch"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
CHANNELZ = "/grpc.channelz.v1.Channelz/GetServers"

ONE_MESSAGE = {
    "data": (INFER, STREAM, LIST, HEALTH, WATCH, CHANNELZ),
    "control": (GET_STATE, WATCH_STATE, REGISTER, HEALTH, WATCH, CHANNELZ),
    "worker": (HEALTH, WATCH, CHANNELZ),
}
METHODS = [("grpcio", port, path) for port, paths in ONE_MESSAGE.items() for path in paths]
METHODS += [("native", "data", path) for path in ONE_MESSAGE["data"]]
REFLECTING = [("grpcio", "data"), ("grpcio", "control"), ("grpcio", "worker"), ("native", "data")]
SOON = {"max_message_seconds": 0.3}
NO_DEADLINE, YEARS = (), (("grpc-timeout", "99999999H"),)


async def ended(client: Http2, stream: int) -> dict[str, str]:
    async with asyncio.timeout(20):
        return await client.end_of(stream)


@pytest.mark.parametrize(("transport", "port", "path"), METHODS)
async def test_an_ended_call_without_its_message_is_told_at_once(
    transport: str, port: str, path: str
) -> None:
    """It stayed open until its deadline, or for good."""
    async with running_gateway(transport=transport) as running, running_worker(running) as worker:
        address = {**running.addresses, "worker": worker.addresses["worker"]}[port]
        async with http2(address) as client:
            for body in (b"", message(b"abc", length=100)):
                stream = client.begin(path)
                client.h2.send_data(stream, body, end_stream=True)
                await client.flush()
                assert (await ended(client, stream))["grpc-status"] == "3"


@pytest.mark.parametrize("deadline", [NO_DEADLINE, YEARS], ids=["no deadline", "years"])
@pytest.mark.parametrize(("transport", "port", "path"), METHODS)
async def test_a_message_that_does_not_get_whole_ends_its_call(
    transport: str, port: str, path: str, deadline: tuple[tuple[str, str], ...]
) -> None:
    async with running_gateway(transport=transport, limits=SOON) as running:
        async with running_worker(running, limits=SOON) as worker:
            address = {**running.addresses, "worker": worker.addresses["worker"]}[port]
            async with http2(address) as client:
                stream = client.begin(path, *deadline)
                client.h2.send_data(stream, message(b"abc", length=100))
                await client.flush()
                told = await ended(client, stream)
    assert told["grpc-status"] == "4"
    assert told["grpc-message"].startswith("no whole message within 0.3 s")
    # The details say DEADLINE_EXPIRED, as for any other refusal.
    details = base64.b64decode(told["grpc-status-details-bin"] + "==")
    assert b"DEADLINE_EXPIRED" in details


@pytest.mark.parametrize("transport", ["grpcio", "native"])
async def test_overdue_messages_are_counted(transport: str) -> None:
    async with running_gateway(transport=transport, limits=SOON, http_port=0) as running:
        async with http2(running.addresses["data"]) as client:
            for _ in range(2):
                stream = client.begin(INFER)
                client.h2.send_data(stream, message(b"abc", length=100))
                await client.flush()
                await ended(client, stream)
        async with raw(running.addresses["http"]) as (reader, writer):
            writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
            shown = await reader.read()
    assert b'headway_messages_overdue_total{port="data"} 2.0' in shown


@pytest.mark.parametrize("transport", ["grpcio", "native"])
async def test_a_message_that_comes_whole_in_pieces_is_served(transport: str) -> None:
    async with running_gateway(transport=transport) as running:
        async with http2(running.addresses["data"]) as client:
            for body in (message(b""), message(b"\x0a\x03sim")):
                stream = client.begin(LIST)
                for at in range(len(body)):
                    client.h2.send_data(stream, body[at : at + 1], end_stream=at == len(body) - 1)
                    await client.flush()
                assert (await ended(client, stream))["grpc-status"] == "0"


@pytest.mark.parametrize("transport", ["grpcio", "native"])
async def test_a_shorter_deadline_ends_it_sooner(transport: str) -> None:
    async with (
        running_gateway(transport=transport) as running,
        http2(running.addresses["data"]) as client,
    ):
        stream = client.begin(INFER, ("grpc-timeout", "100m"))
        client.h2.send_data(stream, message(b"abc", length=100))
        await client.flush()
        assert (await ended(client, stream)).get("grpc-status", "reset") != "0"


@pytest.mark.parametrize(("transport", "port"), REFLECTING)
async def test_silent_reflection_is_ended(transport: str, port: str) -> None:
    async with running_gateway(transport=transport, limits=SOON) as running:
        async with running_worker(running, limits=SOON) as worker:
            address = {**running.addresses, "worker": worker.addresses["worker"]}[port]
            async with http2(address) as client:
                stream = client.begin(REFLECTION)
                await client.flush()
                assert (await ended(client, stream))["grpc-status"] == "4"


async def test_silent_heartbeats_are_ended() -> None:
    async with running_gateway(lease_seconds=0.2) as running:
        async with http2(running.addresses["control"]) as client:
            stream = client.begin(HEARTBEAT)
            await client.flush()
            assert (await ended(client, stream))["grpc-status"] == "0"


@pytest.mark.parametrize("transport", ["grpcio", "native"])
async def test_an_open_infer_many_may_be_silent(transport: str) -> None:
    async with (
        running_gateway(transport=transport, limits=SOON) as running,
        running_worker(running),
    ):
        async with http2(running.addresses["data"]) as client:
            client.begin(INFER_MANY)
            await client.flush()
            await _until_open(running, 1)
            # Three times the bound; other calls on the connection tell that it lives.
            for _ in range(9):
                await SystemClock().sleep(100_000_000)
                assert (await client.call(LIST, message(b"")))["grpc-status"] == "0"
            assert running.gateway.peer_streams.num_open() == 1


@pytest.mark.parametrize(("transport", "port"), REFLECTING)
async def test_watches_of_health_count_as_streams_of_their_address(
    transport: str, port: str
) -> None:
    few = {"max_streams_per_peer": 3}
    async with running_gateway(transport=transport, limits=few) as running:
        async with running_worker(running, limits=few, wait=False) as worker:
            await running.until_serving()
            address = {**running.addresses, "worker": worker.addresses["worker"]}[port]
            async with http2(address) as client:
                watches = [client.begin(WATCH) for _ in range(4)]
                for watch in watches:
                    client.h2.send_data(watch, message(b""), end_stream=True)
                    await client.flush()
                # Native begins calls of a connection side by side: the one too many may be any.
                async with asyncio.timeout(20):
                    over = await client.until(h2.events.StreamEnded)
                told = await ended(client, over.stream_id)
    assert told["grpc-status"] == "8"
    assert "max_streams_per_peer" in told["grpc-message"]


async def _until_open(running: RunningGateway, count: int) -> None:
    async with http2(running.addresses["data"]) as client:
        while running.gateway.peer_streams.num_open() != count:
            await client.call(LIST, message(b""))
