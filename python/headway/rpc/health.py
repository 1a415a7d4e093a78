"""grpc.health.v1, so that no watcher holds up another, or the status itself."""

import asyncio
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class HealthServicer(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # no types
    """Statuses by service. grpcio's own writes to a watcher under the lock that a change needs."""

    def __init__(self) -> None:
        """Knows no service but the server as a whole, which serves."""
        self._statuses: dict[str, int] = {"": SERVING}
        self._watching: dict[str, set[asyncio.Event]] = {}

    def set(self, service: str, status: int) -> None:
        """Sets a status; those who watch it are told when they are ready for it."""
        self._statuses[service] = status
        for event in self._watching.get(service, ()):
            event.set()

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: Any
    ) -> health_pb2.HealthCheckResponse:
        """The status; NOT_FOUND for a service that was never heard of."""
        status = self._statuses.get(request.service)
        if status is None:
            await context.abort(grpc.StatusCode.NOT_FOUND)
        return health_pb2.HealthCheckResponse(status=status)

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Any) -> None:
        """The status, and each change of it; a slow reader misses those in between."""
        changed, told = asyncio.Event(), None
        watching = self._watching.setdefault(request.service, set())
        watching.add(changed)
        try:
            while True:
                changed.clear()
                status = self._statuses.get(request.service, _UNKNOWN)
                if status != told:
                    told = status
                    await context.write(health_pb2.HealthCheckResponse(status=status))
                await changed.wait()
        finally:
            watching.discard(changed)
            if not watching and self._watching.get(request.service) is watching:
                # Whoever watches may name anything: nothing is kept of it.
                del self._watching[request.service]
