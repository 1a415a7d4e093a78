"""The native core: every scheduling decision, and the native transport's port, in Rust.

Private; import ``headway`` instead.

Conventions: instants and durations are integer nanoseconds of the caller's monotonic clock
(``*_ns``); work is in model units (``units``); endpoints, pools, models and tenants are integer
handles given out at registration. But for `Front`, which is no decision, nothing here reads a clock
or a global random generator.
Expected refusals are return values (`Verdict`), not exceptions; `ValueError` names a bad argument
and `KeyError` an unknown handle.
"""

from collections.abc import Sequence
from typing import Self, final

__all__ = [
    "Admission",
    "Batch",
    "BatchOutcome",
    "BatchReason",
    "BreakerState",
    "CostModel",
    "EdfQueue",
    "Ended",
    "Front",
    "PeakEwma",
    "PoolStats",
    "QuantileHistogram",
    "Reading",
    "RefusalReason",
    "ReplicaCondition",
    "ReplicaSpeeds",
    "ReplicaStats",
    "Rng",
    "Scheduler",
    "SimReport",
    "Step",
    "StepGraph",
    "StepPause",
    "StepPrices",
    "StepReason",
    "StepScheduler",
    "TenantsFull",
    "TokenBucket",
    "Trace",
    "Verdict",
    "__version__",
    "clairvoyant_bound",
    "hash_key",
    "simulate",
    "split_point",
]

__version__: str

def hash_key(key: bytes, salt: int = 0) -> int:
    """64-bit hash of a sticky key (XXH3-64 with `salt` as seed). O(len(key))."""

def split_point(key_hash: int, salt: int) -> float:
    """Point in [0, 1) at which a key falls in a traffic split.

    Uniform over keys, and independent between salts. A version with the interval [a, b) serves
    the keys whose point lies in it, so a share that only grows never moves a key back.
    """

@final
class RefusalReason:
    """Why `Scheduler.offer` refused. Compare with ``==``; ``int()`` gives the value."""

    QUOTA_EXCEEDED: RefusalReason
    """The tenant's bucket is empty; `Verdict.retry_after_ns` says when it will hold enough."""
    QUOTA_IMPOSSIBLE: RefusalReason
    """More units than the tenant's burst: it will never fit."""
    TOO_LARGE: RefusalReason
    """More units or rows than any replica of the pool takes in one batch: it will never fit."""
    QUEUE_FULL: RefusalReason
    """The pool's queue is at its bound."""
    OVERLOADED: RefusalReason
    """Shed: it would not be served in time, or the scheduler's own table is full. Shed early,
    `Verdict.needed` is the work ahead of it and `available` the device time left for it, ns."""
    DEADLINE_UNREACHABLE: RefusalReason
    """It could not finish in time even if it ran now."""
    DEADLINE_EXPIRED: RefusalReason
    """Its deadline had passed on arrival."""
    NO_CAPACITY: RefusalReason
    """No replica of the pool is connected or connecting."""
    LIMIT_REACHED: RefusalReason
    """The pool has as many requests in hand as it may, less what is kept for higher classes."""
    TENANT_QUEUE_FULL: RefusalReason
    """The tenant has as much queued as it may."""
    def __int__(self) -> int: ...

@final
class Reading:
    """What admission saw of the pool and the tenant, the request itself not counted.

    Zeros where it was refused before that was looked at.
    """

    @property
    def limit(self) -> int:
        """Requests that the pool may have in hand; 0 for no limit."""
    @property
    def inflight(self) -> int:
        """Requests that it had in hand."""
    @property
    def reserved(self) -> int:
        """Requests of the limit kept free for higher classes."""
    @property
    def tenant_units(self) -> float:
        """Units in the tenant's bucket; ``inf`` without a quota, negative in debt."""
    @property
    def tenant_queued(self) -> int:
        """Requests that the tenant had queued."""
    @property
    def share_ratio(self) -> float:
        """The tenant's recent device time over its weighted fair share; 1 is exactly that."""
    @property
    def weight_part(self) -> float:
        """Part of its weight that the request kept, in [1/32, 1]."""
    @property
    def queued_requests(self) -> int: ...
    @property
    def queued_units(self) -> int: ...
    @property
    def executing_requests(self) -> int: ...
    @property
    def drain_ns(self) -> int:
        """Time in which the fleet would have served all of that, and the request if admitted.

        0 where it was refused for another reason than want of room.
        """
    @property
    def offered_per_s(self) -> float:
        """Value that the request earns for a second of device time, in a full batch."""
    @property
    def earned_per_s(self) -> float:
        """What the last batches of the pool earned; 0 before the first."""
    @property
    def chance(self) -> float:
        """Chance of being served in time, in [0, 1], for which it was refused early; else 0."""
    @property
    def wanted_chance(self) -> float:
        """The chance that was asked for, in (0, 1); 0 unless it was refused early."""

@final
class Admission:
    """A request that was taken in."""

    @property
    def ticket(self) -> int:
        """Above 0."""
    @property
    def pool(self) -> int: ...
    @property
    def displaced(self) -> list[int]:
        """Tickets that had to leave the queue for it; they have ended, refunded."""
    @property
    def reading(self) -> Reading: ...

@final
class Verdict:
    """A refusal and the numbers behind it."""

    @property
    def reason(self) -> RefusalReason: ...
    @property
    def pool(self) -> int:
        """Pool that was chosen; -1 if refused before one was."""
    @property
    def retry_after_ns(self) -> int:
        """When trying again makes sense, from now; 0 where it never does."""
    @property
    def needed(self) -> int:
        """What it needed, this request included.

        Units for quota, units or rows for size, ns for deadlines, requests for queues (units
        where their bound on units was met).
        """
    @property
    def available(self) -> int:
        """What there was, in the unit of `needed`."""
    @property
    def reading(self) -> Reading: ...

@final
class BatchReason:
    """Why a batch closed where it did. Values are those of ``headway.v1.BatchReason``."""

    QUEUE_EMPTIED: BatchReason
    MAX_REQUESTS: BatchReason
    MAX_ROWS: BatchReason
    MAX_UNITS: BatchReason
    DEADLINE: BatchReason
    QUANTUM: BatchReason
    OVERSIZED: BatchReason
    def __int__(self) -> int: ...

