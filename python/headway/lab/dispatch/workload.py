"""The sixteen workloads: what each puts side by side is in its comment."""

from collections.abc import Sequence

from headway.errors import ConfigError
from headway.lab.dispatch.request import RequestSpec

_DRAFTS = 7
_MS = 1_000_000


def workloads() -> dict[str, tuple[RequestSpec, ...]]:
    """All workloads by name, in the order of the tables."""
    spread = [0.2 + 0.1 * (index % 8) for index in range(16)]
    return {
        # One prompt alone; the second one's last 64 tokens cost a graph of their own.
        "solo_prefill": _prompts([8192]),
        "prompt_tail": _prompts([4160]),
        # Equal long prompts: finishing one first or alternating takes the same time in all.
        "two_long_prefills": _prompts([16384, 16384]),
        "concurrent_prefills": _prompts([4096] * 4),
        "short_tails": _prompts([65] * 8),
        # Streams only, by how much of their drafts is accepted.
        "solo_decode": _streams([0.6]),
        "low_acceptance": _streams([0.2] * 8),
        "high_acceptance": _streams([0.9] * 8),
        "heterogeneous_acceptance": _streams(spread[:8]),
        "sixteen_decodes": _streams(spread),
        # Prompts beside streams.
        "prefill_five_decodes": _streams([0.5] * 5) + _prompts([4096]),
        "mixed_phases": _streams(spread[:8]) + _prompts([512, 1024, 2048, 4096]),
        "sixteen_mixed": _streams(spread[:8]) + _prompts([64, 128, 256, 512, 129, 700, 1500, 3000]),
        # Requests that come later.
        "delayed_prefill": _streams([0.5] * 5) + _prompts([4096], first_ms=100),
        "staggered_prefills": _streams([0.5] * 4) + _prompts([1024] * 6, first_ms=0, every_ms=60),
        # Some end early.
        "different_outputs": _streams([0.5] * 8, [8, 16, 32, 64, 128, 256, 384, 512]),
    }


def workload(name: str) -> tuple[RequestSpec, ...]:
    """One workload by name."""
    known = workloads()
    if name not in known:
        raise ConfigError(f"there is no workload {name!r}; there are {', '.join(known)}")
    return known[name]


def _prompts(
    lengths: Sequence[int], first_ms: int = 0, every_ms: int = 0
) -> tuple[RequestSpec, ...]:
    return tuple(
        RequestSpec(
            name=f"prompt-{index}",
            prompt_tokens=tokens,
            output_tokens=64,
            output_limit=256,
            arrives_at_ns=(first_ms + index * every_ms) * _MS,
            acceptance=(0.5,) * _DRAFTS,
        )
        for index, tokens in enumerate(lengths)
    )


def _streams(
    acceptance: Sequence[float], lengths: Sequence[int] | None = None
) -> tuple[RequestSpec, ...]:
    lengths = lengths or [128] * len(acceptance)
    return tuple(
        RequestSpec(
            name=f"stream-{index}",
            prompt_tokens=0,
            output_tokens=length,
            output_limit=512,
            acceptance=(chance,) * _DRAFTS,
        )
        for index, (chance, length) in enumerate(zip(acceptance, lengths, strict=True))
    )
