"""Whether an output is taken in: room, time, shares and quota."""

from collections.abc import Callable

from headway import errors
from headway._core import Admission, RefusalReason, Scheduler, Verdict, hash_key, split_point
from headway.admission.refusal import annotate, to_error
from headway.gateway.catalog import Model, Pool
from headway.gateway.decisions import Record
from headway.gateway.no_capacity import no_capacity
from headway.gateway.stream_pool import StreamPool
from headway.gateway.stream_replica import MOST_NS
from headway.rpc.interceptors import Caller

_NO_REPLICA_RETRY_NS = 1_000_000_000
_NO_EVIDENCE = -1


class StreamAdmission:
    """Asks the scheduler, and says what its refusals mean for an output."""

    def __init__(self, scheduler: Scheduler, *, renew: Callable[[Caller], int]) -> None:
        """`renew` is the handle of a caller that the scheduler has forgotten."""
        self._renew = renew
        self._scheduler = scheduler

    def admit(self, record: Record, pool: Pool, streams: StreamPool, expected: float) -> Admission:
        """Takes an output in: O(log n), and no more where it is refused.

        Args:
          record: of the request, which arrives now; what admission saw is noted there.
          pool: of its version.
          streams: what serves that.
          expected: units of the output that are usual; charged with the prompt's until it ends.

        Raises:
          RequestError: refused.
        """
        now_ns, caller = record.arrived_ns, record.caller
        if pool.num_replicas == 0:
            raise no_capacity(pool, pinned=record.pinned, retry_after_ns=_NO_REPLICA_RETRY_NS)
        times = streams.quickest(now_ns, record.units, expected)
        service_ns = _NO_EVIDENCE if times is None else min(int(times[2]), MOST_NS)
        asked = (
            pool.handle, record.units + round(expected), record.deadline_ns, record.priority,
            streams.num_lanes, streams.is_open(), service_ns,
        )  # fmt: skip
        try:
            decision = self._scheduler.admit_output(now_ns, caller.handle, *asked)
        except KeyError:
            # The scheduler forgets tenants that were idle; at most once in a while, so no loop.
            decision = self._scheduler.admit_output(now_ns, self._renew(caller), *asked)
        record.reading = decision.reading
        if isinstance(decision, Verdict):
            raise _refusal(decision, pool.name, caller.tenant, times)
        return decision


def _refusal(
    verdict: Verdict, model: str, tenant: str, times: tuple[float, float, float] | None
) -> errors.RequestError:
    if verdict.reason == RefusalReason.QUOTA_IMPOSSIBLE:
        return annotate(_impossible(verdict, tenant), verdict)
    if verdict.reason == RefusalReason.DEADLINE_UNREACHABLE and times is not None:
        return annotate(_unreachable(verdict, times), verdict)
    if verdict.reason == RefusalReason.OVERLOADED:
        error = annotate(_too_many(verdict), verdict)
        error.metadata["rule"] = "live"
        return error
    return to_error(verdict, model=model, tenant=tenant)


def _impossible(verdict: Verdict, tenant: str) -> errors.RequestError:
    return errors.InvalidRequest(
        f"this request needs about {verdict.needed} units, prompt and output, more than tenant "
        f"{tenant} may use at once; lower max_output_units",
        field="max_output_units",
        metadata={"tenant": tenant, "needed_units": str(verdict.needed)},
    )


def _too_many(verdict: Verdict) -> errors.RequestError:
    return errors.Overloaded(
        f"this gateway has {verdict.available} outputs in hand and takes no more at once; retry in "
        f"{verdict.retry_after_ns / 1e6:.0f} ms",
        retry_after_ns=verdict.retry_after_ns,
        metadata={"available_requests": str(verdict.available)},
    )


def _unreachable(verdict: Verdict, times: tuple[float, float, float]) -> errors.RequestError:
    wait_ns, (first_ns, rest_ns, _) = verdict.reading.drain_ns, times
    needed_ns = wait_ns + round(first_ns) + round(rest_ns)
    return errors.DeadlineUnreachable(
        f"it would take {needed_ns / 1e6:.0f} ms (a lane in {wait_ns / 1e6:.0f}, first unit "
        f"{first_ns / 1e6:.0f} later, then {rest_ns / 1e6:.0f} for an output of usual length) "
        f"and has {verdict.available / 1e6:.0f} ms; allow more time or a smaller max_output_units",
        metadata={"needed_ns": str(needed_ns), "available_ns": str(verdict.available)},
    )


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
