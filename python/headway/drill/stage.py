"""What a drill acts on, and what must hold after every one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from headway.client import ControlClient
from headway.clock import Clock
from headway.drill.calls import GRACE_NS, WRONG, Calls, Tally
from headway.drill.processes import MODEL, Processes, simulated
from headway.errors import HeadwayError
from headway.rng import SeedTree
from headway.serve.commands import Addresses
from headway.v1 import control_pb2

Say = Callable[[str], None]
Figures = dict[str, Any]

READY: Final = control_pb2.REPLICA_CONDITION_READY
_POLL_NS: Final = 50_000_000
_JOIN_S: Final = 60.0
_SETTLE_S: Final = 15.0
MOST_GROWTH_MIB: Final = 24.0
"""Growth of a gateway in a drill of seconds, whose histories fill; the soak holds it to 2 %."""


class DrillFailed(Exception):
    """Something that must hold did not."""


def require(holds: bool, what: str) -> None:
    """Raises DrillFailed unless it holds."""
    if not holds:
        raise DrillFailed(what)


@dataclass
class Stage:
    """A fleet and the calls to it.

    Attributes:
      size: 1 for the full length of a drill; less for a short one.
      admin_key: shown to control ports, of gateways that ask for one.
      rss_when_ready: memory of each gateway, MiB, when all replicas were last found ready.
      figures: what the report shows, beside what all drills have.
    """

    processes: Processes
    clock: Clock
    seeds: SeedTree
    say: Say
    size: float
    figures: Figures = field(default_factory=dict)
    calls: list[Calls] = field(default_factory=list)
    gateway_settings: Mapping[str, Any] = field(default_factory=dict)
    rss_when_ready: dict[str, float] = field(default_factory=dict)
    admin_key: str | None = None

    @property
    def gateways(self) -> dict[str, Addresses]:
        """The gateways that were started, by name."""
        return self.processes.addresses

    async def start(
        self,
        workers: Mapping[str, Sequence[Mapping[str, Any]]],
        *,
        num_gateways: int = 1,
        **gateway_settings: Any,
    ) -> None:
        """Starts gateways and workers, and waits until each gateway has all replicas."""
        self.gateway_settings = gateway_settings
        self.say(f"starts {num_gateways} of a gateway, and workers {', '.join(workers)}")
        token = gateway_settings.get("fleet_token")
        for index in range(num_gateways):
            await self.processes.start_gateway(
                f"gateway-{index}", gateway_settings, open_to_all=token is None
            )
        for name, models in workers.items():
            shown = {} if token is None else {"fleet_token": token}
            self.processes.start_worker(name, models, **shown)
        seconds = await self.until_ready(*workers)
        self.say(f"the fleet is ready after {seconds:.1f} s")

    async def restart_gateway(self, name: str) -> None:
        """Starts a gateway again, on its ports."""
        self.say(f"starts {name} again")
        await self.processes.start_gateway(name, self.gateway_settings)

    async def until_ready(self, *workers: str, within_s: float = _JOIN_S) -> float:
        """Waits until every gateway has all replicas of `workers` ready; returns after how long.

        Raises:
          DrillFailed: not in time.
        """

        async def ready() -> bool:
            for addresses in self.gateways.values():
                replicas = await self.replicas(addresses)
                found = {each.worker_id for each in replicas if each.condition == READY}
                if not found >= set(workers):
                    return False
            return True

        began_ns = self.clock.now_ns()
        if not await self.until(ready, within_s):
            raise DrillFailed(f"{', '.join(workers)} were not all ready within {within_s:g} s")
        self.rss_when_ready |= self.rss()
        return (self.clock.now_ns() - began_ns) / 1e9

    async def until(self, holds: Callable[[], Awaitable[bool]], within_s: float) -> bool:
        """Waits until it holds; False if it does not in time."""
        give_up_ns = self.clock.now_ns() + round(within_s * 1e9)
        while not await holds():
            if self.clock.now_ns() > give_up_ns:
                return False
            await self.clock.sleep(_POLL_NS)
        return True

    async def replicas(self, addresses: Addresses) -> Sequence[control_pb2.ReplicaState]:
        """Replicas as a gateway sees them; none while it cannot be reached."""
        state = await self.state(addresses)
        return () if state is None else state.replicas

    async def state(self, addresses: Addresses) -> control_pb2.State | None:
        """A gateway's state; None while it cannot be reached."""
        async with ControlClient(
            addresses.control, api_key=self.admin_key, timeout_s=2.0
        ) as control:
            try:
                return await control.state()
            except HeadwayError:
                return None

    async def pause(self, seconds: float) -> None:
        """Lets time pass."""
        await self.clock.sleep(round(seconds * 1e9))

    def new_calls(self, *, model: str = MODEL, api_key: str | None = None) -> Calls:
        """Clients of all gateways."""
        addresses = [each.data for each in self.gateways.values()]
        rng = self.seeds.stream(f"calls/{len(self.calls)}")
        self.calls.append(Calls(addresses, self.clock, rng, model, api_key))
        return self.calls[-1]

    def rss(self) -> dict[str, float]:
        """Resident memory of each gateway, MiB."""
        return {name: self.processes.rss_mib(name) for name in self.gateways}

    # -- what must hold after every drill

    async def check_settled(self) -> None:
        """All counters and slots are back at zero, on every gateway.

        Raises:
          DrillFailed: which is not.
        """
        for name, addresses in self.gateways.items():
            left = ["the gateway does not answer"]

            async def settled(addresses: Addresses = addresses, left: list[str] = left) -> bool:
                left[:] = _left(await self.state(addresses))
                return not left

            if not await self.until(settled, _SETTLE_S):
                raise DrillFailed(f"{name} after {_SETTLE_S:g} s at rest: {', '.join(left)}")

    def check_calls(self) -> None:
        """Every call ended, in time, and with its own answer or a typed error.

        Raises:
          DrillFailed: how many did not.
        """
        for each in self.calls:
            tally = each.tally
            require(tally.num_calls > 0, "no call was made")
            require(
                tally.latest_ns <= GRACE_NS,
                f"a call ended {tally.latest_ns / 1e6:.0f} ms after its deadline; this process "
                f"itself stood still for up to {tally.paused_ns / 1e6:.0f} ms",
            )
            for outcome in (WRONG, "UNKNOWN", "INTERNAL"):
                count = tally.outcomes[outcome]
                require(count == 0, f"{count} calls ended as {outcome}")

    def check_memory(self) -> None:
        """No gateway has grown by much since it was last started, or its fleet was complete.

        Raises:
          DrillFailed: which has.
        """
        before, after = self.rss_when_ready, self.rss()
        self.figures["gateway_rss_mib"] = {
            name: [round(before.get(name, after[name]), 1), round(after[name], 1)] for name in after
        }
        for name, mib in after.items():
            growth = mib - before.get(name, mib)
            require(growth <= MOST_GROWTH_MIB, f"{name} has grown by {growth:.1f} MiB")

    async def close(self) -> None:
        """Ends the calls."""
        await asyncio.gather(*(each.close() for each in self.calls))


