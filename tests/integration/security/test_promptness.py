"""Calls whose message does not come, or not whole: ended by the server, whatever their deadline."""

import asyncio

import pytest
from tests.support.fleet import RunningGateway, running_gateway, running_worker
from tests.support.http2 import GET_STATE, HEALTH, INFER, INFER_MANY, Http2, http2, message

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
METHODS = [(port, path) for port, paths in ONE_MESSAGE.items() for path in paths]
SOON = {"max_message_seconds": 0.3}
NO_DEADLINE, YEARS = (), (("grpc-timeout", "99999999H"),)


async def ended(client: Http2, stream: int) -> dict[str, str]:
    async with asyncio.timeout(20):
        return await client.end_of(stream)


@pytest.mark.parametrize(("port", "path"), METHODS)
async def test_an_ended_call_without_its_message_is_told_at_once(port: str, path: str) -> None:
    """It stayed open until its deadline, or for good."""
    async with running_gateway() as running, running_worker(running) as worker:
        address = {**running.addresses, "worker": worker.addresses["worker"]}[port]
        async with http2(address) as client:
            for body in (b"", message(b"abc", length=100)):
                stream = client.begin(path)
                client.h2.send_data(stream, body, end_stream=True)
                await client.flush()
                assert (await ended(client, stream))["grpc-status"] == "3"


@pytest.mark.parametrize("deadline", [NO_DEADLINE, YEARS], ids=["no deadline", "years"])
@pytest.mark.parametrize(("port", "path"), METHODS)
async def test_a_message_that_does_not_get_whole_ends_its_call(
    port: str, path: str, deadline: tuple[tuple[str, str], ...]
) -> None:
    async with running_gateway(limits=SOON) as running:
        async with running_worker(running, limits=SOON) as worker:
            address = {**running.addresses, "worker": worker.addresses["worker"]}[port]
            async with http2(address) as client:
                stream = client.begin(path, *deadline)
                client.h2.send_data(stream, message(b"abc", length=100))
                await client.flush()
                told = await ended(client, stream)
    assert told["grpc-status"] == "4"
    assert told["grpc-message"].startswith("no whole message within 0.3 s")


async def test_a_shorter_deadline_ends_it_sooner() -> None:
    async with running_gateway() as running, http2(running.addresses["data"]) as client:
        stream = client.begin(INFER, ("grpc-timeout", "100m"))
        client.h2.send_data(stream, message(b"abc", length=100))
        await client.flush()
        assert (await ended(client, stream)).get("grpc-status", "reset") != "0"


@pytest.mark.parametrize("port", ["data", "control", "worker"])
async def test_silent_reflection_is_ended(port: str) -> None:
    async with running_gateway(limits=SOON) as running:
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


async def test_an_open_infer_many_may_be_silent() -> None:
    async with running_gateway(limits=SOON) as running, running_worker(running):
        async with http2(running.addresses["data"]) as client:
            client.begin(INFER_MANY)
            await client.flush()
            await _until_open(running, 1)
            # Three times the bound; other calls on the connection tell that it lives.
            for _ in range(9):
                await SystemClock().sleep(100_000_000)
                assert (await client.call(LIST, message(b"")))["grpc-status"] == "0"
            assert running.gateway.peer_streams.num_open() == 1


@pytest.mark.parametrize("port", ["data", "control", "worker"])
async def test_watches_of_health_count_as_streams_of_their_address(port: str) -> None:
    few = {"max_streams_per_peer": 3}
    async with running_gateway(limits=few) as running:
        async with running_worker(running, limits=few, wait=False) as worker:
            await running.until_serving()
            address = {**running.addresses, "worker": worker.addresses["worker"]}[port]
            async with http2(address) as client:
                watches = [client.begin(WATCH) for _ in range(4)]
                for watch in watches:
                    client.h2.send_data(watch, message(b""), end_stream=True)
                    await client.flush()
                told = await ended(client, watches[3])
    assert told["grpc-status"] == "8"
    assert "max_streams_per_peer" in told["grpc-message"]


@pytest.mark.parametrize("path", [INFER, STREAM, LIST, HEALTH, WATCH])
async def test_native_tells_an_ended_call_without_its_message_too(path: str) -> None:
    async with running_gateway(transport="native") as running:
        async with http2(running.addresses["data"]) as client:
            for body in (b"", message(b"abc", length=100)):
                stream = client.begin(path)
                client.h2.send_data(stream, body, end_stream=True)
                await client.flush()
                assert (await ended(client, stream)).get("grpc-status", "reset") != "0"


async def _until_open(running: RunningGateway, count: int) -> None:
    async with http2(running.addresses["data"]) as client:
        while running.gateway.peer_streams.num_open() != count:
            await client.call(LIST, message(b""))
