"""A fleet of a plan in virtual time: gateways and workers of the product, wired as in a process."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any
from unittest import mock

from tests.dst.draw import MS, Draw, S
from tests.dst.plan import LEASE_S, MODEL, WRITER, Fault, Plan, WorkerPlan
from tests.dst.trace import Trace

from headway import clock as wall_clock
from headway.gateway.services import Gateway
from headway.gateway.settings import GatewaySettings
from headway.gateway.wiring import wire
from headway.rng import SeedTree
from headway.testing.memory import MemoryServer, connect_from
from headway.testing.network import Network, Node, NodeClock
from headway.testing.virtual import VirtualLoop
from headway.v1 import worker_pb2
from headway.worker.settings import WorkerSettings
from headway.worker.wiring import Worker

CLIENT = "client"
SESSION = "/headway.v1.WorkerService/Session"
SLOW_MESSAGE_NS = 15 * MS
CLIENT_DELAY_NS = (50_000, 500_000)
START_NS = 500 * MS


class SimulatedGateway:
    """A gateway's process: the one that runs, and how often it was started."""

    def __init__(self, world: "World", index: int) -> None:
        self.name = f"gateway-{index}"
        self.data = f"127.0.0.1:{100 + 2 * index}"
        self.control = f"127.0.0.1:{101 + 2 * index}"
        self._world = world
        self.starts = 0
        self.node: Node
        self.gateway: Gateway

    def start(self) -> None:
        world = self._world
        self.starts += 1
        self.node = world.network.node(self.name)
        self.node.call(self._wire)
        self.node.run(self.gateway.fleet.watch_leases())

    def _wire(self) -> None:
        world = self._world
        settings = GatewaySettings(
            insecure_no_auth=True,
            store={"url": "sqlite://"},  # never opened: this is about requests, not control
            gateway_id=f"{self.name}-{self.starts}",
            lease_seconds=LEASE_S,
            explained_requests=1_000,
        )
        self.gateway = wire(
            settings,
            NodeClock(world.loop, self.node, world.network),
            SeedTree(world.seeds.seed(settings.gateway_id or "")),
            world.loop,
            connect=connect_from(world.network, self.node),
        )
        for address, add in (
            (self.data, self.gateway.add_data_services),
            (self.control, self.gateway.add_control_services),
        ):
            server = MemoryServer(world.network, self.node)
            add(server)
            server.add_insecure_port(address)
            self.node.run(server.start())

    def kill(self) -> None:
        self.node.kill()


class SimulatedWorker:
    """A worker's process, by its plan."""

    def __init__(self, world: "World", index: int, plan: WorkerPlan) -> None:
        self.name = f"w{index}"
        self._world = world
        self._plan = plan
        self.starts = 0
        self.node: Node
        self.worker: Worker
        self.running = False

    def start(self) -> None:
        world = self._world
        self.starts += 1
        self.node = world.network.node(self.name)
        models: list[dict[str, Any]] = [{"model": MODEL, "runtime": self._plan.runtime}]
        if self._plan.writes:
            decoder = {"kind": "simulated-decoder", "max_lanes": 2, "mean_output_tokens": 8}
            models.append({"model": WRITER, "runtime": decoder})
        settings = WorkerSettings.model_validate(
            {
                "worker_id": self.name,
                "gateways": [gateway.control for gateway in world.gateways],
                "models": models,
                "max_outstanding_batches": self._plan.max_outstanding,
                "max_queued_batches": self._plan.max_queued,
                "drain_seconds": 1,
            }
        )
        self.node.call(lambda: self._wire(settings))
        self.node.run(self.worker.start())
        self.running = True

    def _wire(self, settings: WorkerSettings) -> None:
        world = self._world
        self.worker = Worker(
            settings,
            clock=NodeClock(world.loop, self.node, world.network),
            seeds=SeedTree(world.seeds.seed(f"{self.name}-{self.starts}")),
            connect=connect_from(world.network, self.node),
            server=MemoryServer(world.network, self.node),
        )

    def kill(self) -> None:
        self.node.kill()
        self.running = False

    async def drain(self) -> None:
        self.running = False
        await self.node.run(self.worker.drain())