@final
class BatchOutcome:
    """How the execution of a batch ended."""

    OK: BatchOutcome
    """The worker answered for it; single members may still have failed."""
    BUSY: BatchOutcome
    """The worker did not begin it. Says nothing of its health."""
    FAILED: BatchOutcome
    """The worker began it and it failed as a whole."""
    LOST: BatchOutcome
    """The session ended before an answer."""

@final
class ReplicaCondition:
    """What a replica may be given."""

    CONNECTING: ReplicaCondition
    """Known but not connected: counts as capacity to come, gets no batch."""
    READY: ReplicaCondition
    DRAINING: ReplicaCondition
    """Finishes what it has."""

@final
class BreakerState:
    """What a replica's breaker lets through. Compare with ``==``; ``int()`` gives the value."""

    CLOSED: BreakerState
    """Everything."""
    OPEN: BreakerState
    """Nothing, for a time: 5 s at first, up to 60 s."""
    HALF_OPEN: BreakerState
    """One request at a time, until three in a row went well."""
    def __int__(self) -> int: ...

@final
class Batch:
    """A batch for one replica. The lists run in parallel, one entry a member."""

    @property
    def id(self) -> int:
        """Unique in this scheduler, from 1."""
    @property
    def pool(self) -> int: ...
    @property
    def replica(self) -> int: ...
    @property
    def reason(self) -> BatchReason: ...
    @property
    def predicted_ns(self) -> int:
        """Device time expected on this replica."""
    @property
    def other_replica(self) -> int:
        """The replica that was drawn together with this one and looked dearer; -1 for none."""
    @property
    def score_ns(self) -> int:
        """Expected wait and service on this replica; 0 if it was not weighed against another."""
    @property
    def other_score_ns(self) -> int:
        """The same on the other one."""
    @property
    def units(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def tickets(self) -> list[int]: ...
    @property
    def queued_ns(self) -> list[int]:
        """Time from arrival to now."""
    @property
    def slack_ns(self) -> list[int]:
        """Deadline less predicted completion."""
    @property
    def attempts(self) -> list[int]:
        """Executions begun for the member, this one included."""
    @property
    def hedge_of(self) -> int:
        """The late batch that this is a copy of; 0 for none.

        Its members go on executing there; the first copy to answer ends them.
        """
    @property
    def look_at_ns(self) -> int:
        """When to call `form_batch` again for this batch's sake; 0 for never."""
    @property
    def is_pipelined(self) -> bool:
        """Whether the replica still executes its last batch, so that this one waits there."""
    def __len__(self) -> int: ...

@final
class Ended:
    """A request that ended without the caller's doing."""

    @property
    def ticket(self) -> int: ...
    @property
    def batch(self) -> int:
        """Batch it was executing in; 0 if it was queued."""
    @property
    def replica(self) -> int:
        """Replica it was executing on; -1 if it was queued."""

@final
class PoolStats:
    """A pool at a glance."""

    @property
    def queued_requests(self) -> int: ...
    @property
    def queued_units(self) -> int: ...
    @property
    def queued_rows(self) -> int: ...
    @property
    def executing_batches(self) -> int: ...
    @property
    def executing_requests(self) -> int: ...
    @property
    def free_slots(self) -> int:
        """Batches that could start now."""
    @property
    def ready_replicas(self) -> int: ...
    @property
    def cost_intercept_ns(self) -> float: ...
    @property
    def cost_slope_ns(self) -> float:
        """Nanoseconds a unit."""
    @property
    def cost_residual_ratio(self) -> float:
        """Standard deviation of actual/predicted - 1."""
    @property
    def cost_observations(self) -> int: ...
    @property
    def drain_ns(self) -> int:
        """Time in which the fleet would serve all that is queued and executing."""
    @property
    def quantum_ns(self) -> int:
        """Batch-length quantum; 0 where the policy has none yet."""
    @property
    def ejected_replicas(self) -> int:
        """Ready replicas that breakers shut out, or have on probation."""
    @property
    def retry_tokens(self) -> float:
        """Retries that the budget has left."""
    @property
    def retries_refused(self) -> int:
        """Retries that the budget refused."""
    @property
    def hedges_sent(self) -> int:
        """Copies of late batches sent."""
    @property
    def hedges_won(self) -> int:
        """Copies that answered first."""
    @property
    def hedge_device_ns(self) -> int:
        """Device time that copies took."""
    @property
    def limit(self) -> int:
        """Requests that the pool may have in hand; 0 for no limit."""
    @property
    def limit_gradient(self) -> float:
        """Factor on the limit in [0.5, 1]: below 1 while delays that nobody planned grow."""
    @property
    def inflight(self) -> tuple[int, int, int]:
        """Requests queued and executing: critical, standard, sheddable."""
    @property
    def displaced(self) -> tuple[int, int, int]:
        """Requests displaced from the queue by others so far, likewise."""

@final
class ReplicaStats:
    """A replica at a glance."""

    @property
    def pool(self) -> int: ...
    @property
    def condition(self) -> ReplicaCondition: ...
    @property
    def outstanding_batches(self) -> int: ...
    @property
    def latency_ns(self) -> int:
        """Peak-EWMA of dispatch to result; 0 before the first sample."""
    @property
    def speed(self) -> float:
        """Learned speed relative to the pool's cost model; 1 before anything is learned."""
    @property
    def completed_batches(self) -> int: ...
    @property
    def failed_batches(self) -> int: ...
    @property
    def busy_answers(self) -> int: ...
    @property
    def breaker(self) -> BreakerState: ...
    @property
    def open_until_ns(self) -> int:
        """End of the breaker's open time; 0 unless open."""
    @property
    def recent_outcomes(self) -> int:
        """Request outcomes by which its breaker judges, at most 50."""
    @property
    def recent_failures(self) -> int:
        """Failures among them."""
    @property
    def handoff_ns(self) -> int:
        """Median time of an execution beyond the device's, where it was sent to an idle one."""

@final
class Scheduler:
    """The queues, replicas and quotas of one gateway.

    Holds at most `max_live` requests at once (queued and executing), and as many outputs; memory
    is bounded by that, by the number of registered pools, replicas and tenants, and by nothing
    else.
    Raises ValueError for a bound below 1.
    """

    def __new__(
        cls,
        *,
        seed: int,
        max_live: int = 65536,
        max_attempts: int = 3,
        max_tenants: int = 1048576,
    ) -> Self: ...

    # -- registration: rare
    def add_tenant(
        self,
        now_ns: int,
        *,
        units_per_s: float,
        burst_units: float,
        largest_units: float | None = None,
        weight: float = 1.0,
        max_queued_requests: int = 0,
        max_queued_units: int = 0,
    ) -> int:
        """Adds a tenant with a token bucket, full at the start.

        At most `max_tenants` are known at once: a full table forgets the one that was idle
        longest (nothing live, bucket full, nothing asked for of late), whose handle is then
        unknown; adding it anew begins where it was. O(1).

        Args:
          units_per_s, burst_units: ``inf`` for no limit.
          largest_units: a single request of up to so many passes a full bucket and leaves a
            debt, where a quota is divided over gateways; default: the burst.
          weight: part in the fair shares, from 1e-6 to 1000.
          max_queued_requests, max_queued_units: bounds on what it has queued; 0 for none.

        Raises ValueError for terms out of range, and TenantsFull for a table of tenants none of
        which is idle.
        """
    def set_tenant_quota(
        self,
        now_ns: int,
        tenant: int,
        *,
        units_per_s: float,
        burst_units: float,
        largest_units: float | None = None,
        weight: float = 1.0,
        max_queued_requests: int = 0,
        max_queued_units: int = 0,
    ) -> None:
        """Replaces a tenant's terms; what the bucket holds stays, up to the new burst."""
    def set_fair_share(self, *, memory_ns: int) -> None:
        """How long device time counts toward shares: after `memory_ns`, 1/e of it still does."""
    def set_admission(
        self,
        pool: int,
        *,
        limit_initial: int,
        limit_min: int,
        limit_max: int,
        reserved_critical: float = 0.0,
        reserved_standard: float = 0.0,
    ) -> None:
        """Bounds the requests that a pool has in hand by a gradient limiter; new pools have none.

        Args:
          limit_initial, limit_min, limit_max: requests, rising from min to max; what the limiter
            has learned stays, within the new bounds.
          reserved_critical, reserved_standard: parts of the limit kept free for these classes
            while they ask; sum at most 0.95.
        """
    def num_tenants(self) -> tuple[int, int]:
        """Tenants that are known, and those of them that asked for something of late."""
    def charge(self, now_ns: int, tenant: int, units: int) -> int:
        """Takes units for work that passes through no queue.

        0 if taken; else ns until the bucket holds enough, or -1 if above its burst.
        """
    def refund(self, now_ns: int, tenant: int, units: int) -> None:
        """Gives back what `charge` took and was not used."""
    def add_model(self, *, salt: int) -> int:
        """Adds a model; its split is empty, so all offers are NO_CAPACITY."""
    def set_split(self, model: int, pools: Sequence[int], shares: Sequence[float]) -> None:
        """Divides unpinned traffic.

        Shares >= 0, sum 1 within 1e-6; the first pool also takes the keys of a pool that has no
        replica.
        """
    def add_pool(
        self,
        *,
        max_queued_requests: int,
        max_queued_units: int,
        prior_intercept_ns: float,
        prior_slope_ns: float,
    ) -> int:
        """Adds the queue of one model version, with its prior cost of a batch."""
    def set_policy(
        self,
        pool: int,
        *,
        alpha: float = 0.5,
        large_share: float = 0.0,
        bulk_share: float = 0.05,
        priority_weights: Sequence[float] = (4.0, 1.0, 0.25),
        shed_early: bool = True,
    ) -> None:
        """Sets how a pool forms batches and what it refuses; docs/goodput.md says what each costs.

        Args:
          alpha: a request's value is weight * units**alpha; in [0, 1], collapses above 0.7.
          large_share: device time kept for the largest tenth while they wait, in [0, 0.5].
          bulk_share: device time of the bulk lane while interactive work waits, in [0, 0.5].
          priority_weights: factors of critical, standard and sheddable, each above 0.
          shed_early: refuse on arrival what will not be served.
        """
    def set_resilience(
        self,
        *,
        max_ejected_share: float = 0.5,
        retry_share: float = 0.1,
        hedge_share: float = 0.0,
        pipelined: bool = False,
    ) -> None:
        """Sets what is done about replicas that fail, stall or are about to be free, in all pools.

        Args:
          max_ejected_share: most of a pool's ready replicas that breakers may shut out at once, in
            [0, 1]; never the last one.
          retry_share: retries that each request earns, in [0, 1]; beside 10 a second.
          hedge_share: device time for second copies of late batches, as a share of all; 0: none.
          pipelined: a replica with one slot gets its next batch just before it is free.
        """
    def remove_pool(self, now_ns: int, pool: int) -> list[int]:
        """Removes a pool; returns the tickets that were in it. Its replicas must be gone."""
    def add_replica(
        self,
        now_ns: int,
        pool: int,
        *,
        max_outstanding: int,
        max_requests: int,
        max_rows: int,
        max_units: int,
    ) -> int:
        """Adds a replica, CONNECTING. Limits of one batch; 0 for none."""
    def set_replica_limits(
        self,
        replica: int,
        *,
        max_outstanding: int,
        max_requests: int,
        max_rows: int,
        max_units: int,
    ) -> None: ...
    def set_replica_condition(
        self, now_ns: int, replica: int, condition: ReplicaCondition
    ) -> None: ...
    def end_rest(self, now_ns: int, replica: int, free_in_ns: int) -> None:
        """A replica that rests after a busy answer may be given a batch before its rest is over.

        The batch begins in `free_in_ns`; below 0 counts as 0. Nothing changes for a replica that
        does not rest.
        """

    def remove_replica(self, now_ns: int, replica: int) -> list[int]:
        """Removes a replica; returns the ids of batches still on it.

        The caller must `complete` them with LOST.
        """

    # -- the decisions: hot
    def offer(
        self,
        now_ns: int,
        tenant: int,
        model: int,
        pool: int,
        key_hash: int,
        units: int,
        rows: int,
        deadline_ns: int,
        priority: int,
        lane: int,
        weight: float,
    ) -> int | Verdict:
        """`admit`, where only the ticket (> 0) is wanted: simulations and tests."""
    def admit(
        self,
        now_ns: int,
        tenant: int,
        model: int,
        pool: int,
        key_hash: int,
        units: int,
        rows: int,
        deadline_ns: int,
        priority: int,
        lane: int,
        weight: float,
    ) -> Admission | Verdict:
        """Admits a request, or refuses it.

        Args:
          pool: version the caller pinned, or -1 for the split's choice by `key_hash`.
          units: work units, >= 1. rows: >= 1.
          deadline_ns: instant by which the answer must be there.
          priority: 1 critical, 2 standard, 3 sheddable. lane: 1 interactive, 2 bulk.
          weight: value of the answer, > 0.

        Returns: an `Admission`, now queued; or a `Verdict`. A refused request is charged
        nothing; an admitted one its units, until `complete`, `cancel` or `expire` settles them.
        Where there is no room, queued requests of a lower class, or of a tenant clearly further
        over its fair share, are displaced before one is refused; their tickets have ended.
        Under overload (something was shed or left the queue unserved in the last 2 s) a request
        keeps 1/over**2 of its weight, at least 1/32, when its tenant had `over` times its fair
        share of recent device time, and its weight counts relative to the tenant's usual one.
        O(log n).
        """
    # -- outputs that are streamed: in no batch, begun one by one
    def admit_output(
        self,
        now_ns: int,
        tenant: int,
        pool: int,
        units: int,
        deadline_ns: int,
        priority: int,
        lanes: int,
        is_open: bool,
        service_ns: int,
    ) -> Admission | Verdict:
        """Takes an output in, or refuses it; a refusal costs the tenant nothing. O(log n).

        Quota, the tenant's own queue, expiry, time, the pool's limit, its queue, live outputs. For
        want of room an output that waits is displaced first: of a lower class, or of a tenant with
        more in hand for its weight. The reading's `share_ratio` is of outputs in hand; its
        `drain_ns` the wait for a lane.

        Args:
          units: prompt and expected output, 1 to 2**38; settled by `end_output`.
          priority: 1 critical, 2 standard, 3 sheddable.
          lanes: of the fleet, >= 0; the limit is never below.
          is_open: whether a replica takes an output now.
          service_ns: least time from a lane to the last unit; -1 without evidence, which refuses
            nobody.

        Raises ValueError for a bad argument, KeyError for an unknown handle.
        """
    def next_output(self, pool: int) -> int | None:
        """The waiting output that begins next; None if none waits.

        By class, then by lane time of its tenant over the tenant's weight, then by deadline.
        """
    def begin_output(
        self, now_ns: int, ticket: int, hold_ns: int, longest_ns: int, size: float
    ) -> bool:
        """A waiting output gets a lane; False if it does not wait.

        Its tenant is charged for `hold_ns` of lane time (1 to 2**62) times `size`, until it ends.

        Args:
          hold_ns: expected time in its lane.
          longest_ns: time in which its whole budget would be written.
          size: lanes that its memory would be enough for, 1 to 1e6.
        """
    def return_output(self, ticket: int) -> bool:
        """An output that had a lane waits again, not charged for it; False if it had none."""
    def end_output(
        self,
        now_ns: int,
        ticket: int,
        used_units: int = 0,
        measured_ns: int = 0,
        planned_ns: int = 0,
    ) -> bool:
        """Ends an output, waiting or written; False if it had ended.

        Args:
          used_units: to pay for, beyond the quota as a debt; 0 where nothing was written.
          measured_ns: how long its writing took.
          planned_ns: how long it was planned to take, from which the pool's limit learns; 0 where
            that says nothing of congestion.
        """
    def waiting_outputs(self, now_ns: int, pool: int) -> tuple[int, int]:
        """(outputs that wait, ns until one more would get a lane behind them)."""
    def num_outputs(self) -> int:
        """Outputs that wait or are written; at most `max_live`."""
    def pool_of(self, ticket: int) -> int:
        """Pool of a live ticket; -1 if it is not live."""
    def form_batch(self, now_ns: int, pool: int) -> Batch | None:
        """Chooses a free replica and the batch for it; None if nothing can start now.

        Call again until None. Members are executing from here on, until `complete`. With nothing
        queued it may be a copy of a late batch (`Batch.hedge_of`).
        """
    def complete(
        self,
        now_ns: int,
        batch: int,
        outcome: BatchOutcome,
        device_ns: int = 0,
        units: int = 0,
        retry_after_ns: int = 0,
        retry: Sequence[int] = (),
        failed: int = 0,
        used: Sequence[tuple[int, int]] = (),
        invalid: int = 0,
    ) -> list[int]:
        """Feeds back how a batch ended and frees its slot.

        Args:
          device_ns: measured device time; 0 is indeterminate and teaches nothing.
          units: units as counted by the runtime; 0 for as estimated.
          retry_after_ns: for BUSY, when the worker expects to be free.
          retry: for OK, members without a valid result; they are queued again.
          failed: for OK, members that failed in the runtime; counted against the replica.
          invalid: for OK, members that were not executed by no fault of the replica; not counted.
          used: for OK, (ticket, units) as counted for single members, prompt and output; members
            that are not named pay their share of `units`, or their estimate. Tenants pay that
            instead of the estimate; members that end without an answer pay nothing.

        OK ends all other members. BUSY queues all members again at their place. FAILED and LOST
        queue again those with attempts left. A member whose deadline is too near is not queued.

        Returns: tickets that ended without an answer (no attempt left, or no time).
        An unknown batch id is ignored (its pool was removed) and returns []. Measurements come
        from a worker: what is negative or beyond 2**62 counts as 0 rather than raising.
        After a failure a member shares its next batch with at most half as many companions, and
        its last attempt is alone, so that a poison member takes no other with it. It does not go
        back to the replica that failed it while another takes batches. Retries are paid from a
        budget, but for members of a failed batch while most of the pool's requests go well.
        While a copy of the batch is executing, its members are left to that copy instead.
        """
    def cancel(self, now_ns: int, ticket: int) -> Ended | None:
        """Ends a request; None if it is not live.

        If it is executing, its slot in the batch is dead weight until the worker drops it.
        """
    def expire(self, now_ns: int) -> list[Ended]:
        """Ends every request whose deadline has come, and queued ones that cannot make theirs.

        Those no replica can serve in time any more. O(pools + k log n).
        """
    def next_event_ns(self) -> int | None:
        """Next instant at which time alone gives `expire` or `form_batch` something to do.

        None if only another call can. O(pools).
        """

    # -- reads: never change anything
    def look_at_ns(self, pool: int) -> int | None:
        """When a replica is about to be free for what is queued; None if it is not known."""
    def drain_ns(self, pool: int) -> int: ...
    def pool_stats(self, pool: int) -> PoolStats: ...
    def replica_stats(self, replica: int) -> ReplicaStats: ...
    def num_live(self) -> int:
        """Requests queued and executing."""
    def num_executing(self) -> int:
        """Batches executing."""

@final
class Rng:
    """xoshiro256++ seeded by SplitMix64. Source: Blackman and Vigna, ACM TOMS 47(4), 2021."""

    def __new__(cls, seed: int) -> Self: ...
    def next_u64(self) -> int: ...
    def uniform(self) -> float:
        """In [0, 1), 53 bits."""
    def below(self, bound: int) -> int:
        """In [0, bound), unbiased (Lemire). bound >= 1."""

@final
class Front:
    """A port of the native transport: gRPC over HTTP/2, on threads that need no GIL.

    Calls of one request are taken from a queue and answered by number; calls of many requests go on
    to a server behind. Method names are those that pygrpc-native's asyncio server asks for.
    """

    def __new__(
        cls,
        *,
        address: str,
        threads: int,
        max_connections: int,
        max_concurrent_streams: int,
        max_metadata_bytes: int,
        max_message_bytes: int,
        max_message_ns: int,
        write_buffer_bytes: int,
        keepalive_ns: int,
        keepalive_timeout_ns: int,
        max_idle_ns: int,
        max_age_ns: int | None,
        max_age_grace_ns: int,
        overdue: tuple[int, str, Sequence[tuple[str, str | bytes]]],
        no_message: tuple[int, str, Sequence[tuple[str, str | bytes]]],
    ) -> Self:
        """Binds `address`, host:port; port 0 takes a free one.

        Args:
          max_connections: this and the other bounds are those of `headway.limits`.
          threads: >= 1, for HTTP/2.
          overdue: code, message and trailers for a message that is not whole in time.
          no_message: the same for a call that ends before its message.

        Raises:
          OSError: the address is none, taken or not permitted.
          ValueError: trailers that HTTP/2 cannot carry.
        """

    @property
    def bound_port(self) -> int: ...
    def add_methods(self, methods: Sequence[tuple[str, bool]]) -> None:
        """Methods that are answered here, before `start`: path, and whether it has many answers."""
    def set_fallback(self, path: str) -> None:
        """Socket of the server behind, before `start`."""
    def start(self) -> None:
        """Accepts connections from here on."""
    def recv_batch_details(
        self, max_events: int
    ) -> (
        list[
            tuple[
                int,
                int,
                int,
                bytes | None,
                None,
                tuple[tuple[tuple[str, str | bytes], ...], str, float | None] | None,
            ]
        ]
        | None
    ):
        """Waits for events without the GIL; None once closed.

        Each is (kind, call, index of the method, message, None, (metadata, peer, seconds left)).
        Kind 0 is a call; 1 tells that the client has left, and has neither message nor details.
        """
    def respond(
        self,
        call_id: int,
        payload: bytes,
        initial_metadata: Sequence[tuple[str, str | bytes]] | None = None,
        trailing_metadata: Sequence[tuple[str, str | bytes]] | None = None,
    ) -> bool:
        """Answers a call of one answer; False if it is over.

        ValueError: the metadata cannot be sent; the call ends as INTERNAL then.
        """
    def fail(
        self,
        call_id: int,
        code: int,
        message: str,
        trailing_metadata: Sequence[tuple[str, str | bytes]] | None = None,
    ) -> bool:
        """Ends a call with an error; False if it is over.

        ValueError: the metadata cannot be sent; the call ends without it then.
        """
    def stream_try_send(self, call_id: int, payload: bytes) -> int:
        """0: taken. 1: the reader is behind, try again later. 2: the call is over."""
    def stream_send_initial_metadata(
        self, call_id: int, metadata: Sequence[tuple[str, str | bytes]]
    ) -> bool:
        """Before the first message; False if the call is over."""
    def stream_end(
        self,
        call_id: int,
        trailing_metadata: Sequence[tuple[str, str | bytes]] | None = None,
    ) -> bool:
        """Ends a stream as complete; False if it is over."""
    def counts(self) -> tuple[int, int, int, int, int]:
        """What was counted since binding.

        Connections open now, refused as too many, dropped as silent, closed as idle; messages that
        were not whole in time.
        """
    def close(self) -> None:
        """Ends all calls and connections; blocks for half a second at most."""

@final
class EdfQueue:
    """Requests by (deadline, ticket), with order statistics. All operations O(log n)."""

    def __new__(cls) -> Self: ...
    def push(self, ticket: int, deadline_ns: int, units: int) -> None: ...
    def remove(self, ticket: int) -> bool: ...
    def peek(self) -> tuple[int, int] | None:
        """(ticket, deadline) of the earliest."""
    def pop(self) -> int | None: ...
    def units_before(self, deadline_ns: int) -> int:
        """Units of requests with a deadline at or before `deadline_ns`."""
    def count_before(self, deadline_ns: int) -> int: ...
    def total_units(self) -> int: ...
    def __len__(self) -> int: ...

@final
class ReplicaSpeeds:
    """Replicas that write, by their wait for a first unit and their gap between units.

    Changes are O(log n). A question looks at 16 replicas at most for each doubling between the
    shortest and the longest gap, whatever the size of the fleet.
    """

    def __new__(cls) -> Self: ...
    def set(self, replica: int, wait_ns: int, gap_ns: float) -> None:
        """Adds a replica or changes it; `wait_ns` 0 where it said nothing of its wait."""
    def remove(self, replica: int) -> None:
        """Takes a replica out; does nothing if it is not in."""
    def quickest(
        self, scale: float, silent_ns: float, num_gaps: float
    ) -> tuple[float, float, float] | None:
        """(ns to the first unit, ns from there to the last, bound) on the quickest replica.

        The first unit takes `scale` times what a replica said, `silent_ns` where it said nothing.
        No replica takes less than the bound in all, which is at most 4.4 % of the writing below
        what is answered. None without replicas.
        """
    def __len__(self) -> int: ...

@final
class CostModel:
    """Device time of a batch = intercept + slope * units, by constrained recursive least squares.

    Forgetting 0.98 a batch; both coefficients >= 0, by solving again with the violated one at 0;
    the prior until 4 observations (scaled to a batch that shows it to be off by more than 16);
    same-size batches (sizes vary by less than 8 %) move the level
    only. One batch counts for at most 4 times, and at least 1/4 of, its prediction; three in a row
    that are off the same way by more than a factor of 1.25, and 4 mean errors of those before
    them, rescale the fit by their geometric mean and leave the past 5 % of its weight.
    """

    def __new__(cls, *, prior_intercept_ns: float, prior_slope_ns: float) -> Self: ...
    def observe(self, units: int, device_ns: int) -> None: ...
    def predict_ns(self, units: int) -> int: ...
    def quantile_ns(self, units: int, quantile: float) -> int:
        """Prediction exceeded by 1 - quantile of batches, by the last 64 residuals.

        Linear between order statistics; the plain prediction before there are residuals.
        """
    @property
    def intercept_ns(self) -> float: ...
    @property
    def slope_ns(self) -> float: ...
    @property
    def residual_ratio(self) -> float: ...
    @property
    def observations(self) -> int: ...

class TenantsFull(ValueError):
    """Every place in the table is taken by a tenant that is not idle."""

@final
class TokenBucket:
    """Continuous refill. Source: the token bucket of RFC 2697, in work units."""

    def __new__(cls, now_ns: int, *, units_per_s: float, burst_units: float) -> Self: ...
    def try_take(self, now_ns: int, units: int) -> int:
        """0 if taken; else ns until there is enough, or -1 if above the burst."""
    def put_back(self, now_ns: int, units: int) -> None: ...
    def available(self, now_ns: int) -> float: ...

@final
class PeakEwma:
    """Latency estimate that jumps to peaks and decays by elapsed time.

    Source: Finagle's peak EWMA; decays toward the prior, not toward zero, while idle.
    """

    def __new__(cls, now_ns: int, *, decay_ns: int, prior_ns: int) -> Self: ...
    def observe(self, now_ns: int, latency_ns: int) -> None: ...
    def value_ns(self, now_ns: int) -> float: ...

@final
class QuantileHistogram:
    """Log-linear histogram of non-negative integers, relative error at most 1/64.

    Bounded memory: 64 buckets an octave, fixed at construction.
    """

    def __new__(cls) -> Self: ...
    def record(self, value: int, count: int = 1) -> None: ...
    def quantile(self, q: float) -> int:
        """Upper edge of the bucket of the q-quantile, q in [0, 1]; 0 when empty."""
    def merge(self, other: QuantileHistogram) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def mean(self) -> float: ...
    @property
    def max(self) -> int: ...
    def reset(self) -> None: ...

@final
class StepReason:
    """Why a step was chosen. Compare with ``==``; ``int()`` gives the value."""

    BEST_SCORE: StepReason
    """Most value per second of device time."""
    LONE_PROMPT: StepReason
    """A prompt alone on the device: the quickest way to its end."""
    PASSED_OVER: StepReason
    """A prompt was passed over for as long as allowed; best score among graphs that serve it."""
    BOOTSTRAP: StepReason
    """The graph was never measured."""
    REFRESH: StepReason
    """The graph's cost was stale; measured again from the allowance."""
    def __int__(self) -> int: ...

@final
class StepPause:
    """Why there is no step. Compare with ``==``; ``int()`` gives the value."""

    IDLE: StepPause
    """Nothing to do."""
    QUEUE_FULL: StepPause
    """Two frames are in flight."""
    AWAITING_FEEDBACK: StepPause
    """The outcome of a frame in flight is needed first."""
    NO_GRAPH: StepPause
    """There are lanes, but no graph has room for any of them."""
    def __int__(self) -> int: ...

@final
class StepGraph:
    """A prepared graph: non-preemptible, runs whoever uses its rows.

    `prefill_tokens` 0 is a decode graph, `decode_rows` 0 a prefill graph; both above 0 is mixed.
    `prompt_rows` prompts may share the prefill (1 by default). `width` positions are verified a
    row, in [1, 64]. `feedback`: the next submission always waits for its outcome.
    """

    def __new__(
        cls,
        *,
        name: str,
        prefill_tokens: int = 0,
        prompt_rows: int | None = None,
        decode_rows: int = 0,
        width: int = 1,
        feedback: bool = False,
    ) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def prefill_tokens(self) -> int: ...
    @property
    def prompt_rows(self) -> int: ...
    @property
    def decode_rows(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def feedback(self) -> bool: ...

@final
class StepPrices:
    """Prices of service, in output tokens. `docs/lab.md` defines each; None is the default."""

    def __new__(
        cls,
        *,
        output_value: float | None = None,
        prompt_weight: float | None = None,
        fairness: float | None = None,
        delivery_fairness: float | None = None,
        age: float | None = None,
        stall: float | None = None,
        gap_reference_share: float | None = None,
        gap_margin: float | None = None,
        retirement_value: float | None = None,
        wait_pressure: float | None = None,
        wait_steps: float | None = None,
        deadline_pressure: float | None = None,
        late_pressure: float | None = None,
        pressure_cap: float | None = None,
        patience: float | None = None,
        memory_steps: float | None = None,
        share_floor: float | None = None,
        gap_weight: float | None = None,
        plan_lone_prompt: bool = True,
    ) -> Self: ...
    @property
    def output_value(self) -> float:
        """Value of an output token; 1."""
    @property
    def prompt_weight(self) -> float:
        """Value of prompt work, as a multiple of the decode work of the same device time; 2."""
    @property
    def fairness(self) -> float:
        """Share of the decode rate spread evenly as proportional-fair prices; 0.1."""
    @property
    def delivery_fairness(self) -> float:
        """The same for deliveries, whatever their size; 0 (off)."""
    @property
    def age(self) -> float:
        """Price of the time since the last delivery, as a share of the decode rate; 0.9."""
    @property
    def stall(self) -> float:
        """Price of that time beyond the allowed gap; 4."""
    @property
    def gap_reference_share(self) -> float:
        """Share of a gap target that replaces the decode time where it is longer; 0.25."""
    @property
    def gap_margin(self) -> float:
        """Share of a gap target at which a stream counts as stalled; 0.9."""
    @property
    def retirement_value(self) -> float:
        """Value of ending a request, tokens; 0 (off)."""
    @property
    def wait_pressure(self) -> float:
        """Pressure gained per own service time waited; 0.5."""
    @property
    def wait_steps(self) -> float:
        """Decode steps added to the prefill time in "own service time"; 32."""
    @property
    def deadline_pressure(self) -> float:
        """Strength of the deadline barrier; 2."""
    @property
    def late_pressure(self) -> float:
        """Pressure gained per allowance of lateness; 0.1."""
    @property
    def pressure_cap(self) -> float:
        """Most that pressure multiplies a price by; 8."""
    @property
    def patience(self) -> float:
        """Own service times that a prompt waits before it comes first; 3. 0 is never."""
    @property
    def memory_steps(self) -> float:
        """Memory of the service shares, decode steps; 16."""
    @property
    def share_floor(self) -> float:
        """Least share that prices divide by; 0.02."""
    @property
    def gap_weight(self) -> float:
        """Weight of a new delivery gap in its mean; 0.125."""
    @property
    def plan_lone_prompt(self) -> bool:
        """Whether a prompt alone on the device follows its exact completion plan."""

@final
class Step:
    """A chosen step."""

    @property
    def frame(self) -> int:
        """For `StepScheduler.complete`; -1 from `select`."""
    @property
    def graph(self) -> int:
        """Index in the catalogue."""
    @property
    def reason(self) -> StepReason: ...
    @property
    def prompt_lanes(self) -> list[int]:
        """In the order of the graph's rows."""
    @property
    def prompt_tokens(self) -> list[int]:
        """Tokens of each of `prompt_lanes`; at least 1."""
    @property
    def row_lanes(self) -> list[int]:
        """Decoding lanes, ascending."""
    @property
    def row_tokens(self) -> list[float]:
        """Expected output tokens of each of `row_lanes`."""
    @property
    def cost_ns(self) -> int:
        """Expected device time and charged handoff; 0 while indeterminate."""
    @property
    def score(self) -> float:
        """Value per second, output tokens/s; 0 while the cost is indeterminate."""
    @property
    def parts(self) -> tuple[float, float, float, float, float, float]:
        """Tokens, fairness, prompts, deliveries, stalls, waiting; sum over cost is the score."""
    @property
    def feedback(self) -> bool:
        """Whether the next step has to wait for its outcome."""

@final
class StepScheduler:
    """Chooses the steps of one device: which prepared graph, for which lanes.

    Deterministic in its calls. At most two frames are in flight; the second is chosen with the
    first one's expected service projected into copies. `copy.copy` gives an independent twin.
    """

    def __new__(
        cls,
        graphs: Sequence[StepGraph],
        *,
        prices: StepPrices | None = None,
        lifetime_ns: int | None = None,
        probe_share: float | None = None,
        credit_cap_ns: int | None = None,
        bootstrap_attempts: int | None = None,
        max_lanes: int | None = None,
    ) -> Self:
        """At most 1024 graphs with unique names.

        A measurement is stale after `lifetime_ns` (30 s) and stays usable. `probe_share` in [0, 1)
        of device time (0.02) pays for measuring stale graphs again, from `credit_cap_ns` (5 ms) of
        credit. After `bootstrap_attempts` (3) without a device time a graph no longer comes first.
        `max_lanes` (1024).
        """
    def admit(
        self,
        now_ns: int,
        *,
        prompt_tokens: int,
        output_limit: int,
        arrived_at_ns: int | None = None,
        prompt_left: int | None = None,
        generated: int = 0,
        weight: float = 1.0,
        acceptance: Sequence[float] | None = None,
        first_token_deadline_ns: int | None = None,
        completion_deadline_ns: int | None = None,
        gap_target_ns: int | None = None,
        expected_tokens: float | None = None,
        feedback: bool = False,
    ) -> int:
        """Takes a request in and returns its lane. Waiting counts from `arrived_at_ns` (now).

        `prompt_left` below `prompt_tokens` is a reused prefix; 0 is a stream. `acceptance`: of
        draft j, if those before it were accepted. `expected_tokens`: output in all, where known.
        `feedback`: its next step needs the outcome of the last one.
        """
    def cancel(self, lane: int) -> None:
        """Takes a lane out of the next step."""
    def hold(self, lane: int, held: bool) -> None:
        """Leaves a lane out of the next steps, or lets it go on; its wait has no price."""
    def set_acceptance(self, lane: int, acceptance: Sequence[float]) -> None: ...
    def dispatch(self, now_ns: int) -> Step | StepPause:
        """Chooses the next step and puts it in flight."""
    def select(self, now_ns: int) -> Step | StepPause:
        """What `dispatch` would choose."""
    def candidates(self, now_ns: int) -> list[tuple[int, int, float]]:
        """``(graph, cost_ns, score)`` of every measured graph that serves a lane, for a trace."""
    def complete(
        self,
        frame: int,
        now_ns: int,
        *,
        device_ns: int | None,
        lanes: Sequence[int],
        tokens: Sequence[int],
        ended: Sequence[bool],
    ) -> None:
        """Takes in the oldest frame in flight; `device_ns` None or 0 is indeterminate.

        `tokens` are output tokens published for `lanes`, the first one after a prompt included.
        Lanes of the frame that are left out published nothing.
        """
    def observe(
        self,
        graph: int,
        *,
        device_ns: int | None,
        wall_ns: int,
        completed_at_ns: int,
        drained: bool = False,
        feedback: bool = False,
        probe: bool = False,
    ) -> None:
        """Records an execution scheduled elsewhere: a warm-up, or with `probe` a draft probe."""
    def costs_ns(self) -> list[int]:
        """Cost of each graph: median device time and charged handoff; 0 while indeterminate."""
    def prefill_completion_ns(self, tokens: int) -> int:
        """Least device time for a prompt of `tokens` that is alone."""
    def rates(self) -> tuple[float, float]:
        """Reference decode and prefill rates, tokens/s; 0 while unmeasured."""
    def allowance_ns(self) -> tuple[int, int, int, int]:
        """Credit, ordinary device time F, probe time E and the last probe's D.

        After every completion ``E <= probe_share / (1 - probe_share) * F + D``.
        """
    @property
    def num_lanes(self) -> int: ...
    @property
    def num_frames(self) -> int: ...
    def __copy__(self) -> Self: ...

@final
class Trace:
    """Arrivals for `simulate`, column by column, in order of time.

    Raises ValueError for columns of unequal length, times out of order or values out of range.
    """

    def __new__(
        cls,
        *,
        duration_ns: int,
        at_ns: Sequence[int],
        units: Sequence[int],
        rows: Sequence[int],
        deadline_ns: Sequence[int],
        classes: Sequence[int],
        lanes: Sequence[int],
        priorities: Sequence[int],
        tenants: Sequence[int],
        weights: Sequence[float],
        cancel_after_ns: Sequence[int],
    ) -> Self: ...
    @staticmethod
    def draw(
        *,
        seed: int,
        duration_ns: int,
        rate_from_ns: Sequence[int],
        rates_per_s: Sequence[float],
        burst_on_ns: float,
        burst_off_ns: float,
        burst_off_ratio: float,
        log_units_mean: float,
        log_units_spread: float,
        min_units: int,
        max_units: int,
        class_shares: Sequence[float],
        class_min_deadlines_ns: Sequence[int],
        class_max_deadlines_ns: Sequence[int],
        class_weights: Sequence[float],
        class_lanes: Sequence[int],
        class_priorities: Sequence[int],
        tenants: int,
        cancel_share: float,
        cancel_mean_ns: float,
        max_rows: int,
    ) -> Trace:
        """Draws arrivals; the same arguments give the same trace. See `headway.sim.Workload`."""
    def head(self, until_ns: int) -> Trace:
        """The part before `until_ns`."""
    def __len__(self) -> int: ...
    @property
    def duration_ns(self) -> int: ...
    @property
    def at_ns(self) -> list[int]: ...
    @property
    def units(self) -> list[int]: ...
    @property
    def rows(self) -> list[int]: ...
    @property
    def deadline_ns(self) -> list[int]:
        """Relative to the arrival."""
    @property
    def classes(self) -> list[int]: ...
    @property
    def lanes(self) -> list[int]: ...
    @property
    def priorities(self) -> list[int]: ...
    @property
    def tenants(self) -> list[int]: ...
    @property
    def weights(self) -> list[float]: ...
    @property
    def cancel_after_ns(self) -> list[int]:
        """Relative to the arrival; -1 for never."""

@final
class SimReport:
    """What became of each request of a trace; lists run in its order."""

    @property
    def fates(self) -> bytes:
        """0 unfinished, 1 on time, 2 late, 3 refused on arrival, 4 dropped, 5 cancelled."""
    @property
    def ended_at_ns(self) -> list[int]: ...
    @property
    def batch_sizes(self) -> list[int]:
        """Members of its batch; 0 for none."""
    @property
    def num_batches(self) -> int: ...
    @property
    def busy_ns(self) -> float:
        """Device time spent, over all replicas."""
    @property
    def stats(self) -> PoolStats | None:
        """The scheduler's pool at the end; None for a rival."""

def simulate(
    trace: Trace,
    *,
    policy: str,
    seed: int,
    intercept_ns: float,
    slope_ns: float,
    noise: float,
    max_requests: int,
    max_rows: int,
    max_units: int,
    speeds: Sequence[float],
    change_at_ns: Sequence[int],
    change_replicas: Sequence[int],
    change_speeds: Sequence[float],
    linger_ns: float,
    margin_ns: float,
    quantum_ns: float,
    prior_intercept_ns: float,
    prior_slope_ns: float,
    learns: bool,
    max_queued_requests: int,
    alpha: float,
    large_share: float,
    bulk_share: float,
    priority_weights: Sequence[float],
    shed_early: bool,
    fixed_quantum_ns: float,
) -> SimReport:
    """Simulates a scheduler over a trace, event by event. See `headway.sim.simulate`.

    Args:
      policy: "headway" for this module's `Scheduler`, or a rival: "one_by_one", "fixed_batch",
        "earliest_deadline", "first_in_time", "shortest_first".
      noise: durations vary evenly within this ratio either way.
      speeds: one a replica; a changed speed of 0 takes the replica away.
      linger_ns, margin_ns, quantum_ns: of those rivals that have them.
      learns: False keeps the prior cost.

    Runs without the GIL. Raises ValueError for a value out of range.
    """

def clairvoyant_bound(
    trace: Trace,
    *,
    intercept_ns: float,
    slope_ns: float,
    max_requests: int,
    max_units: int,
    search_step_ns: int,
    search_rounds: int,
    final_step_ns: int,
    final_rounds: int,
) -> float:
    """Weight that no scheduler of one device could exceed, even one that knows the future.

    Holds at any effort; finer steps and more rounds bring it down. Runs without the GIL.
    """
