"""What a caller's key and tenant allow, judged at each request."""

from headway import errors
from headway.rpc.interceptors import Caller

_STANDARD = 2
_NAMES = {1: "PRIORITY_CRITICAL", 2: "PRIORITY_STANDARD", 3: "PRIORITY_SHEDDABLE"}


def check_key(caller: Caller, now_ns: int) -> None:
    """Raises Unauthenticated if the key has ended since the call, or its stream, began."""
    if caller.ended or caller.expires_at_ns <= now_ns:
        why = caller.ended or "it has expired"
        raise errors.Unauthenticated(
            f"API key {caller.key_id} is not valid any more: {why}; use another one"
        )


def check_terms(caller: Caller, model: str, priority: int) -> int:
    """The priority that a request gets. Without a wish it is standard, or what the ceiling allows.

    Args:
      priority: as asked for, 1 (critical) to 3 (sheddable); 0 for no wish.

    Raises:
      PermissionDenied: the tenant is shut out, or may not use the model or the priority.
    """
    terms, tenant = caller.terms, {"tenant": caller.tenant}
    if terms.disabled:
        raise errors.PermissionDenied(
            f"tenant {caller.tenant} is disabled; ask the operators of this gateway",
            metadata=tenant,
        )
    if terms.models is not None and model not in terms.models:
        allowed = ", ".join(sorted(terms.models)[:8])
        raise errors.PermissionDenied(
            f"tenant {caller.tenant} may not use model {model}; it may use: {allowed}",
            field="model",
            metadata=tenant,
        )
    if 0 < priority < terms.max_priority:
        raise errors.PermissionDenied(
            f"priority is {_NAMES[priority]}; tenant {caller.tenant} may ask for "
            f"{_NAMES[terms.max_priority]} at most",
            field="priority",
            metadata=tenant,
        )
    return priority or max(_STANDARD, terms.max_priority)