def all_of(calls: Sequence[Calls]) -> Tally:
    """One tally of all calls."""
    total = Tally()
    for each in calls:
        total.outcomes += each.tally.outcomes
        total.replicas += each.tally.replicas
        total.attempts += each.tally.attempts
        total.latest_ns = max(total.latest_ns, each.tally.latest_ns)
        total.slowest_ns = max(total.slowest_ns, each.tally.slowest_ns)
        total.paused_ns = max(total.paused_ns, each.tally.paused_ns)
    return total


def _left(state: control_pb2.State | None) -> list[str]:
    """What is not at zero."""
    if state is None:
        return ["the gateway does not answer"]
    left = []
    if state.gateway.inflight_requests:
        left.append(f"{state.gateway.inflight_requests} requests live")
    for pool in state.pools:
        counts = (pool.queued_requests, pool.queued_units, pool.executing_batches)
        if any(counts):
            left.append(f"{pool.model}/{pool.version} queued, units and executing are {counts}")
    left += [
        f"{each.replica} has {each.outstanding_batches} batches"
        for each in state.replicas
        if each.outstanding_batches
    ]
    return left


@contextlib.asynccontextmanager
async def open_stage(
    folder: Path, clock: Clock, transport: str, seeds: SeedTree, say: Say, size: float
) -> AsyncIterator[Stage]:
    """A stage without a fleet yet; whatever was started is stopped at the end."""
    processes = Processes(folder, clock, transport)
    stage = Stage(processes, clock, seeds, say, size)
    try:
        yield stage
    finally:
        await stage.close()
        await processes.stop()


__all__ = ["DrillFailed", "Figures", "Stage", "all_of", "open_stage", "require", "simulated"]
