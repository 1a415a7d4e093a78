"""What is left of an output of unknown length, given what has been seen of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class LengthPrior:
    """A distribution over output lengths 1, 2, …: `weights[l - 1]` is P(L = l), summing to 1.

    `open_tail` is the probability of a length beyond the last weight; nothing is known of how far.
    """

    weights: NDArray[np.float64]
    open_tail: float = 0.0

    def __post_init__(self) -> None:
        """Probabilities only."""
        total = float(self.weights.sum()) + self.open_tail
        if (self.weights < 0).any() or self.open_tail < 0 or abs(total - 1) > 1e-9:
            raise ValueError(f"probabilities must be at least 0 and sum to 1, got {total}")

    def truncated(self, limit: int) -> "LengthPrior":
        """The length under an output limit: all that would be longer ends at it."""
        if limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit}")
        weights = np.zeros(limit)
        kept = self.weights[:limit]
        weights[: len(kept)] = kept
        weights[-1] += max(0.0, 1.0 - float(kept.sum()))
        return LengthPrior(weights)


def conditional_remaining(prior: LengthPrior, generated: int) -> float:
    """`E[L - g | L > g]` tokens.

    Raises:
      ValueError: the prior leaves no length above `generated`, or has an open tail: truncate it.
    """
    if generated < 0:
        raise ValueError(f"generated must be at least 0, got {generated}")
    if prior.open_tail > 0:
        raise ValueError("the prior has an open tail; truncate it at the output limit first")
    left = prior.weights[generated:]
    mass = float(left.sum())
    if mass <= 0:
        raise ValueError(f"the prior has no length above {generated} generated tokens")
    return float(np.dot(left, np.arange(1, len(left) + 1)) / mass)


def fixed_length(tokens: int) -> LengthPrior:
    """A known length."""
    weights = np.zeros(tokens)
    weights[-1] = 1.0
    return LengthPrior(weights)


def geometric_length(hazard: float, longest: int) -> LengthPrior:
    """Ends at each token with probability `hazard`; the tail is open beyond `longest`."""
    if not 0 < hazard <= 1:
        raise ValueError(f"hazard must be in (0, 1], got {hazard}")
    weights = np.asarray(hazard * (1 - hazard) ** np.arange(longest), dtype=np.float64)
    return LengthPrior(weights, max(0.0, 1.0 - float(weights.sum())))


def pareto_length(alpha: float, minimum: int, longest: int) -> LengthPrior:
    """Survival `P(L > l) = (minimum / l) ** alpha` from `minimum` on; the tail is open."""
    if alpha <= 0 or minimum < 1:
        raise ValueError(f"alpha and minimum must be above 0, got {alpha} and {minimum}")
    survival = (minimum / np.arange(minimum, longest + 1)) ** alpha
    weights = np.zeros(longest)
    weights[minimum:] = survival[:-1] - survival[1:]
    return LengthPrior(weights, float(survival[-1]))


def learn_length(ended: Iterable[int], unfinished: Sequence[int], longest: int) -> LengthPrior:
    """Prior from finished lengths and from requests still running at `unfinished` tokens.

    The product-limit estimate: a running request counts as longer than what it has generated, not
    as a short output. What no finished request covers becomes an open tail.

    Source: Kaplan and Meier, JASA 53(282), 1958.
    """
    lengths = np.asarray(list(ended), dtype=np.int64)
    censored = np.asarray(unfinished, dtype=np.int64)
    if len(lengths) == 0:
        raise ValueError("ended must hold at least one finished length")
    if lengths.min() < 1 or lengths.max() > longest:
        raise ValueError(f"finished lengths must be between 1 and {longest}")
    survival = 1.0
    weights = np.zeros(longest)
    for length in range(1, longest + 1):
        at_risk = int((lengths >= length).sum() + (censored >= length).sum())
        ends = int((lengths == length).sum())
        if ends:
            weights[length - 1] = survival * ends / at_risk
            survival *= 1 - ends / at_risk
    return LengthPrior(weights, max(0.0, 1.0 - float(weights.sum())))


def pareto_remaining(generated: float, alpha: float) -> float:
    """`E[L - g | L > g] = g / (alpha - 1)` of a continuous Pareto length above its minimum.

    Twice what has been generated is the special case alpha = 1.5, no law of nature.
    """
    if alpha <= 1:
        raise ValueError(f"alpha must be above 1 for a finite mean, got {alpha}")
    return generated / (alpha - 1)
