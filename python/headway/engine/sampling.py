"""How the next token is drawn from a model's logits."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headway._core import Rng
from headway.errors import RuntimeInputError

Logits = npt.NDArray[np.float32]
MOST_LOGPROBS = 20


@dataclass(frozen=True, slots=True)
class Sampling:
    """One request's sampling.

    Attributes:
      temperature: >= 0; 0 takes the likeliest token.
      top_p: in (0, 1]: the likeliest tokens that together reach it.
      top_k: >= 0: so many of the likeliest; 0 for no limit.
      seed: of the request's own stream of draws, one draw a token.
      logprobs: whether log-probabilities are reported.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    logprobs: bool = False

    def __post_init__(self) -> None:
        """Raises RuntimeInputError, naming the field, for a value out of its range."""
        if not 0 <= self.temperature <= 100:
            raise RuntimeInputError(
                f"sampling.temperature is {self.temperature:g}; give 0 to 100, 0 for the likeliest"
            )
        if not 0 < self.top_p <= 1:
            raise RuntimeInputError(
                f"sampling.top_p is {self.top_p:g}; it must be above 0 and at most 1"
            )
        if self.top_k < 0:
            raise RuntimeInputError(f"sampling.top_k is {self.top_k}; it must be at least 1")


class Sampler:
    """Draws one request's tokens.

    Exactly one draw for each token that is kept, so the output depends on the request and its
    seed alone: not on the batch, the chunks of its prompt, or the drafts that were verified.
    """

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling
        self._rng = Rng(sampling.seed)

    def draw(self, logits: Logits) -> tuple[int, float]:
        """A token and its log-probability (0.0 where not asked for). O(vocabulary)."""
        sampling = self._sampling
        token = int(np.argmax(logits)) if sampling.temperature == 0 else self._random(logits)
        return token, log_probability(logits, token) if sampling.logprobs else 0.0

    def _random(self, logits: Logits) -> int:
        sampling = self._sampling
        scaled = logits.astype(np.float64) / sampling.temperature
        candidates = _likeliest(scaled, sampling.top_k)
        chances = np.exp(scaled[candidates] - scaled[candidates[0]])
        cumulative = np.cumsum(chances)
        if sampling.top_p < 1:
            kept = int(np.searchsorted(cumulative, sampling.top_p * cumulative[-1])) + 1
            cumulative = cumulative[:kept]
        point = self._rng.uniform() * cumulative[-1]
        place = min(int(np.searchsorted(cumulative, point, side="right")), len(cumulative) - 1)
        return int(candidates[place])


def log_probability(logits: Logits, token: int) -> float:
    """Natural logarithm of the probability of `token` under the model, at temperature 1."""
    highest = float(logits.max())
    total = float(np.exp(logits - highest, dtype=np.float32).sum(dtype=np.float64))
    return float(logits[token]) - highest - float(np.log(total))


def _likeliest(scaled: npt.NDArray[np.float64], top_k: int) -> npt.NDArray[Any]:
    """Tokens from the likeliest down, ties by token, the first `top_k` of them (0: all)."""
    if 0 < top_k < len(scaled):
        best = np.sort(np.argpartition(-scaled, top_k - 1)[:top_k])
        return best[np.argsort(-scaled[best], kind="stable")]
    return np.argsort(-scaled, kind="stable")
