"""Drafts from the text itself, and what is known of how often they are right."""

from collections.abc import Sequence

LONGEST_MATCH = 4
SHORTEST_MATCH = 2
LOOKBACK = 1024
"""Tokens searched for an earlier occurrence; bounds the work a draft costs."""

PRIOR_CHANCE = 0.75
PRIOR_WEIGHT = 4.0
"""Hopeful, so that drafts are tried; some verifications are enough to know better."""

MEMORY = 64.0
"""Verifications that a lane's own estimate remembers."""


def propose(tokens: Sequence[int], num_drafts: int) -> list[int]:
    """What followed the last earlier occurrence of the text's end; [] where there is none.

    The longest end of `LONGEST_MATCH` down to `SHORTEST_MATCH` tokens wins. O(LOOKBACK).

    Source: prompt lookup decoding (Saxena, 2023).
    """
    if num_drafts < 1:
        return []
    recent = list(tokens[-LOOKBACK:])
    for length in range(min(LONGEST_MATCH, len(recent) - 1), SHORTEST_MATCH - 1, -1):
        end = recent[-length:]
        for start in range(len(recent) - length - 1, -1, -1):
            if recent[start : start + length] == end:
                return recent[start + length : start + length + num_drafts]
    return []


class Acceptance:
    """How likely draft j is right, if those before it were: one chance for each position.

    A draft that was not even proposed counts as wrong: it yields no token either. Chances start
    from the model's own average, which all lanes of a model share and teach.
    """

    def __init__(self, num_drafts: int, shared: "Acceptance | None" = None) -> None:
        """`num_drafts`: positions, the widest verification less one. `shared`: the prior."""
        self._shared = shared
        self._tried = [0.0] * num_drafts
        self._right = [0.0] * num_drafts

    def chances(self) -> list[float]:
        """One chance in [0, 1] for each position."""
        prior = self._shared.chances() if self._shared else [PRIOR_CHANCE] * len(self._tried)
        return [
            (right + PRIOR_WEIGHT * chance) / (tried + PRIOR_WEIGHT)
            for right, tried, chance in zip(self._right, self._tried, prior, strict=True)
        ]

    def observe(self, num_asked: int, num_accepted: int) -> None:
        """Learns from a row verified `num_asked` drafts wide, of which so many were right."""
        for position in range(min(num_asked, len(self._tried))):
            right = position < num_accepted
            self._tried[position] += 1 - self._tried[position] / MEMORY
            self._right[position] += float(right) - self._right[position] / MEMORY
            if not right:
                break
        if self._shared is not None:
            self._shared.observe(num_asked, num_accepted)
