"""Fault 55: messages above 4 MiB fail without a word; keepalive pings end connections."""

import h2.events
import pytest
from tests.support.fleet import running_gateway, running_worker, text_request
from tests.support.http2 import http2

from headway.client import Client
from headway.errors import MessageTooLarge
from headway.gateway.settings import GatewaySettings


@pytest.mark.parametrize("transport", ["grpcio", "native"])
async def test_fault_55_large_messages(transport: str) -> None:
    """5 MiB pass; beyond what is configured, either way, the numbers and the setting are told."""
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, runtime={"max_units": 1 << 40}),
    ):
        async with Client(running.addresses["data"]) as client:
            answer = await client.infer(text_request("x" * (5 << 20)), timeout_s=30)
            assert answer.replica == "w1"
    async with running_gateway(transport=transport, max_message_bytes=6 << 20) as running:
        async with Client(running.addresses["data"]) as client:
            with pytest.raises(MessageTooLarge) as caught:
                await client.infer(text_request("x" * (7 << 20)), timeout_s=30)
        assert caught.value.metadata["limit_bytes"] == str(6 << 20)
        assert "raise gateway.max_message_bytes" in caught.value.message


async def test_fault_55_keepalive_pings() -> None:
    """Three pings within a second are below the strikes; every 10 s is twice the interval."""
    settings = GatewaySettings(insecure_no_auth=True)
    assert settings.limits.min_ping_interval_seconds == 5
    async with running_gateway() as running, http2(running.addresses["data"]) as client:
        for number in range(2):
            client.h2.ping(number.to_bytes(8, "big"))
            await client.flush()
            client.seen.clear()
            assert await client.until(h2.events.PingAckReceived) is not None
        assert not [e for e in client.seen if isinstance(e, h2.events.ConnectionTerminated)]
