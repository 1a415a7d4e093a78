"""FleetService: wire to fleet and back. No decisions."""

import asyncio
import hmac
from collections.abc import AsyncIterator
from typing import Any

from headway.errors import Unauthenticated
from headway.gateway.fleet import Fleet
from headway.rpc.convert import NS_PER_S, duration_from_ns
from headway.rpc.tls import FleetName
from headway.v1 import fleet_pb2, fleet_pb2_grpc

SERVICE = "headway.v1.FleetService"
METHODS = ("Register", "Heartbeat", "Deregister")
_HEARTBEATS_PER_LEASE = 3
_SILENT_LEASES = 3


class FleetServicer(fleet_pb2_grpc.FleetServiceServicer):
    """What workers call."""

    def __init__(
        self,
        fleet: Fleet,
        *,
        gateway_id: str,
        lease_ns: int,
        token: str | None,
        fleet_name: FleetName,
    ) -> None:
        """Everything that is asked for must be shown.

        Args:
          fleet: the workers.
          gateway_id: this process.
          lease_ns: lease between heartbeats.
          token: the fleet's shared secret; None asks for none.
          fleet_name: what a worker's certificate must carry, if anything.
        """
        self._fleet = fleet
        self._gateway_id = gateway_id
        self._lease_ns = lease_ns
        self._token = token
        self._fleet_name = fleet_name

    async def Register(
        self, request: fleet_pb2.RegisterRequest, context: Any
    ) -> fleet_pb2.RegisterResponse:
        """Takes a worker in."""
        self._fleet_name.check(context)
        shown = request.fleet_token.encode()
        if self._token is not None and not hmac.compare_digest(shown, self._token.encode()):
            raise Unauthenticated(
                "fleet_token is not this fleet's; set worker.fleet_token to the gateway's",
                field="fleet_token",
            )
        worker = self._fleet.register(request)
        return fleet_pb2.RegisterResponse(
            lease_id=worker.lease_id,
            lease_duration=duration_from_ns(self._lease_ns),
            heartbeat_interval=duration_from_ns(self._lease_ns // _HEARTBEATS_PER_LEASE),
            gateway_id=self._gateway_id,
        )

    async def Heartbeat(
        self, requests: AsyncIterator[fleet_pb2.HeartbeatRequest], context: Any
    ) -> AsyncIterator[fleet_pb2.HeartbeatResponse]:
        """Keeps a lease alive. The lease id is the proof: only a registered worker knows it.

        A stream that is silent for several leases is ended; nobody's lease depends on it.
        """
        while (request := await self._next(requests)) is not None:
            known, drain = self._fleet.heartbeat(request)
            yield fleet_pb2.HeartbeatResponse(lease_known=known, drain=drain)
            if not known:
                return

    async def _next(
        self, requests: AsyncIterator[fleet_pb2.HeartbeatRequest]
    ) -> fleet_pb2.HeartbeatRequest | None:
        try:
            async with asyncio.timeout(_SILENT_LEASES * self._lease_ns / NS_PER_S):
                return await anext(requests, None)
        except TimeoutError:
            return None

    async def Deregister(
        self, request: fleet_pb2.DeregisterRequest, context: Any
    ) -> fleet_pb2.DeregisterResponse:
        """Lets a worker go; repeating it changes nothing."""
        self._fleet.deregister(request.lease_id)
        return fleet_pb2.DeregisterResponse()
