"""How long outputs are, learned from those that ended and those that were cut short."""

from bisect import bisect_right

BINS_PER_OCTAVE = 4
NUM_BINS = 72
MEMORY = 512.0
"""Outputs that the estimate remembers."""

PRIOR_HAZARD_WEIGHT = 1.0


class OutputLengths:
    """Distribution of output lengths by the product-limit estimator over logarithmic bins.

    An output cut by its budget, a cancellation or a deadline is censored: it says that the
    length is beyond, not what it is. Taking it for an end would teach that answers are short.

    Source: Kaplan and Meier, JASA 53(282), 1958, with exponential forgetting.
    """

    def __init__(self, prior_mean: float = 128.0) -> None:
        """`prior_mean`: mean length before anything was seen, in tokens; > 0."""
        self._prior_mean = prior_mean
        self._ended = [0.0] * NUM_BINS
        self._censored = [0.0] * NUM_BINS
        self._survival: list[float] | None = None

    def observe(self, num_tokens: int, *, censored: bool) -> None:
        """Learns from one output; `censored` where it would have gone on. O(bins)."""
        counts = self._censored if censored else self._ended
        decay = 1 - 1 / MEMORY
        for index in range(NUM_BINS):
            self._ended[index] *= decay
            self._censored[index] *= decay
        counts[_bin(num_tokens)] += 1
        self._survival = None

    def expected(self, *, generated: int = 0, budget: int) -> float:
        """Mean final length, at most `budget`, of an output that has `generated` and goes on.

        In [generated + 1, budget] where budget > generated. O(bins).
        """
        if budget <= generated:
            return float(budget)
        survival = self._survivals()
        alive = _at(survival, generated)
        mean = float(generated)
        for index in range(_bin(generated + 1), NUM_BINS):
            low = max(_edge(index), generated)
            high = min(_edge(index + 1), budget)
            if high <= low:
                break
            mean += (high - low) * 0.5 * (_at(survival, low) + _at(survival, high)) / alive
        return min(float(budget), max(generated + 1.0, mean))

    def _survivals(self) -> list[float]:
        """Chance to reach each bin's lower edge."""
        if self._survival is not None:
            return self._survival
        at_risk = sum(self._ended) + sum(self._censored)
        chance, survival = 1.0, []
        for index in range(NUM_BINS):
            survival.append(chance)
            width = _edge(index + 1) - _edge(index)
            prior = min(0.9, width / (self._prior_mean + width))
            ended = self._ended[index] + PRIOR_HAZARD_WEIGHT * prior
            # Those censored within the bin were at risk for half of it.
            exposed = max(0.0, at_risk - self._censored[index] / 2) + PRIOR_HAZARD_WEIGHT
            chance *= max(0.0, 1 - ended / exposed)
            at_risk -= self._ended[index] + self._censored[index]
        self._survival = survival
        return survival


def _bin(num_tokens: int) -> int:
    return min(bisect_right(_EDGES, num_tokens), NUM_BINS) - 1


def _edges() -> list[int]:
    """Bin edges grow by 2**(1/4), and by at least one token."""
    edges = [0]
    for index in range(1, NUM_BINS + 1):
        edges.append(max(edges[-1] + 1, round(2 ** (index / BINS_PER_OCTAVE))))
    return edges


_EDGES = _edges()


def _edge(index: int) -> int:
    return _EDGES[index]


def _at(survival: list[float], length: float) -> float:
    """Chance of more than `length` tokens, linear within bins; never 0, as it divides."""
    index = _bin(int(length))
    low, high = _edge(index), _edge(index + 1)
    after = survival[index + 1] if index + 1 < NUM_BINS else 0.0
    share = (length - low) / (high - low)
    return max(1e-9, survival[index] + share * (after - survival[index]))
