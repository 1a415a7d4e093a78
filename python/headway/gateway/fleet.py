"""The list of workers: leases, sessions, and what each replica may be given."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from headway._core import ReplicaCondition, Rng, Scheduler
from headway.clock import Clock
from headway.errors import FailedPrecondition, InvalidRequest, NotFound
from headway.gateway.catalog import Catalog, Pool
from headway.gateway.registration import check
from headway.gateway.replica import Replica, Worker
from headway.gateway.session import WorkerSession
from headway.rpc import channels
from headway.v1 import fleet_pb2, types_pb2, worker_pb2

_log = logging.getLogger(__name__)

READY, CONNECTING, DRAINING = (
    ReplicaCondition.READY,
    ReplicaCondition.CONNECTING,
    ReplicaCondition.DRAINING,
)
_STATE_DRAINING = fleet_pb2.WORKER_STATE_DRAINING
_STATE_STARTING = fleet_pb2.WORKER_STATE_STARTING


class Fleet:
    """Workers by name. A worker is here exactly as long as its lease lives.

    Listens to the sessions it opens and passes their messages on to `on_message` and `on_lost`.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        catalog: Catalog,
        clock: Clock,
        rng: Rng,
        *,
        greeting: worker_pb2.GatewayGreeting,
        lease_ns: int,
        max_workers: int,
        open_channel: Callable[[str], channels.aio.Channel],
    ) -> None:
        self._scheduler = scheduler
        self._catalog = catalog
        self._clock = clock
        self._rng = rng
        self._greeting = greeting
        self._lease_ns = lease_ns
        self._max_workers = max_workers
        self._open_channel = open_channel
        self.workers: dict[str, Worker] = {}
        self.replicas: dict[int, Replica] = {}
        self._by_lease: dict[str, Worker] = {}
        self._drained: set[str] = set()
        self._by_session: dict[WorkerSession, Worker] = {}
        self._closing: set[asyncio.Task[None]] = set()
        # Set by the composition root, which knows who carries batches.
        self.on_batch_message: Callable[[WorkerSession, worker_pb2.SessionResponse], None]
        self.on_batches_lost: Callable[[WorkerSession], None]
        self.on_capacity: Callable[[int], None]
        self.on_condition: Callable[[Replica], None] = lambda replica: None
        self.on_readiness: Callable[[Pool], None]
        self.on_greeting: Callable[[WorkerSession, Iterable[Replica], worker_pb2.Capacity], None]
        self.on_watch: Callable[[], None] = lambda: None
        self.on_joined: Callable[[Worker], None] = lambda worker: None

    # -- registration

    def register(self, request: fleet_pb2.RegisterRequest) -> Worker:
        """Takes a worker in, or takes note of what changed about it.

        Raises:
          InvalidRequest: a field is missing or malformed, or the fleet is full.
          FailedPrecondition: another worker with this name is connected.
        """
        check(request)
        worker = self.workers.get(request.worker_id)
        same = (
            worker is not None
            and worker.instance_id == request.instance_id
            and worker.address == request.address
            and worker.max_outstanding == max(1, request.max_outstanding_batches)
            and worker.cards == list(request.models)
        )
        if worker is not None and same:
            worker.expires_at_ns = self._clock.now_ns() + self._lease_ns
            worker.labels = dict(request.labels)
            return worker
        if worker is not None:
            _check_not_in_use(worker, request)
            self._remove(worker, "registered anew")
        if len(self.workers) >= self._max_workers:
            raise InvalidRequest(
                f"the fleet already has {self._max_workers} workers (gateway.max_workers)",
                field="worker_id",
            )
        return self._add(request)

    def heartbeat(self, request: fleet_pb2.HeartbeatRequest) -> tuple[bool, bool]:
        """Renews a lease. Returns (lease known, drained by an operator)."""
        worker = self._by_lease.get(request.lease_id)
        if worker is None:
            return False, False
        worker.expires_at_ns = self._clock.now_ns() + self._lease_ns
        not_ready = {(m.model, m.version) for m in request.models if not m.ready}
        if worker.state != request.state or worker.not_ready != not_ready:
            worker.state = request.state
            worker.not_ready = not_ready
            self._judge(worker)
        return True, worker.drained_by_operator

    def deregister(self, lease_id: str) -> bool:
        """Lets a worker go; True if the lease was known."""
        worker = self._by_lease.get(lease_id)
        if worker is None:
            return False
        self._remove(worker, "deregistered")
        return True

    def worker(self, worker_id: str) -> Worker:
        """A registered worker.

        Raises:
          NotFound: no such worker.
        """
        worker = self.workers.get(worker_id)
        if worker is None:
            known = ", ".join(sorted(self.workers)[:8]) or "none"
            raise NotFound(
                f"no worker {worker_id!r}; there are: {known}",
                field="worker_id",
                metadata={"name": worker_id[:64], "kind": "worker"},
            )
        return worker

    def take_drains(self, drained: Mapping[str, bool], *, full: bool) -> None:
        """Takes over which workers operators drain, of workers that are not here yet too.

        `full`: whether these are all there are.
        """
        touched = set(drained) | (set(self._drained) if full else set())
        if full:
            self._drained.clear()
        for worker_id, is_drained in drained.items():
            (self._drained.add if is_drained else self._drained.discard)(worker_id)
        for worker_id in sorted(touched & self.workers.keys()):
            worker = self.workers[worker_id]
            worker.drained_by_operator = worker_id in self._drained
            self._judge(worker)

    def reap(self) -> None:
        """Removes workers whose lease is over. O(fleet), a few times a lease."""
        now_ns = self._clock.now_ns()
        late = [worker for worker in self.workers.values() if worker.expires_at_ns <= now_ns]
        for worker in late:
            self._remove(worker, "its lease ended")

    async def watch_leases(self) -> None:
        """Reaps for ever; `on_watch` is called as often.

        A gateway that stood still itself, as a stopped process does, has not read the heartbeats
        that came meanwhile: they have a turn first.
        """
        turn_ns = self._lease_ns // 4
        while True:
            wakes_at_ns = self._clock.now_ns() + turn_ns
            await self._clock.sleep(turn_ns)
            if self._clock.now_ns() - wakes_at_ns > turn_ns:
                await self._clock.sleep(turn_ns)
            self.reap()
            self.on_watch()

    async def close(self) -> None:
        """Lets all workers go."""
        for worker in list(self.workers.values()):
            self._remove(worker, "the gateway stops")
        await asyncio.gather(*self._closing, return_exceptions=True)

    def replicas_of(self, workers: Iterable[Worker]) -> list[Replica]:
        """Replicas of some workers, by name."""
        found = [replica for worker in workers for replica in worker.replicas.values()]
        return sorted(found, key=lambda replica: replica.name)

    # -- what sessions say

    def on_up(self, session: WorkerSession, greeting: worker_pb2.WorkerGreeting) -> None:
        """A worker greeted: its replicas get their handles on the wire and take work."""
        worker = self._by_session.get(session)
        if worker is None:
            return
        if greeting.worker_id != worker.worker_id:
            _log.error(
                "another worker answers at this address",
                extra={"address": worker.address, "expected": worker.worker_id,
                       "found": greeting.worker_id},
            )  # fmt: skip
            return
        handles: Mapping[tuple[str, str], int] = {
            (hosted.card.model, hosted.card.version): hosted.handle for hosted in greeting.models
        }
        for key, replica in worker.replicas.items():
            if key in handles:
                replica.wire_handle = handles[key]
        self._judge(worker)
        self.on_greeting(session, worker.replicas.values(), greeting.capacity)

    def on_message(self, session: WorkerSession, message: worker_pb2.SessionResponse) -> None:
        """Passes a message on to whoever carries batches."""
        self.on_batch_message(session, message)

    def on_down(self, session: WorkerSession) -> None:
        """A stream ended: no new batches until it is back, and what was on it is lost."""
        worker = self._by_session.get(session)
        if worker is not None:
            self._judge(worker)
        self.on_batches_lost(session)

    # -- inside

    def _add(self, request: fleet_pb2.RegisterRequest) -> Worker:
        now_ns = self._clock.now_ns()
        session = WorkerSession(
            request.address,
            self._greeting,
            self,
            clock=self._clock,
            rng=self._rng,
            open_channel=self._open_channel,
        )
        worker = Worker(
            worker_id=request.worker_id,
            instance_id=request.instance_id,
            address=request.address,
            lease_id=f"{request.worker_id}-{self._rng.next_u64():016x}",
            expires_at_ns=now_ns + self._lease_ns,
            session=session,
            max_outstanding=max(1, request.max_outstanding_batches),
            labels=dict(request.labels),
            software_version=request.software_version,
            state=fleet_pb2.WORKER_STATE_READY,
            cards=list(request.models),
            drained_by_operator=request.worker_id in self._drained,
        )
        for card in request.models:
            self._add_replica(worker, card, now_ns)
        self.workers[worker.worker_id] = worker
        self._by_lease[worker.lease_id] = worker
        self._by_session[session] = worker
        session.start()
        self.on_joined(worker)
        _log.info("worker joined", extra={"worker": worker.worker_id, "address": worker.address})
        return worker

    def _add_replica(self, worker: Worker, card: types_pb2.ModelCard, now_ns: int) -> None:
        pool = self._catalog.host(card)
        limits = card.batch_limits
        handle = self._scheduler.add_replica(
            now_ns,
            pool.handle,
            max_outstanding=worker.max_outstanding,
            max_requests=limits.max_requests,
            max_rows=limits.max_rows,
            max_units=limits.max_units,
        )
        replica = Replica(handle, pool, worker.worker_id, worker.session)
        worker.replicas[card.model, card.version] = replica
        self.replicas[handle] = replica
        pool.num_replicas += 1
        # A probe of a model that loads hears "not serving", rather than "never heard of it".
        self.on_readiness(pool)

    def _remove(self, worker: Worker, why: str) -> None:
        _log.info("worker left", extra={"worker": worker.worker_id, "why": why})
        del self.workers[worker.worker_id]
        del self._by_lease[worker.lease_id]
        del self._by_session[worker.session]
        now_ns = self._clock.now_ns()
        for replica in worker.replicas.values():
            self._set_condition(replica, DRAINING, now_ns)
        # What is on its stream goes back to the queue before the replicas go.
        self.on_batches_lost(worker.session)
        for replica in worker.replicas.values():
            self._scheduler.remove_replica(now_ns, replica.handle)
            del self.replicas[replica.handle]
            replica.pool.num_replicas -= 1
        for replica in worker.replicas.values():
            self.on_readiness(replica.pool)
            self.on_capacity(replica.pool.handle)
        task = asyncio.ensure_future(worker.session.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def on_free(self, session: WorkerSession, free_in_ns: int) -> None:
        """A worker has room for who was turned away: it begins a batch sent now in so long (ns)."""
        worker = self._by_session.get(session)
        if worker is None:
            return
        now_ns = self._clock.now_ns()
        for replica in worker.replicas.values():
            self._scheduler.end_rest(now_ns, replica.handle, free_in_ns)
            self.on_capacity(replica.pool.handle)

    def _judge(self, worker: Worker) -> None:
        """Sets the condition of each replica of a worker by all that is known of it."""
        now_ns = self._clock.now_ns()
        for key, replica in worker.replicas.items():
            if worker.drained_by_operator or worker.state == _STATE_DRAINING:
                condition = DRAINING
            elif (
                not worker.session.up
                or worker.state == _STATE_STARTING
                or key in worker.not_ready
                or replica.wire_handle < 0
            ):
                condition = CONNECTING
            else:
                condition = READY
            self._set_condition(replica, condition, now_ns)

    def _set_condition(self, replica: Replica, condition: ReplicaCondition, now_ns: int) -> None:
        if replica.condition == condition:
            return
        pool = replica.pool
        pool.num_ready += int(condition == READY) - int(replica.condition == READY)
        replica.condition = condition
        self._scheduler.set_replica_condition(now_ns, replica.handle, condition)
        self.on_condition(replica)
        self.on_readiness(pool)
        self.on_capacity(pool.handle)


def _check_not_in_use(worker: Worker, request: fleet_pb2.RegisterRequest) -> None:
    """Two workers of one name would throw each other out for ever.

    One that was restarted has lost its session with its process, and takes over at once.
    """
    if worker.session.up and worker.instance_id != request.instance_id:
        raise FailedPrecondition(
            f"worker_id {worker.worker_id} is in use by a worker at {worker.address}; "
            "give this one another worker_id, or stop that one",
            field="worker_id",
            metadata={"worker_id": worker.worker_id, "address": worker.address},
        )
