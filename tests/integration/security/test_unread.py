"""What waits in a connection unread, and what its other calls have from that."""

from typing import Any

import h2.errors
import h2.events
import h2.settings
import pytest
from tests.support.fleet import (
    MODEL,
    running_gateway,
    running_worker,
    text_request,
    until_live,
)
from tests.support.http2 import INFER_MANY, Http2, frame, http2, message

from headway.v1 import control_pb2, inference_pb2, types_pb2

# A device that takes any number of units.
LARGE = {"max_units": 1 << 40, "intercept_ms": 20}
LIST = "/headway.v1.InferenceService/ListModels"
GO_AWAY = h2.events.ConnectionTerminated


@pytest.mark.parametrize("transport", ["grpcio", "native"])
async def test_a_reader_that_never_reads_holds_no_more_than_its_bound(transport: str) -> None:
    bounds = {"max_inflight_per_stream": 8, "limits": {"write_buffer_bytes": 1024}}
    async with running_gateway(transport=transport, **bounds) as running:
        async with running_worker(running):
            window = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0}
            async with http2(running.addresses["data"], window) as client:
                stream = client.begin(INFER_MANY)
                # What fits into the least window that a server may announce, 33 bytes each.
                for number in range(1500):
                    wanted = inference_pb2.InferManyRequest(id=number, request=text_request())
                    client.h2.send_data(stream, message(wanted.SerializeToString()))
                await client.flush()
                await until_taken(running, 8)
                # Another caller is served meanwhile, until nothing more of this one is taken.
                before, others = -1, 0
                while taken(running) - others != before:
                    before = taken(running) - others
                    for _ in range(20):
                        await running.inference.Infer(text_request(), timeout=5)
                    others += 20
                # Eight whose answers wait, and before them what is written: answers of 134 bytes,
                # eight of them in a kibibyte, of which native has one on each side of its front.
                # Grpcio takes 8 and native 16 of the 1,500; a window of 64 KiB would take 497.
                assert before < 50
            await until_live(running, 0)


@pytest.mark.parametrize("transport", ["grpcio", "native"])
async def test_answers_larger_than_every_window_pass_beside_streams_that_nobody_reads(
    transport: str,
) -> None:
    limits = {"write_buffer_bytes": 1024, "max_concurrent_streams": 8}
    async with running_gateway(transport=transport, limits=limits) as running:
        async with running_worker(running):
            rows = types_pb2.TextList(values=["t"] * 2000)
            large = inference_pb2.InferRequest(model=MODEL, input=types_pb2.Input(texts=rows))
            wanted = inference_pb2.InferManyRequest(id=7, request=large).SerializeToString()
            window = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0}
            async with http2(running.addresses["data"], window) as client:
                for _ in range(4):
                    unread = client.begin(INFER_MANY)
                    client.h2.send_data(unread, message(wanted))
                await client.flush()
                await until_taken(running, 4)
                read = client.begin(INFER_MANY)
                client.h2.increment_flow_control_window(100_000, read)
                client.h2.send_data(read, message(wanted), end_stream=True)
                await client.flush()
                assert (await client.end_of(read))["grpc-status"] == "0"
                data = b"".join(
                    event.data
                    for event in client.seen
                    if isinstance(event, h2.events.DataReceived) and event.stream_id == read
                )
    assert len(data) > 32_000
    answered = inference_pb2.InferManyResponse.FromString(data[5:])
    assert (answered.id, answered.HasField("response")) == (7, True)


UNREAD = {
    # Of each stream that reads no answers, so many requests are taken, and what is written before.
    "max_inflight_per_stream": 1,
    "limits": {"max_concurrent_streams": 100, "write_buffer_bytes": 1024},
}


async def fill(client: Http2, stream: int, data: bytes, most: int) -> None:
    """Sends as much of `data`, again and again, as the stream's own window takes."""
    for _ in range(most // len(data)):
        if client.h2.streams[stream].outbound_flow_control_window < len(data):
            break
        while client.h2.outbound_flow_control_window < len(data):
            assert await client.read()
        client.h2.send_data(stream, data)
        await client.flush()


async def served_beside_others(client: Http2, wanted: "inference_pb2.InferManyRequest") -> None:
    """Calls on a connection that has others are served: those of one request and of many."""
    for path, told in ((LIST, b""), (INFER_MANY, wanted.SerializeToString())):
        other = client.begin(path)
        client.h2.increment_flow_control_window(100_000, other)
        client.h2.send_data(other, message(told), end_stream=True)
        await client.flush()
        assert (await client.end_of(other)).get("grpc-status") == "0"


@pytest.mark.parametrize("transport", ["grpcio", "native"])
async def test_requests_that_nobody_takes_yet_keep_no_call_of_their_connection_waiting(
    transport: str,
) -> None:
    """Native: 64 such calls filled what a client may send over all calls of a connection."""
    async with running_gateway(transport=transport, **UNREAD) as running:
        async with running_worker(running, runtime=LARGE):
            wanted = inference_pb2.InferManyRequest(id=1, request=text_request("x" * 16_000))
            data = message(wanted.SerializeToString())
            window = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0}
            async with http2(running.addresses["data"], window) as client:
                assert await client.until(h2.events.RemoteSettingsChanged) is not None
                streams = [client.begin(INFER_MANY) for _ in range(90)]
                for _ in range(3):
                    for stream in streams:
                        await fill(client, stream, data, 1 << 20)
                    # What was taken meanwhile makes room for more.
                    client.seen.clear()
                    client.h2.ping(b"12345678")
                    await client.flush()
                    assert await client.until(h2.events.PingAckReceived) is not None
                await until_taken(running, len(streams))
                await served_beside_others(client, wanted)


async def test_small_requests_that_nobody_takes_yet_do_not_end_their_connection() -> None:
    """A quarter of a million, each in a frame: those that lie unread cost more than their bytes."""
    async with running_gateway(transport="native", **UNREAD) as running:
        async with running_worker(running):
            wanted = inference_pb2.InferManyRequest(id=1, request=text_request())
            data = message(wanted.SerializeToString())
            window = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0}
            async with http2(running.addresses["data"], window) as client:
                assert await client.until(h2.events.RemoteSettingsChanged) is not None
                streams = [client.begin(INFER_MANY) for _ in range(8)]
                await client.flush()
                for stream in streams:
                    room = client.h2.streams[stream].outbound_flow_control_window
                    client.writer.write(frame(0, 0, stream, data) * (room // len(data)))
                    await client.writer.drain()
                await until_taken(running, len(streams))
                await served_beside_others(client, wanted)
                assert not [event for event in client.seen if isinstance(event, GO_AWAY)]


def taken(running: Any) -> int:
    return sum(running.gateway.metrics.outcomes().values())


async def until_taken(running: Any, count: int) -> None:
    while taken(running) < count:
        await running.control.GetState(control_pb2.GetStateRequest())
