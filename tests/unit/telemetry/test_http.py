import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Mapping

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from headway.errors import StartupError
from headway.telemetry.http import HttpServer


class Port:
    """A running server with switchable readiness."""

    def __init__(self) -> None:
        self.ready = False
        self.registry = CollectorRegistry()
        self.server = HttpServer(
            registry=self.registry,
            readiness=self.readiness,
            routes=[web.get("/more", self.more)],
        )
        self.url = ""

    def readiness(self) -> tuple[bool, Mapping[str, object]]:
        return self.ready, {"models": {"minilm": self.ready}}

    async def more(self, _request: web.Request) -> web.Response:
        return web.Response(text="more")


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    port = Port()
    port.url = f"http://{await port.server.start('127.0.0.1', 0)}"
    yield port
    await port.server.stop()


async def fetch(url: str, accept: str = "*/*") -> tuple[int, str, str]:
    async with aiohttp.ClientSession() as session:
        async with session.get(url, headers={"Accept": accept}) as response:
            return response.status, response.headers["Content-Type"], await response.text()


async def test_metrics_show_the_registry(port: Port) -> None:
    Counter("shed", "Requests shed.", registry=port.registry).inc(3)
    status, content_type, text = await fetch(f"{port.url}/metrics")
    assert (status, content_type.split(";")[0]) == (200, "text/plain")
    assert "shed_total 3.0" in text


async def test_metrics_speak_open_metrics_when_asked(port: Port) -> None:
    _, content_type, text = await fetch(f"{port.url}/metrics", "application/openmetrics-text")
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")


async def test_health_holds_while_readiness_follows_the_process(port: Port) -> None:
    assert (await fetch(f"{port.url}/healthz"))[::2] == (200, "ok\n")
    assert (await fetch(f"{port.url}/readyz"))[::2] == (
        503,
        '{"ready": false, "models": {"minilm": false}}\n',
    )
    port.ready = True
    assert (await fetch(f"{port.url}/readyz"))[::2] == (
        200,
        '{"ready": true, "models": {"minilm": true}}\n',
    )


async def test_further_routes_are_served_and_unknown_paths_are_not(port: Port) -> None:
    assert (await fetch(f"{port.url}/more"))[2] == "more"
    assert (await fetch(f"{port.url}/nothing"))[0] == 404


async def test_a_taken_port_is_a_startup_error_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        server = Port().server
        with pytest.raises(StartupError, match=rf"127\.0\.0\.1:{number}.*http_port"):
            await server.start("127.0.0.1", number)


async def test_stop_frees_the_port_and_may_be_repeated() -> None:
    server = Port().server
    address = await server.start("127.0.0.1", 0)
    await server.stop()
    await server.stop()
    with socket.create_server(("127.0.0.1", int(address.rpartition(":")[2]))):
        pass


async def test_a_grpc_client_on_the_http_port_leaves_one_line_and_no_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = HttpServer(registry=CollectorRegistry(), readiness=lambda: (True, {}))
    host, _, port = (await server.start("127.0.0.1", 0)).rpartition(":")
    with caplog.at_level(logging.INFO):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
        await reader.read()
        writer.close()
    await server.stop()
    assert "that is not HTTP/1 is refused" in caplog.text
    assert "Traceback" not in caplog.text
