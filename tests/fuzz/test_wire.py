"""Hostile connections: afterwards every port answers, nothing is left, memory is flat."""

import asyncio
import contextlib

import pytest
from tests.fuzz.attacks import ATTACKS, HTTP_ATTACKS
from tests.fuzz.target import MIB, resident_bytes, target
from tests.support.fleet import running_gateway, running_worker
from tests.support.http2 import raw

from headway.rng import SeedTree

SEED = 20261129


@pytest.mark.parametrize("transport", ["grpcio", "native"])
@pytest.mark.parametrize("name", ATTACKS)
async def test_every_port_survives(name: str, transport: str) -> None:
    rng = SeedTree(SEED).stream(name)
    async with target(transport) as fleet:
        for port, address in fleet.ports.items():
            if transport == "native" and port != "data":
                continue  # the same server as with the other transport
            await ATTACKS[name](address, rng)
        await fleet.check()


@pytest.mark.parametrize("name", HTTP_ATTACKS)
async def test_the_http_ports_survive(name: str) -> None:
    rng = SeedTree(SEED).stream(name)
    async with running_gateway() as running, running_worker(running, http_port=0) as worker:
        await running.until_serving()
        for address in (running.addresses["http"], worker.addresses["http"]):
            await HTTP_ATTACKS[name](address, rng)
            async with raw(address) as (reader, writer):
                writer.write(b"GET /readyz HTTP/1.0\r\n\r\n")
                async with asyncio.timeout(20):
                    assert (await reader.read()).startswith(b"HTTP/1.0 200")


async def test_memory_is_flat_over_repeated_attacks() -> None:
    rng = SeedTree(SEED).stream("memory")
    async with target() as fleet:
        for _ in range(3):
            await _all(fleet.ports["data"], rng)
        before = resident_bytes()
        for _ in range(3):
            await _all(fleet.ports["data"], rng)
        await fleet.check()
        grown = resident_bytes() - before
    # Each round sends 4 MB; one that was kept would show.
    assert grown < 8 * MIB, f"{grown / MIB:.1f} MiB"


async def test_a_thousand_idle_connections_hold_up_nobody() -> None:
    async with target() as fleet, contextlib.AsyncExitStack() as stack:
        for _ in range(10):
            many = [stack.enter_async_context(raw(fleet.ports["data"])) for _ in range(100)]
            await asyncio.gather(*many)
        await fleet.check()


async def _all(address: str, rng: object) -> None:
    for name, attack in ATTACKS.items():
        if name not in ("settings_and_ping_flood", "stream_flood"):
            await attack(address, rng)  # type: ignore[arg-type]
