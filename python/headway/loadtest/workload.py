"""What is asked: sizes, deadlines and texts, drawn from seeded streams."""

import bisect
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from headway._core import Rng
from headway.rng import SeedTree
from headway.v1 import inference_pb2, types_pb2

BYTES_PER_UNIT: Final = 4
"""Bytes of text for a work unit: about what a token of English takes."""

LARGEST_SIZE: Final = 1_000_000
"""Most units of one request."""

_UNITS_OF_TIME: Final = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000}
_LONGEST_NS: Final = 86_400 * 1_000_000_000
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m)")
_WORDS: Final = (
    "the tide turns and a small boat leaves the harbour while gulls follow the wind over grey "
    "water; on the pier someone counts the lights that come on one by one along the shore. "
)


class SizeDistribution(Protocol):
    """Draws the size of a request."""

    def draw(self, rng: Rng) -> int:
        """Units, in [1, LARGEST_SIZE]."""
        ...


@dataclass(frozen=True, slots=True)
class FixedSize:
    """Always `units`."""

    units: int

    def draw(self, rng: Rng) -> int:
        """Units."""
        return self.units


@dataclass(frozen=True, slots=True)
class UniformSize:
    """Every whole number in [smallest, largest] alike."""

    smallest: int
    largest: int

    def draw(self, rng: Rng) -> int:
        """Units."""
        return self.smallest + rng.below(self.largest - self.smallest + 1)


@dataclass(frozen=True, slots=True)
class LogNormalSize:
    """round(exp(mu + sigma * N(0, 1))), clipped to [smallest, largest]."""

    mu: float
    sigma: float
    smallest: int
    largest: int

    def draw(self, rng: Rng) -> int:
        """Units."""
        # Box-Muller; 1 - u keeps the logarithm's argument above 0.
        radius = math.sqrt(-2 * math.log(1 - rng.uniform()))
        normal = radius * math.cos(2 * math.pi * rng.uniform())
        exponent = min(self.mu + self.sigma * normal, math.log(LARGEST_SIZE))
        return min(max(round(math.exp(exponent)), self.smallest), self.largest)


@dataclass(frozen=True, slots=True)
class DeadlineMix:
    """Deadlines and their shares.

    Attributes:
      deadlines_ns: deadline of each class, from the scheduled instant.
      shares: share of requests of each class; they add up to 1.
    """

    deadlines_ns: Sequence[int]
    shares: Sequence[float]

    def draw(self, rng: Rng) -> int:
        """Index of a class."""
        edges = list(itertools.accumulate(self.shares))
        return min(bisect.bisect_right(edges, rng.uniform()), len(edges) - 1)


def parse_duration_ns(text: str) -> int:
    """Nanoseconds of "250us", "120ms", "1.5s" or "2m".

    Raises ValueError for anything else, and above a day.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or float(match[1]) == 0:
        raise ValueError(f"{text!r} is not a duration; write 250us, 120ms, 1.5s or 2m")
    duration_ns = float(match[1]) * _UNITS_OF_TIME[match[2]]
    if duration_ns > _LONGEST_NS:
        raise ValueError(f"{text.strip()[:40]!r} is longer than a day")
    return round(duration_ns)


def parse_deadline_mix(text: str) -> DeadlineMix:
    """Reads "120ms:0.3,900ms:0.7", or "1s" for a single class.

    Raises ValueError if a part is malformed or the shares do not add up to 1.
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) == 1 and ":" not in parts[0]:
        return DeadlineMix((parse_duration_ns(parts[0]),), (1.0,))
    deadlines_ns, shares = [], []
    for part in parts:
        deadline, _, share = part.partition(":")
        deadlines_ns.append(parse_duration_ns(deadline))
        shares.append(_number(share, f"the share in {part!r}"))
    if min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
        raise ValueError(f"the shares in {text!r} add up to {sum(shares):g}; they must add up to 1")
    return DeadlineMix(tuple(deadlines_ns), tuple(shares))


def parse_size(text: str) -> SizeDistribution:
    """Reads "fixed:64", "uniform:16,256" or "lognormal:4.8,0.9,16,4096" (mu, sigma, least, most).

    Raises ValueError for anything else, or for bounds outside [1, LARGEST_SIZE].
    """
    kind, _, rest = text.strip().partition(":")
    values = [_number(value, f"{value!r} in {text!r}") for value in rest.split(",")]
    if kind == "fixed" and len(values) == 1:
        return FixedSize(_units(values[0], text))
    if kind == "uniform" and len(values) == 2:
        return UniformSize(*_bounds(values, text))
    if kind == "lognormal" and len(values) == 4:
        if values[1] < 0:
            raise ValueError(f"sigma in {text!r} is {values[1]:g}; it must be at least 0")
        return LogNormalSize(values[0], values[1], *_bounds(values[2:], text))
    raise ValueError(
        f"{text!r} is not a size; write fixed:UNITS, uniform:LEAST,MOST or "
        "lognormal:MU,SIGMA,LEAST,MOST"
    )


@dataclass(frozen=True, slots=True)
class Work:
    """One request to send.

    Attributes:
      request: the message.
      deadline_class: index into the mix.
    """

    request: inference_pb2.InferRequest
    deadline_class: int


class Workload:
    """An endless stream of requests, the same for the same seed."""

    def __init__(
        self,
        template: inference_pb2.InferRequest,
        *,
        size: SizeDistribution,
        deadlines: DeadlineMix,
        seeds: SeedTree,
    ) -> None:
        """`template`: model, version and the like; its input, if set, is sent as it is."""
        self._template = template
        self._size = size
        self._deadlines = deadlines
        self._size_rng = seeds.stream("sizes")
        self._deadline_rng = seeds.stream("deadlines")
        self._text_rng = seeds.stream("texts")

    def next(self) -> Work:
        """The next request."""
        deadline_class = self._deadlines.draw(self._deadline_rng)
        if self._template.HasField("input"):
            return Work(self._template, deadline_class)
        request = inference_pb2.InferRequest()
        request.CopyFrom(self._template)
        request.input.CopyFrom(types_pb2.Input(text=self._text()))
        return Work(request, deadline_class)

    def _text(self) -> str:
        length = BYTES_PER_UNIT * self._size.draw(self._size_rng)
        start = self._text_rng.below(len(_WORDS))
        repeats = (start + length) // len(_WORDS) + 1
        return (_WORDS * repeats)[start : start + length]


def _number(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{what} is not a number") from None
    if not math.isfinite(value):
        raise ValueError(f"{what} is not finite")
    return value


def _units(value: float, text: str) -> int:
    if value != int(value) or not 1 <= value <= LARGEST_SIZE:
        raise ValueError(f"{value:g} in {text!r} is not a whole number in [1, {LARGEST_SIZE}]")
    return int(value)


def _bounds(values: Sequence[float], text: str) -> tuple[int, int]:
    smallest, largest = (_units(value, text) for value in values)
    if smallest > largest:
        raise ValueError(f"in {text!r} the least size {smallest} is above the most {largest}")
    return smallest, largest