class World:
    """Everything there is in a run. Faults are its methods, by the names of their kinds."""

    def __init__(self, plan: Plan, loop: VirtualLoop, trace: Trace) -> None:
        self.plan = plan
        self.loop = loop
        self.trace = trace
        self.seeds = SeedTree(plan.seed)
        self.network = Network(loop, self._delay_ns)
        self.client = self.network.node(CLIENT)
        self.storms: list[asyncio.Task[Any]] = []
        self._delays = Draw(self.seeds.stream("delays"))
        self._forgeries = Draw(self.seeds.stream("forgeries"))
        if plan.duplicated or plan.forged or plan.swallowed:
            self.network.tamper = self._tamper
        self.gateways = [SimulatedGateway(self, index) for index in range(plan.num_gateways)]
        self.workers = [
            SimulatedWorker(self, index, each) for index, each in enumerate(plan.workers)
        ]
        self.faulty = True

    def start(self) -> None:
        for gateway in self.gateways:
            gateway.start()
        for worker in self.workers:
            worker.start()

    # -- faults

    async def inject(self, fault: Fault) -> None:
        """Has a fault happen and, where it is one that passes, mends it."""
        self.trace.add("fault", fault.kind, fault.worker, fault.gateway)
        await getattr(self, fault.kind)(fault)
        self.trace.add("mended", fault.kind, fault.worker, fault.gateway)

    async def kill_worker(self, fault: Fault) -> None:
        worker = self.workers[fault.worker]
        if worker.running:
            worker.kill()
            await self.pass_time(fault.for_ns)
            worker.start()

    async def freeze_worker(self, fault: Fault) -> None:
        node = self.workers[fault.worker].node
        if not node.frozen:
            node.freeze()
            await self.pass_time(fault.for_ns)
            node.thaw()

    async def reset_link(self, fault: Fault) -> None:
        self.network.reset(*self._link(fault))

    async def silence_link(self, fault: Fault) -> None:
        self.network.silence(*self._link(fault))
        await self.pass_time(fault.for_ns)
        self.network.restore(*self._link(fault))

    async def drain_worker(self, fault: Fault) -> None:
        worker = self.workers[fault.worker]
        if worker.running:
            await worker.drain()
            worker.kill()
            await self.pass_time(fault.for_ns)
            worker.start()

    async def leave_fleet(self, fault: Fault) -> None:
        """The gateway forgets a worker; the worker registers again by itself."""
        gateway = self.gateways[fault.gateway].gateway
        known = gateway.fleet.workers.get(self.workers[fault.worker].name)
        if known is not None:
            self.gateways[fault.gateway].node.call(lambda: gateway.fleet.deregister(known.lease_id))

    async def kill_gateway(self, fault: Fault) -> None:
        gateway = self.gateways[fault.gateway]
        if gateway.node.alive:
            gateway.kill()
            await self.pass_time(min(fault.for_ns, S))
            gateway.start()

    async def storm(self, fault: Fault) -> None:
        """All clients leave at once."""
        for task in [task for task in self.storms if not task.done()]:
            task.cancel()

    async def pass_time(self, duration_ns: int) -> None:
        woken = self.loop.create_future()
        self.loop.call_at((self.loop.now_ns + duration_ns) / 1e9, woken.set_result, None)
        await woken

    def heal(self) -> None:
        """No more faults of the network from here on."""
        self.faulty = False

    def wall_ns(self) -> int:
        """The wall clock: a function of time, so that its steps are no events."""
        now_ns = self.loop.now_ns
        steps = (step_ns for at_ns, step_ns in self.plan.wall_steps if at_ns <= now_ns)
        return 1_700_000_000 * S + now_ns + sum(steps)

    def _link(self, fault: Fault) -> tuple[str, str]:
        return self.gateways[fault.gateway].name, self.workers[fault.worker].name

    def _delay_ns(self, source: str, target: str) -> int:
        if CLIENT in (source, target):
            return self._delays.between(*CLIENT_DELAY_NS)
        delay_ns = self._delays.between(*self.plan.delay_ns)
        if self.faulty and self.plan.slow_messages and self._delays.chance(self.plan.slow_messages):
            delay_ns += self._delays.below(SLOW_MESSAGE_NS)
        return delay_ns

    def _tamper(self, method: str, source: str, target: str, message: Any) -> Sequence[Any]:
        """A worker that answers not at all, or twice, or for what nobody asked."""
        if method != SESSION or not self.faulty or message.WhichOneof("message") != "result":
            return (message,)
        if self._forgeries.chance(self.plan.swallowed):
            self.trace.add("swallowed", message.result.batch_id)
            return ()
        if self._forgeries.chance(self.plan.duplicated):
            return (message, message)
        if self._forgeries.chance(self.plan.forged):
            forged = worker_pb2.SessionResponse()
            forged.CopyFrom(message)
            forged.result.batch_id = self._forgeries.choose((0, 1, 7, 2**62 + 1, 2**63))
            return (forged, message)
        return (message,)


@contextlib.contextmanager
def wall_of(world: World) -> Any:
    """The wall clock of the world, for all who look at it."""
    from headway.gateway import control_plane, control_store, explain, state

    with contextlib.ExitStack() as stack:
        for module in (wall_clock, control_plane, control_store, explain, state):
            stack.enter_context(mock.patch.object(module, "wall_ns", world.wall_ns))
        yield


__all__ = ["SimulatedGateway", "SimulatedWorker", "World", "wall_of"]
