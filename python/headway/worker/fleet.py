"""Membership in a gateway's fleet: register, send signs of life, and again after any loss."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from headway import _core
from headway.clock import Clock
from headway.rpc import channels
from headway.rpc.convert import duration_ns
from headway.v1 import fleet_pb2, fleet_pb2_grpc
from headway.worker.patience import within

_log = logging.getLogger(__name__)

NS_PER_S = 1_000_000_000
FIRST_BACKOFF_NS = 100_000_000
LONGEST_BACKOFF_NS = 2 * NS_PER_S
REGISTER_SECONDS = 5.0
DEREGISTER_SECONDS = 2.0
# What a gateway that says nothing of its interval gets.
DEFAULT_INTERVAL_NS = NS_PER_S


class _LeaseLost(Exception):
    """The gateway no longer knows this worker, or is gone."""


class Membership:
    """Keeps one worker in one gateway's fleet. Never gives up."""

    def __init__(
        self,
        address: str,
        *,
        registration: Callable[[], fleet_pb2.RegisterRequest],
        heartbeat: Callable[[], fleet_pb2.HeartbeatRequest],
        clock: Clock,
        rng: _core.Rng,
        open_channel: Callable[[str], channels.aio.Channel] = channels.open_channel,
    ) -> None:
        """Begins nothing; `run` does.

        Args:
          address: the gateway's control address, host:port.
          registration: says what the worker is, each time it registers.
          heartbeat: says how the worker is, each time; the lease is filled in here.
          clock: for intervals and backoff.
          rng: jitter of the backoff, so that workers that lost a gateway together do not return
            together.
          open_channel: opens a channel to `address`; asked again after each loss, so that a
            renewed certificate is shown.
        """
        self.address = address
        self.joined = False
        self.drain_asked = False
        self._registration = registration
        self._heartbeat = heartbeat
        self._clock = clock
        self._rng = rng
        self._lease_id = ""
        self._backoff_ns = FIRST_BACKOFF_NS
        self._last_trouble = ""
        self._changed = asyncio.Event()
        self._told = asyncio.Event()
        self._open_channel = open_channel
        self._channel = open_channel(address)
        self._stub = fleet_pb2_grpc.FleetServiceStub(self._channel)

    async def run(self) -> None:
        """Stays a member until cancelled."""
        while True:
            try:
                await self._hold_lease()
            except channels.aio.AioRpcError as error:
                self._complain(f"{error.code().name}: {error.details()}")
            except (_LeaseLost, TimeoutError) as error:
                self._complain(str(error))
            except asyncio.InvalidStateError:
                # What grpc.aio raises for a write on a stream that the peer has ended meanwhile.
                self._complain("the heartbeat stream ended")
            except Exception:
                # A worker that silently stays away for good is worse than any repeated log line.
                _log.exception("unexpected error in the fleet of %s; trying again", self.address)
            self.joined = False
            self._told.set()
            await self._clock.sleep(self._backoff_ns // 2 + self._rng.below(self._backoff_ns))
            self._backoff_ns = min(2 * self._backoff_ns, LONGEST_BACKOFF_NS)
            await self._reconnect()

    async def announce(self) -> None:
        """Sends a heartbeat now; returns once the gateway has heard how the worker is.

        Returns at once where the worker is not in the fleet; there is nobody to tell.
        """
        if self.joined:
            self._told.clear()
            self._changed.set()
            await self._told.wait()

    async def leave(self) -> None:
        """Leaves the fleet, if the gateway hears it; the lease runs out otherwise."""
        if self.joined:
            self.joined = False
            with contextlib.suppress(channels.aio.AioRpcError):
                request = fleet_pb2.DeregisterRequest(lease_id=self._lease_id)
                await self._stub.Deregister(request, timeout=DEREGISTER_SECONDS)

    async def close(self) -> None:
        """Closes the connection."""
        await self._channel.close(None)

    async def _reconnect(self) -> None:
        old, self._channel = self._channel, self._open_channel(self.address)
        self._stub = fleet_pb2_grpc.FleetServiceStub(self._channel)
        await old.close(None)

    async def _hold_lease(self) -> None:
        lease = await self._stub.Register(self._registration(), timeout=REGISTER_SECONDS)
        self._lease_id = lease.lease_id
        self.joined = True
        _log.info(
            "joined the fleet of %s", lease.gateway_id or self.address,
            extra={"gateway": self.address, "lease_id": lease.lease_id},
        )  # fmt: skip
        call = self._stub.Heartbeat()
        try:
            await self._beat(call, lease)
        finally:
            call.cancel()

    async def _beat(self, call: Any, lease: fleet_pb2.RegisterResponse) -> None:
        interval_ns = duration_ns(lease.heartbeat_interval) or DEFAULT_INTERVAL_NS
        patience_ns = max(duration_ns(lease.lease_duration), interval_ns)
        while True:
            request = self._heartbeat()
            request.lease_id = self._lease_id
            self._changed.clear()
            await call.write(request)
            self._judge(await within(self._clock, patience_ns, call.read()))
            self._backoff_ns = FIRST_BACKOFF_NS
            self._last_trouble = ""
            if not self._changed.is_set():
                self._told.set()
            with contextlib.suppress(TimeoutError):
                await within(self._clock, interval_ns, self._changed.wait())

    def _judge(self, reply: fleet_pb2.HeartbeatResponse | object) -> None:
        if not isinstance(reply, fleet_pb2.HeartbeatResponse):
            raise _LeaseLost("the heartbeat stream ended")
        if not reply.lease_known:
            raise _LeaseLost("the gateway does not know the lease")
        if reply.drain != self.drain_asked:
            self.drain_asked = reply.drain
            _log.info("an operator %s this worker", "drains" if reply.drain else "undrains")

    def _complain(self, trouble: str) -> None:
        # Once for each kind of trouble: a gateway may be away for hours.
        if trouble != self._last_trouble:
            self._last_trouble = trouble
            _log.warning("not in the fleet of %s: %s; trying again", self.address, trouble)
