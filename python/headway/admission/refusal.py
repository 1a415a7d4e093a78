"""What a refusal of the core means to the caller."""

from collections.abc import Callable

from headway import errors
from headway._core import Reading, RefusalReason, Verdict

_NS_PER_MS = 1_000_000
_DISPLACED_RETRY_NS = 100 * _NS_PER_MS
"""Some batches later the queue is another one."""


def to_error(
    verdict: Verdict, *, model: str, tenant: str, by_rows: bool = False
) -> errors.RequestError:
    """The error for a verdict, saying what was short and when to come back.

    Its metadata name the rule that refused and what admission saw. `by_rows`: what was too large
    for any batch is its number of rows, not of units.
    """
    if verdict.reason == RefusalReason.TOO_LARGE:
        error = _too_large(verdict, model, "rows" if by_rows else "units")
    else:
        error = _MAKERS[int(verdict.reason)](verdict, model, tenant)
    return annotate(error, verdict)


def annotate(error: errors.RequestError, verdict: Verdict) -> errors.RequestError:
    """Puts the rule that refused and what admission saw into an error's metadata."""
    error.metadata["rule"] = _RULES[int(verdict.reason)]
    error.metadata.update(_seen(verdict.reading))
    return error


def displaced(model: str, retry_after_ns: int = _DISPLACED_RETRY_NS) -> errors.RequestError:
    """The error of a request that had to leave the queue for another one."""
    return errors.Overloaded(
        f"{model} is overloaded: its place in the queue went to a request of a higher class, or "
        f"of a tenant that had less of its share; retry in {_milliseconds(retry_after_ns)}",
        retry_after_ns=retry_after_ns,
        metadata={"rule": "displaced"},
    )


def _seen(reading: Reading) -> dict[str, str]:
    seen = {"share_ratio": f"{reading.share_ratio:.3f}"}
    if reading.tenant_units < float("inf"):
        seen["tenant_units"] = f"{reading.tenant_units:.0f}"
    if reading.limit:
        seen["limit_requests"] = str(reading.limit)
        seen["inflight_requests"] = str(reading.inflight)
        seen["reserved_requests"] = str(reading.reserved)
    if reading.weight_part < 1:
        seen["weight_part"] = f"{reading.weight_part:.3f}"
    return seen


def _after(verdict: Verdict) -> int | None:
    return verdict.retry_after_ns or None


def _milliseconds(ns: int) -> str:
    return f"{ns / _NS_PER_MS:.1f} ms"


def _quota(verdict: Verdict, model: str, tenant: str) -> errors.RequestError:
    return errors.QuotaExceeded(
        f"tenant {tenant} has {verdict.available} units left of its quota and this request needs "
        f"{verdict.needed}; retry in {_milliseconds(verdict.retry_after_ns)}",
        retry_after_ns=_after(verdict),
        metadata=_numbers(verdict, "units") | {"tenant": tenant},
    )


def _impossible(verdict: Verdict, model: str, tenant: str) -> errors.RequestError:
    return errors.InvalidRequest(
        f"this request needs {verdict.needed} units and tenant {tenant} may use at most "
        f"{verdict.available} at once; send a smaller one, or have the quota's burst raised",
        field="input",
        metadata=_numbers(verdict, "units") | {"tenant": tenant},
    )


def _too_large(verdict: Verdict, model: str, what: str) -> errors.RequestError:
    return errors.InvalidRequest(
        f"this request has {verdict.needed} {what} and no replica of {model} takes more than "
        f"{verdict.available} {what} in one batch; send it in smaller parts",
        field="input",
        metadata=_numbers(verdict, what),
    )


def _queue_full(verdict: Verdict, model: str, tenant: str) -> errors.RequestError:
    return errors.QueueFull(
        f"the queue of {model} is at its bound of {verdict.available}; retry in "
        f"{_milliseconds(verdict.retry_after_ns)}",
        retry_after_ns=_after(verdict),
        metadata=_numbers(verdict, "requests"),
    )


