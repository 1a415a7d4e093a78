"""What a refusal of the core means to the caller."""

from collections.abc import Callable

from headway import errors
from headway._core import RefusalReason, Verdict

_NS_PER_MS = 1_000_000


def to_error(verdict: Verdict, *, model: str, tenant: str) -> errors.RequestError:
    """The error for a verdict, saying what was short and when to come back."""
    return _MAKERS[int(verdict.reason)](verdict, model, tenant)


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


def _too_large(verdict: Verdict, model: str, tenant: str) -> errors.RequestError:
    return errors.InvalidRequest(
        f"this request needs {verdict.needed} units or rows and no replica of {model} takes more "
        f"than {verdict.available} in one batch; send it in smaller parts",
        field="input",
        metadata=_numbers(verdict, "units"),
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
    int(RefusalReason.TOO_LARGE): _too_large,
    int(RefusalReason.QUEUE_FULL): _queue_full,
    int(RefusalReason.OVERLOADED): _overloaded,
    int(RefusalReason.DEADLINE_UNREACHABLE): _unreachable,
    int(RefusalReason.DEADLINE_EXPIRED): _expired,
    int(RefusalReason.NO_CAPACITY): _no_capacity,
}
