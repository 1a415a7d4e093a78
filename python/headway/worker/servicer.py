"""WorkerService on the wire: messages in, messages out, no decisions."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from headway.rpc.tls import FleetName
from headway.v1 import worker_pb2, worker_pb2_grpc
from headway.worker.session import GatewaySession
from headway.worker.sessions import Sessions

SERVICE = worker_pb2.DESCRIPTOR.services_by_name["WorkerService"].full_name


class WorkerServicer(worker_pb2_grpc.WorkerServiceServicer):
    """Moves messages between streams and sessions."""

    def __init__(self, sessions: Sessions, fleet_name: FleetName) -> None:
        """`fleet_name`: what a gateway's certificate must carry, if anything."""
        self._sessions = sessions
        self._fleet_name = fleet_name

    async def Session(
        self, requests: AsyncIterator[worker_pb2.SessionRequest], context: Any
    ) -> None:
        """Serves one gateway until either side ends it."""
        self._fleet_name.check(context)
        session = self._sessions.open()
        reader = asyncio.ensure_future(_read(requests, session))
        try:
            while (message := await session.outbox.take()) is not None:
                await context.write(message)
        finally:
            reader.cancel()
            self._sessions.close(session)


async def _read(
    requests: AsyncIterator[worker_pb2.SessionRequest], session: GatewaySession
) -> None:
    try:
        async for request in requests:
            session.receive(request)
            if session.outbox.congested:
                await session.outbox.relieved()
    except Exception as error:
        session.outbox.close(error)
    else:
        session.half_close()