def _overloaded(verdict: Verdict, model: str, tenant: str) -> errors.RequestError:
    return errors.Overloaded(
        f"{model} is overloaded: device time goes to requests worth more of it; retry in "
        f"{_milliseconds(verdict.retry_after_ns)}",
        retry_after_ns=_after(verdict),
        metadata=_numbers(verdict, "ns"),
    )


def _unreachable(verdict: Verdict, model: str, tenant: str) -> errors.RequestError:
    return errors.DeadlineUnreachable(
        f"{model} would need {_milliseconds(verdict.needed)} and the deadline leaves "
        f"{_milliseconds(max(0, verdict.available))}; allow more time or send less",
        retry_after_ns=_after(verdict),
        metadata=_numbers(verdict, "ns"),
    )


def _limit(verdict: Verdict, model: str, tenant: str) -> errors.RequestError:
    seen = verdict.reading
    kept = f" less {seen.reserved} kept for higher classes" if seen.reserved else ""
    return errors.Overloaded(
        f"{model} has {seen.inflight} requests in hand, of at most {seen.limit}{kept}; retry in "
        f"{_milliseconds(verdict.retry_after_ns)}",
        retry_after_ns=_after(verdict),
        metadata=_numbers(verdict, "requests"),
    )


def _tenant_queue(verdict: Verdict, model: str, tenant: str) -> errors.RequestError:
    text = f"tenant {tenant} may have {verdict.available} requests or units queued"
    metadata = _numbers(verdict, "queued") | {"tenant": tenant}
    if not verdict.retry_after_ns:
        return errors.InvalidRequest(
            f"{text} and this one alone needs {verdict.needed}; send a smaller one",
            field="input",
            metadata=metadata,
        )
    return errors.QuotaExceeded(
        f"{text} and this one would make it {verdict.needed}; wait for answers before sending more",
        retry_after_ns=_after(verdict),
        metadata=metadata,
    )


def _expired(verdict: Verdict, model: str, tenant: str) -> errors.RequestError:
    return errors.DeadlineExpired(
        "the deadline had passed on arrival; allow more time", metadata=_numbers(verdict, "ns")
    )


def _no_capacity(verdict: Verdict, model: str, tenant: str) -> errors.RequestError:
    return errors.NoCapacity(
        f"no replica serves {model} now; retry in {_milliseconds(verdict.retry_after_ns)}",
        retry_after_ns=_after(verdict),
    )


def _numbers(verdict: Verdict, unit: str) -> dict[str, str]:
    return {f"needed_{unit}": str(verdict.needed), f"available_{unit}": str(verdict.available)}


_MAKERS: dict[int, Callable[[Verdict, str, str], errors.RequestError]] = {
    int(RefusalReason.QUOTA_EXCEEDED): _quota,
    int(RefusalReason.QUOTA_IMPOSSIBLE): _impossible,
    int(RefusalReason.QUEUE_FULL): _queue_full,
    int(RefusalReason.OVERLOADED): _overloaded,
    int(RefusalReason.DEADLINE_UNREACHABLE): _unreachable,
    int(RefusalReason.DEADLINE_EXPIRED): _expired,
    int(RefusalReason.NO_CAPACITY): _no_capacity,
    int(RefusalReason.LIMIT_REACHED): _limit,
    int(RefusalReason.TENANT_QUEUE_FULL): _tenant_queue,
}

_RULES: dict[int, str] = {
    int(RefusalReason.QUOTA_EXCEEDED): "quota",
    int(RefusalReason.QUOTA_IMPOSSIBLE): "burst",
    int(RefusalReason.TOO_LARGE): "batch_limits",
    int(RefusalReason.QUEUE_FULL): "queue",
    int(RefusalReason.OVERLOADED): "value",
    int(RefusalReason.DEADLINE_UNREACHABLE): "deadline",
    int(RefusalReason.DEADLINE_EXPIRED): "deadline",
    int(RefusalReason.NO_CAPACITY): "capacity",
    int(RefusalReason.LIMIT_REACHED): "limit",
    int(RefusalReason.TENANT_QUEUE_FULL): "tenant_queue",
}
"""Which step of admission refused, by the verdict's reason."""
