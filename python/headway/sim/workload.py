"""What arrives, as a description from which traces are drawn."""

import math
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from headway._core import Trace

NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000


class Frozen(BaseModel):
    """A description that cannot change and knows all its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RateStep(Frozen):
    """From an instant on, requests arrive at this mean rate."""

    from_s: float = Field(ge=0)
    """Seconds from the start; the first step begins at 0."""
    per_s: float = Field(ge=0, le=1e8)
    """Requests a second."""


class Bursts(Frozen):
    """An on/off process: phases of random (exponential) length, busy and quiet.

    The rate while on is raised so that the mean stays what the rate steps say.
    """

    on_s: float = Field(gt=0)
    """Mean length of a busy phase, seconds."""
    off_s: float = Field(gt=0)
    """Mean length of a quiet phase, seconds."""
    off_ratio: float = Field(default=0.2, ge=0, le=1)
    """Rate in a quiet phase, as a share of the mean."""


class Sizes(Frozen):
    """Work units of a request: round(exp(mean + spread * N(0, 1))), within bounds."""

    log_mean: float = Field(default=4.8, ge=-40, le=40)
    """Mean of the logarithm. 4.8: half of the requests are below 122 units."""
    log_spread: float = Field(default=0.9, ge=0, le=10)
    """Standard deviation of the logarithm."""
    min_units: int = Field(default=16, ge=1)
    """Least units."""
    max_units: int = Field(default=4096, ge=1)
    """Most units."""


class RequestClass(Frozen):
    """A share of the requests with its own deadlines."""

    share: float = Field(gt=0)
    """Relative to the other classes."""
    min_deadline_ms: float = Field(gt=0)
    """Shortest deadline, from arrival."""
    max_deadline_ms: float | None = Field(default=None, gt=0)
    """Longest; deadlines are spread evenly. None: all are the shortest."""
    weight: float = Field(default=1.0, gt=0)
    """Value of an answer."""
    lane: int = Field(default=1, ge=1, le=2)
    """1 interactive, 2 bulk."""
    priority: int = Field(default=2, ge=1, le=3)
    """1 critical, 2 standard, 3 sheddable."""


class Workload(Frozen):
    """Arrivals, sizes, deadlines, tenants and clients that give up."""

    rates: tuple[RateStep, ...] = Field(min_length=1)
    """Mean rates over time."""
    classes: tuple[RequestClass, ...] = Field(min_length=1, max_length=256)
    """Classes; the report tells them apart by their place here."""
    sizes: Sizes = Sizes()
    """Work units."""
    duration_s: float = Field(default=120.0, gt=0)
    """Time over which requests arrive, seconds."""
    bursts: Bursts | None = None
    """None: a plain Poisson process."""
    tenants: int = Field(default=1, ge=1)
    """Tenants; tenant i sends in proportion to 1 / (i + 1)."""
    cancel_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the requests whose client gives up."""
    cancel_mean_ms: float = Field(default=200.0, ge=0)
    """Mean time until it does."""
    max_rows: int = Field(default=1, ge=1)
    """Rows are spread evenly over 1 to this."""

    @model_validator(mode="after")
    def _starts_at_zero(self) -> Self:
        starts = [step.from_s for step in self.rates]
        if starts[0] != 0 or starts != sorted(starts):
            raise ValueError(f"rates: steps must rise from 0 s, not {starts}")
        return self

    @classmethod
    def reference(cls, rate_per_s: float, duration_s: float = 120.0) -> Self:
        """The reference: 30 % of the requests within 120 ms, 70 % within 900 ms."""
        urgent = RequestClass(share=0.3, min_deadline_ms=120)
        relaxed = RequestClass(share=0.7, min_deadline_ms=900)
        return cls(
            rates=(RateStep(from_s=0, per_s=rate_per_s),),
            classes=(urgent, relaxed),
            duration_s=duration_s,
        )

    def at_rate(self, rate_per_s: float) -> Self:
        """The same at another, constant rate."""
        return self.model_copy(update={"rates": (RateStep(from_s=0, per_s=rate_per_s),)})

    def mean_units(self) -> float:
        """Mean size, by numeric integration; within 0.1 % of the distribution's."""
        sizes, steps = self.sizes, 4000
        total = weight_sum = 0.0
        for step in range(steps):
            score = -6 + 12 * (step + 0.5) / steps
            weight = math.exp(-score * score / 2)
            units = math.exp(sizes.log_mean + sizes.log_spread * score)
            total += weight * min(max(round(units), sizes.min_units), sizes.max_units)
            weight_sum += weight
        return total / weight_sum

    def draw(self, seed: int) -> Trace:
        """Draws a trace; the same seed gives the same one."""
        bursts = self.bursts
        return Trace.draw(
            seed=seed,
            duration_ns=round(self.duration_s * NS_PER_S),
            rate_from_ns=[round(step.from_s * NS_PER_S) for step in self.rates],
            rates_per_s=[step.per_s for step in self.rates],
            burst_on_ns=bursts.on_s * NS_PER_S if bursts else 0.0,
            burst_off_ns=bursts.off_s * NS_PER_S if bursts else 0.0,
            burst_off_ratio=bursts.off_ratio if bursts else 0.0,
            log_units_mean=self.sizes.log_mean,
            log_units_spread=self.sizes.log_spread,
            min_units=self.sizes.min_units,
            max_units=self.sizes.max_units,
            class_shares=[each.share for each in self.classes],
            class_min_deadlines_ns=[_ns(each.min_deadline_ms) for each in self.classes],
            class_max_deadlines_ns=[
                _ns(each.max_deadline_ms or each.min_deadline_ms) for each in self.classes
            ],
            class_weights=[each.weight for each in self.classes],
            class_lanes=[each.lane for each in self.classes],
            class_priorities=[each.priority for each in self.classes],
            tenants=self.tenants,
            cancel_share=self.cancel_share,
            cancel_mean_ns=self.cancel_mean_ms * NS_PER_MS,
            max_rows=self.max_rows,
        )


def _ns(milliseconds: float) -> int:
    return round(milliseconds * NS_PER_MS)
