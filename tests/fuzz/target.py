"""A gateway and a worker under attack, and what must hold of them afterwards."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.support.fleet import RunningGateway, running_gateway, running_worker, text_request

from headway.v1 import control_pb2
from headway.worker.wiring import Worker

PATIENCE_S = 20
MIB = 1 << 20
# Sized for the attacks: what is bounded shall be reached.
LIMITS: dict[str, Any] = {
    "max_concurrent_streams": 256,
    "keepalive_seconds": 1,
    "keepalive_timeout_seconds": 1,
    "max_connections": 4_000,
}


@dataclass
class Target:
    """Ports by name, and the processes behind them."""

    running: RunningGateway
    worker: Worker
    transport: str

    @property
    def ports(self) -> dict[str, str]:
        """Every gRPC port's address."""
        addresses = self.running.addresses
        return {
            "data": addresses["data"],
            "control": addresses["control"],
            "worker": self.worker.addresses["worker"],
        }

    async def check(self) -> None:
        """Every port answers a new caller, a request is served, and nothing is left counted.

        Raises AssertionError, or the error of the call.
        """
        for address in self.ports.values():
            async with grpc.aio.insecure_channel(
                address, [("grpc.use_local_subchannel_pool", 1)]
            ) as channel:
                answer = await health_pb2_grpc.HealthStub(channel).Check(
                    health_pb2.HealthCheckRequest(), timeout=PATIENCE_S
                )
                assert answer.status == health_pb2.HealthCheckResponse.SERVING, address
        try:
            answer = await self.running.inference.Infer(text_request(), timeout=PATIENCE_S)
        except grpc.aio.AioRpcError as error:
            raise AssertionError(
                f"{error.code()} {error.details()}; {await self._state()}"
            ) from error
        assert answer.replica == "w1"
        async with asyncio.timeout(PATIENCE_S):
            while self._left():
                await self.running.health.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)

    async def _state(self) -> str:
        """What there is to look at when a request is not served."""
        state = await self.running.control.GetState(control_pb2.GetStateRequest(), timeout=5)
        return f"left: {self._left()}; {state}"

    def _left(self) -> dict[str, int]:
        """What is still counted, by name; empty when all is as before."""
        gateway = self.running.gateway
        counts = {
            "live": gateway.scheduler.num_live(),
            "flights": gateway.dispatcher.num_flights(),
            "streams": gateway.peer_streams.num_open(),
            "watchers": gateway.feed.num_watchers,
        }
        return {name: count for name, count in counts.items() if count}


@contextlib.asynccontextmanager
async def target(transport: str = "grpcio", **changes: Any) -> AsyncIterator[Target]:
    """A fleet to attack."""
    # Attackers and attacked share a process: its pauses shall not count as a worker's death.
    settings = {"lease_seconds": 60, "limits": LIMITS, **changes}
    async with running_gateway(transport=transport, **settings) as running:
        async with running_worker(running) as worker:
            yield Target(running, worker, transport)


def resident_bytes() -> int:
    """Memory of this process, which holds both sides."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
