"""The HTTP port: ``/metrics`` for Prometheus, ``/healthz`` and ``/readyz`` for probes."""

import json
import ssl
from collections.abc import Callable, Mapping, Sequence

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from headway.errors import StartupError

Readiness = Callable[[], tuple[bool, Mapping[str, object]]]
"""Tells whether a request would be served now, and why (shown as JSON)."""

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
    ) -> None:
        """`routes`: what else to serve on the port."""
        self._registry = registry
        self._readiness = readiness
        application = web.Application()
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/readyz", self._readyz)
        application.add_routes(routes)
        self._runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=SHUTDOWN_GRACE_S
        )

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> str:
        """Listens; returns the bound ``host:port``. Port 0 takes a free one; `tls` makes it HTTPS.

        Raises StartupError if the port is taken or the host is not this machine's.
        """
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, reuse_address=True, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise StartupError(
                f"cannot listen for HTTP on {host}:{port}: {error.strerror or error}; "
                "choose another with http_port, or 0 for a free one"
            ) from error
        bound_port = self._runner.addresses[0][1]
        return f"[{host}]:{bound_port}" if ":" in host else f"{host}:{bound_port}"

    async def stop(self) -> None:
        """Stops listening. Repeating it changes nothing."""
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
