"""Acceptance of drafts, the same for every schedule."""

from headway.lab.dispatch.request import RequestSpec

_MASK = (1 << 64) - 1


def _mix(value: int) -> int:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def draw(seed: int, request: int, position: int, draft: int) -> float:
    """In [0, 1), a function of its key alone: two schedules that reach the same place agree."""
    state = seed & _MASK
    for part in (request, position, draft):
        state = _mix((state + 0x9E3779B97F4A7C15 * (part + 1)) & _MASK)
    return float(state >> 11) / float(1 << 53)


def published_tokens(spec: RequestSpec, request: int, generated: int, width: int, seed: int) -> int:
    """Output tokens of one decode row: the certain one and the accepted drafts behind it."""
    tokens = 1
    for draft, chance in enumerate(spec.acceptance[: width - 1]):
        if draw(seed, request, generated, draft) >= chance:
            break
        tokens += 1
    return min(tokens, spec.length - generated)
