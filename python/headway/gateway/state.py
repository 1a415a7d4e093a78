"""The gateway's state as operators see it."""

from collections.abc import Callable, Iterable, Sequence

from headway import __version__
from headway._core import BreakerState, ReplicaCondition, ReplicaStats, Scheduler
from headway.clock import Clock, wall_ns
from headway.gateway.catalog import Catalog, Model, Pool
from headway.gateway.fleet import Fleet
from headway.gateway.messages import timestamp
from headway.gateway.replica import Replica
from headway.gateway.rollouts.messages import rollout_message
from headway.rollout.controller import Controller
from headway.rpc.convert import duration_from_ns
from headway.store.records import RolloutRecord
from headway.telemetry.gateway import GatewayMetrics, Gauges
from headway.v1 import control_pb2

_CONDITIONS = {
    ReplicaCondition.READY: ("ready", control_pb2.REPLICA_CONDITION_READY),
    ReplicaCondition.CONNECTING: ("connecting", control_pb2.REPLICA_CONDITION_CONNECTING),
    ReplicaCondition.DRAINING: ("draining", control_pb2.REPLICA_CONDITION_DRAINING),
}
_EJECTED = ("ejected", control_pb2.REPLICA_CONDITION_EJECTED)
_BREAKERS = {
    BreakerState.CLOSED: control_pb2.BREAKER_STATE_CLOSED,
    BreakerState.OPEN: control_pb2.BREAKER_STATE_OPEN,
    BreakerState.HALF_OPEN: control_pb2.BREAKER_STATE_HALF_OPEN,
}


def _condition(replica: Replica, stats: ReplicaStats) -> "tuple[str, control_pb2.ReplicaCondition]":
    if replica.condition == ReplicaCondition.READY and stats.breaker != BreakerState.CLOSED:
        return _EJECTED
    return next(names for key, names in _CONDITIONS.items() if key == replica.condition)


