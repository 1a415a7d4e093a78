"""Whether an output is taken in: room, time and quota."""

from collections.abc import Callable, Iterable

from headway import errors
from headway._core import Scheduler, hash_key, split_point
from headway.gateway.catalog import Model, Pool
from headway.gateway.decisions import Record
from headway.gateway.no_capacity import no_capacity
from headway.gateway.stream_pool import StreamPool
from headway.gateway.stream_replica import StreamReplica
from headway.gateway.stream_request import PendingStream
from headway.rpc.interceptors import Caller

_NO_REPLICA_RETRY_NS = 1_000_000_000


class StreamAdmission:
    """The bounds of one gateway's outputs."""

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        max_live: int,
        max_queued: int,
        renew: Callable[[Caller], int],
    ) -> None:
        """`scheduler` holds the quotas; `renew` is the handle of a caller that it has forgotten."""
        self._renew = renew
        self._scheduler = scheduler
        self._max_live = max_live
        self._max_queued = max_queued

    def check(
        self,
        record: Record,
        pool: Pool,
        streams: StreamPool,
        budget: int,
        num_live: int,
    ) -> None:
        """Refuses what has no replica, no room or no time.

        O(1) in the replicas where a lane is free and the first that is asked would be in time; who
        is refused is told of the fastest.

        Args:
          record: of the request, which arrives now.
          pool: of its version.
          streams: what waits for that and what serves it.
          budget: most units of the output.
          num_live: outputs of this gateway that have not ended.

        Raises:
          RequestError: refused.
        """
        now_ns, due_ns, units = record.arrived_ns, record.deadline_ns, record.units
        if pool.num_replicas == 0:
            raise no_capacity(pool, pinned=record.pinned, retry_after_ns=_NO_REPLICA_RETRY_NS)
        if due_ns <= now_ns:
            raise errors.DeadlineExpired("its deadline had passed when it arrived")
        place = len(streams.queue)
        wait_ns = streams.lane_ns(now_ns)
        if place >= self._max_queued or num_live >= self._max_live:
            raise errors.QueueFull(
                f"the queue of {pool.name} is at its bound of {place}; retry in "
                f"{wait_ns / 1e6:.0f} ms",
                retry_after_ns=max(1, wait_ns),
            )
        # Evidence that has gone stale, or a device with nothing to do, refuses nobody.
        if not streams.forecast.is_fresh(now_ns) or not _busy(streams.ready_replicas()):
            return
        left = due_ns - now_ns
        if any(wait_ns + sum(each) <= left for each in streams.times(units, budget)):
            return
        first, last = min(streams.times(units, budget), key=sum)
        needed = wait_ns + first + last
        raise errors.DeadlineUnreachable(
            f"it would take {needed / 1e6:.0f} ms (a lane in {wait_ns / 1e6:.0f}, first unit "
            f"{first / 1e6:.0f} later, then {last / 1e6:.0f} for an output of usual length) "
            f"and has {left / 1e6:.0f} ms; allow more time or a smaller max_output_units",
            metadata={"needed_ns": str(needed), "available_ns": str(left)},
        )

    def charge(self, now_ns: int, caller: Caller, units: int) -> None:
        """Takes prompt and expected output from the tenant's quota.

        Raises:
          RequestError: there is too little of it.
        """
        try:
            wait_ns = self._scheduler.charge(now_ns, caller.handle, units)
        except KeyError:
            wait_ns = self._scheduler.charge(now_ns, self._renew(caller), units)
        if wait_ns < 0:
            raise errors.InvalidRequest(
                f"this request needs about {units} units, prompt and output, more than tenant "
                f"{caller.tenant} may use at once; lower max_output_units",
                field="max_output_units",
            )
        if wait_ns > 0:
            raise errors.QuotaExceeded(
                f"tenant {caller.tenant} has too little of its quota left for about {units} "
                f"units; retry in {wait_ns / 1e6:.0f} ms",
                retry_after_ns=wait_ns,
                metadata={"tenant": caller.tenant, "needed_units": str(units)},
            )

    def settle(self, now_ns: int, stream: PendingStream, used: int) -> None:
        """Gives back what was charged and not used.

        What was used beyond the charge is paid too, and may leave a debt.
        """
        self._scheduler.settle_charge(now_ns, stream.tenant, stream.charged, used)


def pool_of(model: Model, version: str, key: int) -> Pool:
    """The pinned version's pool, else the split's choice; the first serves for empty ones."""
    if version:
        return model.versions[version]
    split = model.routed
    point = split_point(key, hash_key(model.name.encode()))
    end = 0.0
    for pool, share in split:
        end += share
        if point < end:
            return pool if pool.num_replicas else split[0][0]
    return split[-1][0]


def _busy(replicas: Iterable[StreamReplica]) -> bool:
    return any(replica.inflight for replica in replicas)
