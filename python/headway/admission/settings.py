"""Settings of admission: limits, reservations, weights. Every default says why it is what it is."""

from typing import Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

LEAST_WEIGHT: Final = 1e-6
LARGEST_WEIGHT: Final = 1000.0
"""Range of tenants' weights, in settings, on the wire and in the core."""

LEAST_RATE: Final = 1e-6
"""Least quota: its part for each gateway is still a number that a bucket can count with."""

MOST_QUEUED: Final = 1 << 62
"""Largest bound of a queue or batch, in requests, rows or units; the core counts in 64 bits."""


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LimitSettings(_Settings):
    """Requests that one model version may have in hand, queued and executing.

    The limit learns from what batches take beyond what was planned for them: it shrinks while that
    grows, and grows only while at least half of it is in use. Queueing that the scheduler chose is
    no reason to shrink it.
    """

    initial: int = Field(
        default=10_000,
        ge=1,
        le=1 << 24,
        description="Where it starts. Ten thousand: more than a healthy gateway has in hand for "
        "one model, so that it acts only where something goes wrong.",
    )
    min: int = Field(
        default=16,
        ge=1,
        le=1 << 24,
        description="Never below. Sixteen: a batch is still filled while the limit learns.",
    )
    max: int = Field(
        default=100_000,
        ge=1,
        le=1 << 24,
        description="Never above. About 1 KiB of memory a request.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> "LimitSettings":
        if not self.min <= self.initial <= self.max:
            raise ValueError(
                f"min is {self.min}, initial {self.initial} and max {self.max}; they must not fall"
            )
        return self


class ReservedSettings(_Settings):
    """Parts of the limit kept free for a priority class while it asks (in the last 10 s)."""

    critical: float = Field(
        default=0.2, ge=0, le=0.95, description="Kept for critical requests. A fifth."
    )
    standard: float = Field(
        default=0.2,
        ge=0,
        le=0.95,
        description="Kept for standard requests, against sheddable ones. A fifth.",
    )

    @model_validator(mode="after")
    def _leave_something(self) -> "ReservedSettings":
        if self.critical + self.standard > 0.95:
            raise ValueError(
                f"critical and standard add up to {self.critical + self.standard:g}; they may take "
                "0.95 at most"
            )
        return self


class AdmissionSettings(_Settings):
    """Who is let in, and who gives way when there is too much."""

    limit: LimitSettings = LimitSettings()
    reserved: ReservedSettings = ReservedSettings()
    fair_share_seconds: float = Field(
        default=5,
        ge=0.1,
        le=3600,
        description="How long device time counts toward a tenant's share: after so many seconds "
        "1/e of it still does. Five: long beside a batch, short beside a person's patience.",
    )
    max_queued_requests_per_tenant: int | None = Field(
        default=None,
        ge=1,
        le=MOST_QUEUED,
        description="Requests that one tenant may have queued. Default: no bound of its own; a "
        "full queue gives way to tenants that are within their share.",
    )
    max_queued_units_per_tenant: int | None = Field(
        default=None,
        ge=1,
        le=MOST_QUEUED,
        description="Work units that one tenant may have queued. Default: no bound of its own.",
    )
    max_active_tenants: int = Field(
        default=1 << 20,
        ge=1,
        le=1 << 24,
        description="Tenants with a state of their own at once, about 200 bytes each; idle ones "
        "are forgotten for others, at no loss. A million.",
    )