class StateReader:
    """Reads the state; changes nothing. O(fleet) a call, never on the request path."""

    def __init__(
        self,
        scheduler: Scheduler,
        catalog: Catalog,
        fleet: Fleet,
        metrics: GatewayMetrics,
        clock: Clock,
        *,
        gateway_id: str,
        transport: str,
        generation: Callable[[], int],
        store: Callable[[], control_pb2.StoreState],
        rollouts: Callable[[], Sequence[tuple[RolloutRecord, Controller | None]]],
        fill_gauges: Callable[[Gauges], None],
        streams: Callable[[int], control_pb2.StreamPoolState | None],
        num_streams: Callable[[], int],
        num_gateways: Callable[[], int] = lambda: 1,
    ) -> None:
        """Reads nothing yet.

        Args:
          fill_gauges: adds what the control side knows to a scrape.
          streams: outputs of a pool, by its handle; None where it has none.
          num_streams: outputs that have not ended.
        """
        self._scheduler = scheduler
        self._catalog = catalog
        self._fleet = fleet
        self._metrics = metrics
        self._clock = clock
        self._gateway_id = gateway_id
        self._transport = transport
        self._generation = generation
        self._store = store
        self._rollouts = rollouts
        self._fill_gauges = fill_gauges
        self._streams = streams
        self._num_streams = num_streams
        self._num_gateways = num_gateways
        self._started_wall_ns = wall_ns()

    def read(self) -> control_pb2.State:
        """The whole state."""
        return control_pb2.State(
            gateway=self._gateway(),
            pools=[self._pool(pool) for pool in self._sorted_pools()],
            replicas=self.replicas(""),
            splits=[split_message(model) for _, model in sorted(self._catalog.models.items())],
            rollouts=[rollout_message(*each) for each in self._rollouts()],
        )

    def replicas(self, model: str) -> list[control_pb2.ReplicaState]:
        """Replicas by name, of one model or ("") of all."""
        found = self._fleet.replicas_of(self._fleet.workers.values())
        return self.describe(each for each in found if model in ("", each.pool.model.name))

    def replicas_of_worker(self, worker_id: str) -> list[control_pb2.ReplicaState]:
        """A worker's replicas by name; none if it is not registered."""
        worker = self._fleet.workers.get(worker_id)
        return [] if worker is None else self.describe(self._fleet.replicas_of((worker,)))

    def describe(self, replicas: Iterable[Replica]) -> list[control_pb2.ReplicaState]:
        """Messages for replicas, in their order."""
        return [self._replica(replica) for replica in replicas]

    def ready(self) -> bool:
        """True if a request for the default model, or else for any model, would be served."""
        default = self._catalog.default_name()
        if default:
            return self._catalog.models[default].ready()
        return any(model.ready() for model in self._catalog.models.values())

    def gauges(self) -> Gauges:
        """What a scrape wants to know."""
        read = Gauges()
        read.live = self._num_live()
        read.tenants = self._scheduler.num_tenants()
        read.num_gateways = self._num_gateways()
        read.config_generation = self._generation()
        self._fill_gauges(read)
        for pool in self._sorted_pools():
            stats = self._scheduler.pool_stats(pool.handle)
            streams = self._streams(pool.handle)
            waiting = stats.queued_requests + (streams.waiting if streams else 0)
            read.queued.append((pool.model.name, pool.version, waiting, stats.queued_units))
            if streams is not None:
                read.streams.append((pool.model.name, pool.version, streams))
            read.resilience.append((pool.model.name, pool.version, stats))
            read.classes.append(
                (pool.model.name, pool.version, stats.limit, stats.inflight, stats.displaced)
            )
        counts: dict[tuple[str, str, str], int] = {}
        for pool in self._sorted_pools():
            for state, _ in (*_CONDITIONS.values(), _EJECTED):
                counts[pool.model.name, pool.version, state] = 0
        for replica in self._fleet.replicas.values():
            state, _ = _condition(replica, self._scheduler.replica_stats(replica.handle))
            counts[replica.pool.model.name, replica.pool.version, state] += 1
        read.replicas = [(*labels, count) for labels, count in counts.items()]
        return read

    def _num_live(self) -> int:
        return self._scheduler.num_live() + self._num_streams()

    def _sorted_pools(self) -> list[Pool]:
        return sorted(self._catalog.pools.values(), key=lambda pool: pool.name)

    def _gateway(self) -> control_pb2.GatewayState:
        return control_pb2.GatewayState(
            gateway_id=self._gateway_id,
            software_version=__version__,
            started_at=timestamp(self._started_wall_ns),
            ready=self.ready(),
            config_generation=self._generation(),
            inflight_requests=self._num_live(),
            requests=self._metrics.outcomes(),
            transport=self._transport,
            store=self._store(),
            active_tenants=self._scheduler.num_tenants()[1],
            num_gateways=self._num_gateways(),
        )

    def _pool(self, pool: Pool) -> control_pb2.PoolState:
        stats = self._scheduler.pool_stats(pool.handle)
        state = control_pb2.PoolState(
            model=pool.model.name,
            version=pool.version,
            queued_requests=stats.queued_requests,
            queued_units=stats.queued_units,
            executing_batches=stats.executing_batches,
            cost=control_pb2.LearnedCost(
                intercept=duration_from_ns(round(stats.cost_intercept_ns)),
                slope_ns_per_unit=stats.cost_slope_ns,
                residual_ratio=stats.cost_residual_ratio,
                num_observations=stats.cost_observations,
            ),
            ready=pool.num_ready > 0,
            inflight_limit=stats.limit,
            limit_gradient=stats.limit_gradient,
            inflight=_class_counts(stats.inflight),
            displaced=_class_counts(stats.displaced),
        )
        streams = self._streams(pool.handle)
        if streams is not None:
            state.queued_requests += streams.waiting
            state.streams.CopyFrom(streams)
        if stats.quantum_ns:
            state.quantum.CopyFrom(duration_from_ns(stats.quantum_ns))
        return state

    def _replica(self, replica: Replica) -> control_pb2.ReplicaState:
        worker = self._fleet.workers[replica.worker_id]
        stats = self._scheduler.replica_stats(replica.handle)
        lease_left_ns = worker.expires_at_ns - self._clock.now_ns()
        state = control_pb2.ReplicaState(
            replica=replica.name,
            worker_id=replica.worker_id,
            address=worker.address,
            model=replica.pool.model.name,
            version=replica.pool.version,
            condition=_condition(replica, stats)[1],
            outstanding_batches=stats.outstanding_batches,
            max_outstanding_batches=worker.max_outstanding,
            speed=stats.speed,
            completed_batches=stats.completed_batches,
            failed_batches=stats.failed_batches,
            busy_answers=stats.busy_answers,
            lease_expires_at=timestamp(wall_ns() + lease_left_ns),
            labels=worker.labels,
            drained_by_operator=worker.drained_by_operator,
            breaker=_BREAKERS[stats.breaker],
            recent_outcomes=stats.recent_outcomes,
            recent_failures=stats.recent_failures,
        )
        if stats.open_until_ns:
            left_ns = max(0, stats.open_until_ns - self._clock.now_ns())
            state.breaker_open_for.CopyFrom(duration_from_ns(left_ns))
        if stats.handoff_ns:
            state.handoff.CopyFrom(duration_from_ns(stats.handoff_ns))
        if stats.latency_ns:
            state.latency.CopyFrom(duration_from_ns(stats.latency_ns))
        return state


def _class_counts(counts: tuple[int, int, int]) -> control_pb2.ClassCounts:
    critical, standard, sheddable = counts
    return control_pb2.ClassCounts(critical=critical, standard=standard, sheddable=sheddable)


def split_message(model: Model) -> control_pb2.TrafficSplit:
    """A model's split, as in force among registered versions."""
    shares = [
        control_pb2.VersionShare(version=pool.version, share=share)
        for pool, share in model.live_split()
    ]
    return control_pb2.TrafficSplit(model=model.name, shares=shares, source=model.split_source)
