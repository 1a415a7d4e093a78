"""The interface of policies under study; the production selector has the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headway.lab.dispatch.request import RequestView


@dataclass(frozen=True)
class Selection:
    """A decision.

    Attributes:
      graph: index in the catalogue.
      prompts: `(request, tokens)` in the graph's order.
      rows: decoding requests, ascending.
      score: value per second, in the policy's own unit.
      scores: `(graph, score)` of all graphs it could have taken.
    """

    graph: int
    prompts: tuple[tuple[int, int], ...]
    rows: tuple[int, ...]
    score: float
    reason: str
    scores: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Completion:
    """What a step published: `(request, output tokens, ended)` of its lanes."""

    selection: Selection
    started_at_ns: int
    ended_at_ns: int
    published: tuple[tuple[int, int, bool], ...]


class Policy(Protocol):
    """Chooses steps. One object lives for one run."""

    @property
    def name(self) -> str:
        """For tables."""

    def arrive(self, now_ns: int, view: RequestView) -> None:
        """A request became visible."""

    def select(self, now_ns: int, views: Sequence[RequestView]) -> Selection:
        """The next step for the live requests, by ascending index; there is at least one."""

    def complete(self, completion: Completion) -> None:
        """The step ended."""


def better(score: float, duration: float, best: float, best_duration: float) -> bool:
    """Whether a candidate beats the best so far, earlier one.

    Scores within a billionth of each other are equal, and the shorter graph wins: a rounding error
    decides nothing.
    """
    tolerance = 1e-9 * max(abs(score), abs(best))
    if abs(score - best) > tolerance:
        return score > best
    return duration < best_duration * (1 - 1e-9)
