"""The HTTP port: ``/metrics`` for Prometheus, ``/healthz`` and ``/readyz`` for probes."""

import asyncio
import json
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from headway.errors import StartupError
from headway.telemetry.http_bounds import BoundedConnections

Readiness = Callable[[], tuple[bool, Mapping[str, object]]]
"""Tells whether a request would be served now, and why (shown as JSON)."""


class _NoTraces(logging.Filter):
    """One line, without a trace, for what speaks no HTTP/1 (a gRPC client on the wrong port)."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            record.msg, record.args = "a request on the HTTP port that is not HTTP/1 is refused", ()
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.INFO, "INFO"
        return True


_log = logging.getLogger(__name__)
_log.addFilter(_NoTraces())

_BACKLOG = 128

MAX_CONNECTIONS = 256
"""Connections of an HTTP port; further ones are closed at once. Scrapers and probes have a few."""

REQUEST_SECONDS = 75.0
"""Longest time between two requests of a connection. Scrapes come each minute at the least."""

SHUTDOWN_GRACE_S = 1.0
"""Longest wait for open HTTP connections at `HttpServer.stop`; scrapes take milliseconds."""


class HttpServer:
    """Serves a process's metrics and probes.

    - ``GET /metrics``: the registry, as Prometheus text or OpenMetrics, whichever is asked for.
    - ``GET /healthz``: 200 ``ok`` while the event loop turns; restart the process otherwise.
    - ``GET /readyz``: 200 if a request would be served now, else 503; the details as JSON.
    """

    def __init__(
        self,
        *,
        registry: CollectorRegistry,
        readiness: Readiness,
        routes: Sequence[web.AbstractRouteDef] = (),
        max_connections: int = MAX_CONNECTIONS,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        """Listens to nothing yet.

        Args:
          registry: what /metrics shows.
          readiness: what /readyz says.
          routes: what else to serve on the port.
          max_connections: >= 1; further ones are closed at once.
          request_seconds: > 0; a connection without a whole request for so long is closed.
        """
        self._registry = registry
        self._readiness = readiness
        self._max_connections = max_connections
        self._request_seconds = request_seconds
        self._listener: asyncio.Server | None = None
        application = web.Application()
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/readyz", self._readyz)
        application.add_routes(routes)
        self._runner = web.AppRunner(
            application, access_log=None, logger=_log, shutdown_timeout=SHUTDOWN_GRACE_S
        )

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> str:
        """Listens; returns the bound ``host:port``. Port 0 takes a free one; `tls` makes it HTTPS.

        Raises StartupError if the port is taken or the host is not this machine's.
        """
        await self._runner.setup()
        make = self._runner.server
        assert make is not None
        bounded = BoundedConnections(
            make, max_connections=self._max_connections, request_seconds=self._request_seconds
        )
        try:
            self._listener = await asyncio.get_running_loop().create_server(
                bounded, host, port, ssl=tls, backlog=_BACKLOG, reuse_address=True
            )
        except OSError as error:
            await self._runner.cleanup()
            raise StartupError(
                f"cannot listen for HTTP on {host}:{port}: {error.strerror or error}; "
                "choose another with http_port, or 0 for a free one"
            ) from error
        bound_port = self._listener.sockets[0].getsockname()[1]
        return f"[{host}]:{bound_port}" if ":" in host else f"{host}:{bound_port}"

    async def stop(self) -> None:
        """Stops listening. Repeating it changes nothing."""
        if self._listener is not None:
            self._listener.close()
        await self._runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        ready, details = self._readiness()
        body = json.dumps({"ready": ready, **details}, default=str) + "\n"
        return web.Response(
            text=body, status=200 if ready else 503, content_type="application/json"
        )
