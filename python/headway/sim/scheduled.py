"""The core's `Scheduler`, driven from Python as the gateway drives it."""

from collections.abc import Iterable, Sequence

from headway._core import BatchOutcome, ReplicaCondition, Scheduler, Verdict
from headway.sim.fleet import Fleet
from headway.sim.loop import Replicas, Request
from headway.sim.policy import Policy
from headway.sim.workload import NS_PER_MS

_ONLY = 0


class ScheduledPolicy:
    """One model, one pool, one tenant without a limit; made to be extended.

    Attributes:
      scheduler: the core's object: its splits, quotas and policies may be changed on the way.
      refusals: verdicts by the number of the request.
    """

    def __init__(self, fleet: Fleet, policy: Policy, seed: int = 0) -> None:
        """Sets up `fleet` under the settings of `policy`, whose kind is not looked at."""
        device, unlimited = fleet.device, float("inf")
        self.refusals: dict[int, Verdict] = {}
        self.scheduler = Scheduler(
            seed=seed, max_live=min(1 << 24, max(2 * policy.max_queued_requests, 65_536))
        )
        self.scheduler.add_tenant(0, units_per_s=unlimited, burst_units=unlimited)
        self.scheduler.add_model(salt=0)
        self.scheduler.add_pool(
            max_queued_requests=policy.max_queued_requests,
            max_queued_units=1 << 60,
            prior_intercept_ns=policy.prior_intercept_ms * NS_PER_MS,
            prior_slope_ns=policy.prior_slope_ms * NS_PER_MS,
        )
        self.scheduler.set_policy(
            _ONLY,
            alpha=policy.alpha,
            large_share=policy.large_share,
            bulk_share=policy.bulk_share,
            priority_weights=policy.priority_weights,
            shed_early=policy.shed_early,
        )
        self.scheduler.set_split(_ONLY, [_ONLY], [1.0])
        for _ in fleet.speeds:
            replica = self.scheduler.add_replica(
                0,
                _ONLY,
                max_outstanding=1,
                max_requests=device.max_requests,
                max_rows=device.max_rows,
                max_units=device.max_units,
            )
            self.scheduler.set_replica_condition(0, replica, ReplicaCondition.READY)
        self._learns = policy.learns
        self._present = [True] * len(fleet.speeds)
        self._tickets: dict[int, int] = {}
        self._numbers: dict[int, int] = {}
        self._batches: dict[int, int] = {}

    def arrive(self, now_ns: int, request: Request, replicas: Replicas) -> bool:
        """Offers it."""
        self._follow(now_ns, replicas)
        answer = self.scheduler.offer(
            now_ns,
            _ONLY,
            _ONLY,
            _ONLY,
            request.tenant,
            request.units,
            request.rows,
            request.deadline_ns,
            request.priority,
            request.lane,
            request.weight,
        )
        if isinstance(answer, Verdict):
            self.refusals[request.number] = answer
            return False
        self._tickets[request.number] = answer
        self._numbers[answer] = request.number
        return True

    def cancel(self, now_ns: int, number: int) -> None:
        """Cancels it."""
        self.scheduler.cancel(now_ns, self._tickets[number])

    def form(self, now_ns: int, replicas: Replicas) -> tuple[int, Sequence[int]] | None:
        """The scheduler's next batch."""
        self._follow(now_ns, replicas)
        batch = self.scheduler.form_batch(now_ns, _ONLY)
        if batch is None:
            return None
        self._batches[batch.replica] = batch.id
        return batch.replica, [self._numbers[ticket] for ticket in batch.tickets]

    def complete(self, now_ns: int, replica: int, device_ns: int) -> None:
        """Feeds it back."""
        device_ns = device_ns if self._learns else 0
        self.scheduler.complete(now_ns, self._batches[replica], BatchOutcome.OK, device_ns)

    def expire(self, now_ns: int) -> Iterable[int]:
        """Those that the scheduler gives up."""
        ended = self.scheduler.expire(now_ns)
        return [self._numbers[end.ticket] for end in ended]

    def wake_at_ns(self) -> int | None:
        """The scheduler's next event."""
        return self.scheduler.next_event_ns()

    def _follow(self, now_ns: int, replicas: Replicas) -> None:
        for replica, is_here in enumerate(replicas.present):
            if self._present[replica] != is_here:
                self._present[replica] = is_here
                condition = ReplicaCondition.READY if is_here else ReplicaCondition.DRAINING
                self.scheduler.set_replica_condition(now_ns, replica, condition)
