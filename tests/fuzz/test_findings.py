"""What the runs found, each pinned."""

import logging

import grpc
import pytest
from tests.support.fleet import refusal, running_gateway, running_worker
from tests.support.http2 import GET_STATE, INFER, INFER_MANY, http2

UNREADABLE = {
    "no message": b"\xff\xff\xff",
    "text that is no UTF-8": b"\x0a\x02\xff\xfe",
}


@pytest.mark.parametrize("transport", ["grpcio", "native"])
@pytest.mark.parametrize("path", [INFER, INFER_MANY, GET_STATE])
@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
async def test_a_message_that_cannot_be_read_is_the_callers_fault(
    path: str, body: bytes, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It was UNKNOWN, and a traceback in the log for each."""
    if path != INFER:
        body = b"\xff\xff\xff"  # the first field of their messages is no text
    async with running_gateway(transport=transport) as running, running_worker(running):
        port = "control" if path == GET_STATE else "data"
        with caplog.at_level(logging.INFO):
            channel = running.channel if port == "data" else running.control_channel
            call = channel.stream_stream(path)(iter([body]), timeout=5)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                async for _ in call:
                    pass
        told = refusal(caught.value)
        assert (told.code.name, told.reason) == ("INVALID_ARGUMENT", "INVALID_REQUEST")
        assert told.message.startswith("the message cannot be read: ")
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_call_without_a_message_ends_by_its_deadline() -> None:
    async with running_gateway() as running, http2(running.addresses["data"]) as client:
        stream = client.begin(INFER, ("grpc-timeout", "100m"))
        client.h2.send_data(stream, b"", end_stream=True)
        await client.flush()
        assert (await client.end_of(stream)).get("grpc-status", "reset") != "0"
