"""Requests of an experiment: what they are, and what a policy may see of them."""

from dataclasses import dataclass

from headway.errors import ConfigError


@dataclass(frozen=True)
class RequestSpec:
    """One request. `output_tokens` is hidden from policies, all else they may see.

    Attributes:
      prompt_tokens: 0 for a request that is already decoding when it arrives.
      output_tokens: where it ends by itself.
      output_limit: where it is cut; policies know it.
      acceptance: probability that draft j is accepted if those before it were.
    """

    name: str
    prompt_tokens: int
    output_tokens: int
    output_limit: int
    arrives_at_ns: int = 0
    acceptance: tuple[float, ...] = ()
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Names the first field out of range."""
        checks = (
            ("prompt_tokens", self.prompt_tokens, self.prompt_tokens >= 0, "at least 0"),
            ("output_tokens", self.output_tokens, self.output_tokens >= 1, "at least 1"),
            ("output_limit", self.output_limit, self.output_limit >= 1, "at least 1"),
            ("arrives_at_ns", self.arrives_at_ns, self.arrives_at_ns >= 0, "at least 0"),
            ("weight", self.weight, self.weight > 0, "above 0"),
        )
        for field, value, holds, expected in checks:
            if not holds:
                raise ConfigError(f"request {self.name!r}: {field} must be {expected}, got {value}")
        for chance in self.acceptance:
            if not 0 <= chance <= 1:
                raise ConfigError(
                    f"request {self.name!r}: acceptance must be in [0, 1], got {chance}"
                )

    @property
    def length(self) -> int:
        """Output tokens it will publish if it runs to its end."""
        return min(self.output_tokens, self.output_limit)


@dataclass(frozen=True)
class RequestView:
    """A live request as policies see it. `index` is its place in the workload."""

    index: int
    arrived_at_ns: int
    prompt_tokens: int
    prompt_left: int
    generated: int
    output_limit: int
    published_at_ns: int
    acceptance: tuple[float, ...] = ()
    weight: float = 1.0

    @property
    def output_left(self) -> int:
        """Output tokens before its limit."""
        return self.output_limit - self.generated


def expected_tokens(view: RequestView, width: int) -> float:
    """`1 + Σ_{j<k} Π_{m<=j} q_m` output tokens at verification width k, within the limit.

    The sum stops at the limit, so it is E[min(tokens, output_left)] exactly, before the request's
    own end.
    """
    total = prefix = 1.0
    for chance in view.acceptance[: min(width, view.output_left) - 1]:
        prefix *= chance
        total += prefix
    return total
