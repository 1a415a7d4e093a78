"""The rules of a rollout. Every setting is checked; every default says why it is what it is."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator, model_validator

DEFAULT_SHARES: Final = (0.01, 0.05, 0.25, 0.5, 0.95, 1.0)
LAST: Final = 1.0
_MAX_STEPS: Final = 20

Share = Annotated[float, Field(gt=0, le=1)]
Seconds = Annotated[float, Field(gt=0, le=30 * 86_400)]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Step(_Settings):
    """One step: a share of traffic, and what it takes to leave it."""

    share: Share = Field(description="Share of unpinned traffic for the canary.")
    min_seconds: float = Field(
        default=300, ge=0, le=30 * 86_400, description="Least time, in s. Default 300; 900 for the "
        "last step before 1, where most users are."
    )  # fmt: skip
    min_requests: int = Field(
        default=100, ge=1, le=10**9, description="Least requests of the canary. Default 100, 200 "
        "or 500, growing with the share."
    )  # fmt: skip
    max_error_rate: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="To leave it, the upper 99 % bound of the canary's error rate must be at most "
        "this. Unset: at most the tolerated rate (floor, or tolerance times the baseline's).",
    )
    max_latency_ratio: float | None = Field(
        default=None,
        gt=1,
        le=100,
        description="To leave it, there must be evidence (e-value 20) that the typical latency is "
        "below so many times the baseline's. Unset: below latency_tolerance.",
    )
    needs_p95: bool = Field(
        default=False,
        description="To leave it, there must also be evidence that p95 is within tolerance.",
    )
    confirms_only: bool = Field(
        default=False,
        description="True: no evidence is asked for beyond least time, least requests and no "
        "suspicion. For the last step, which confirms what the steps before have shown.",
    )
    max_seconds: Seconds = Field(
        default=3600, description="Time after which `on_inconclusive` applies, in s."
    )
    on_inconclusive: Literal["hold", "advance_if_clean", "roll_back"] = Field(
        default="hold",
        description="What happens when evidence is short after max_seconds. hold: wait for an "
        "operator. advance_if_clean: go on if no test has an e-value above 5. Default: "
        "advance_if_clean up to a share of 0.1, where harm is bounded by the share; hold beyond.",
    )

    @model_validator(mode="after")
    def _times_are_ordered(self) -> Self:
        if self.max_seconds < self.min_seconds:
            raise ValueError(
                f"max_seconds is {self.max_seconds:g}, below min_seconds ({self.min_seconds:g}); "
                "raise it"
            )
        return self


class Least(_Settings):
    """Least time and least requests of every step at once."""

    min_seconds: float | None = Field(default=None, ge=0, le=30 * 86_400)
    min_requests: int | None = Field(default=None, ge=1, le=10**9)


def default_step(share: float) -> Step:
    """The rules of a step of this share, as simulated."""
    if share <= 0.02:
        rules: dict[str, Any] = {"max_error_rate": 0.05, "max_latency_ratio": 2.0}
        return Step(share=share, max_seconds=600, on_inconclusive="advance_if_clean", **rules)
    if share <= 0.1:
        rules = {"max_error_rate": 0.02, "max_latency_ratio": 1.5}
        return Step(share=share, max_seconds=900, on_inconclusive="advance_if_clean", **rules)
    if share < 0.4:
        return Step(share=share, min_requests=200)
    if share <= 0.9:
        return Step(share=share, min_requests=500, needs_p95=True)
    return Step(share=share, min_seconds=900, min_requests=500, confirms_only=True)


class CapacityPolicy(_Settings):
    """Tells a canary that has too few replicas from one that is slow."""

    named_utilisation: Share = Field(
        default=0.6,
        description="Share of device time in use from which a canary beyond tolerance in latency "
        "is named short of replicas. Default 0.6: by M/D/1, 1 + u / (2 (1 - u)), a device in use "
        "at 0.6 answers 1.24 times as slowly as one at 0.45, so queueing alone explains it.",
    )
    high_utilisation: Share = Field(
        default=0.75,
        description="Share of device time in use that the forecast does not let it exceed.",
    )
    least_excess: Share = Field(
        default=0.15,
        description="How far above the baseline's its utilisation must be to be named.",
    )
    cost_tolerance: float = Field(
        default=1.2,
        gt=1,
        le=100,
        description="Device time of a request, relative to the baseline's, beyond which the "
        "version is costlier rather than short of replicas.",
    )
    forecast: bool = Field(
        default=True,
        description="Do not go on to a step at which its replicas would be busier than "
        "high_utilisation. Turn it off where replicas are added by load.",
    )
    on_capacity: Literal["roll_back", "step_back"] = Field(
        default="roll_back",
        description="roll_back: end, with the reason `capacity`. step_back: return to the step "
        "before, and pause until an operator has added replicas and resumes.",
    )
    forecast_patience_seconds: Seconds | None = Field(
        default=None,
        description="How long a forecast may hold a step before on_capacity applies, in s. Unset: "
        "until an operator acts, or max_seconds of the rollout.",
    )


class ShadowPolicy(_Settings):
    """A first step without users: requests are copied to the canary, its answers discarded."""

    share: Share = Field(default=0.05, description="Share of unpinned requests that are copied.")
    min_seconds: float = Field(default=300, ge=0, le=30 * 86_400, description="Least time, in s.")
    min_requests: int = Field(default=100, ge=1, le=10**9, description="Least copies answered.")
    max_error_rate: Share = Field(
        default=0.05, description="To leave it, upper 99 % bound of its error rate."
    )
    max_latency_ratio: float = Field(
        default=2.0, gt=1, le=100, description="To leave it, bound of its typical latency."
    )
    max_seconds: Seconds = Field(
        default=900, description="When evidence is short after so long, in s, it goes on if clean."
    )
    max_inflight: int = Field(
        default=16,
        ge=1,
        le=4096,
        description="Copies under way at once in a gateway; beyond it none is made. 16: a batch "
        "or two, so that copies cannot fill the canary's queue.",
    )


class _Common(_Settings):
    steps: tuple[Step, ...] = Field(
        default=tuple(default_step(share) for share in DEFAULT_SHARES[:-1]),
        description="Steps of rising share below 1; a step may be a number, and then has the rules "
        "of its share. Behind the last one the canary has all traffic, which is the promotion. "
        "Default 0.01, 0.05, 0.25, 0.5, 0.95: the last keeps 5 % of baseline as a holdback, so "
        "that it, too, can be compared.",
    )
    analysis_seconds: Seconds = Field(
        default=30, description="Time between analyses (advance, hold). Rolling back does not wait."
    )
    tick_seconds: float = Field(
        default=1,
        ge=0.05,
        le=60,
        description="Length of a tick, the unit of evidence. Default 1: longer than a batch, so "
        "that batch-mates share one. Five ticks are taken together below 20 requests a second.",
    )
    warmup_seconds: float = Field(
        default=10,
        ge=0,
        le=3600,
        description="After a step begins, latencies do not count for so long: caches fill and "
        "batches find their size. Errors always count.",
    )
    max_seconds: Seconds | None = Field(
        default=86_400, description="Longest time for the whole rollout, in s. Default: a day."
    )
    on_max_seconds: Literal["roll_back", "pause"] = Field(
        default="roll_back", description="What then. Default: nothing stays half done unattended."
    )
    no_data: Literal["hold", "roll_back"] = Field(
        default="hold",
        description="What happens when the canary gets no request for no_data_seconds. It never "
        "advances on silence.",
    )
    no_data_seconds: Seconds = Field(
        default=900, description="Silence after which `no_data` applies, in s."
    )
    latency_tolerance: float = Field(
        default=1.2, gt=1, le=100, description="Largest ratio of latencies taken for equal."
    )
    error_tolerance: float = Field(
        default=1.5, ge=1, le=100, description="Largest ratio of error rates taken for equal."
    )
    error_floor: float = Field(
        default=0.005,
        gt=0,
        lt=1,
        description="Error rate below which no ratio counts, so that one error against none is "
        "not infinitely worse.",
    )
    capacity: CapacityPolicy = CapacityPolicy()
    shadow: ShadowPolicy | None = Field(default=None, description="Default: no shadow step.")

    @field_validator("steps", mode="before")
    @classmethod
    def _numbers_are_steps(cls, steps: object) -> object:
        if not isinstance(steps, Sequence) or isinstance(steps, str):
            return steps
        numbers = [_share_of(step) for step in steps]
        if numbers and numbers[-1] == LAST:
            steps = steps[:-1]
        return tuple(
            default_step(step) if isinstance(step, int | float) and 0 < step < LAST else step
            for step in steps
        )

    @field_validator("steps")
    @classmethod
    def _shares_rise(cls, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        shares = [step.share for step in steps]
        if not 1 <= len(shares) <= _MAX_STEPS:
            raise ValueError(f"there are {len(shares)} steps below 1; give 1 to {_MAX_STEPS}")
        if shares[-1] >= LAST or any(a >= b for a, b in pairwise(shares)):
            listed = ", ".join(f"{share:g}" for share in shares)
            raise ValueError(f"shares are {listed}; each must be above the one before, below 1")
        return steps


def _share_of(step: object) -> object:
    return step.get("share") if isinstance(step, Mapping) else getattr(step, "share", step)


class SequentialPolicy(_Common):
    """Tests that stay valid however often one looks."""

    kind: Literal["sequential"] = "sequential"
    false_rollback_probability: float = Field(
        default=0.01,
        gt=0,
        le=0.5,
        description="Chance of rolling back a version that is within tolerance, over the whole "
        "rollout.",
    )
    healthy_streak: int = Field(
        default=1,
        ge=1,
        le=100,
        description="Analyses in a row that must be for going on before it does. Default 1: the "
        "evidence of the gates accumulates, unlike that of windows.",
    )


class ClassicPolicy(_Common):
    """Windows of raw p95 and error rate with streaks, as most canary tools have it.

    For comparison: it rolls back most identical versions (docs/adr/0040).
    """

    kind: Literal["classic"] = "classic"
    healthy_streak: int = Field(default=3, ge=1, le=100, description="Healthy windows to go on.")
    unhealthy_streak: int = Field(
        default=2, ge=1, le=100, description="Unhealthy windows in a row to roll back."
    )
    min_window_requests: int = Field(
        default=100,
        ge=1,
        le=10**9,
        description="Requests of the canary below which a window is sparse and touches neither "
        "streak.",
    )
    extend_sparse: bool = Field(
        default=True,
        description="A sparse window goes on into the next one. False: it is dropped, so that a "
        "small share at a low rate never decides anything.",
    )


Policy = Annotated[SequentialPolicy | ClassicPolicy, Field(discriminator="kind")]
_ADAPTER: TypeAdapter[SequentialPolicy | ClassicPolicy] = TypeAdapter(Policy)


def _fast_step(share: float, **changes: Any) -> dict[str, Any]:
    rules = {
        "share": share, "min_seconds": 2, "min_requests": 20, "max_error_rate": 0.25,
        "max_latency_ratio": 2.0, "max_seconds": 12, "on_inconclusive": "advance_if_clean",
    }  # fmt: skip
    return rules | changes


def _fast_rules(share: float) -> dict[str, Any]:
    """Rules of a step of the fast preset, by its share."""
    if share <= 0.1:
        return _fast_step(share)
    if share < 0.4:
        return _fast_step(share, max_latency_ratio=1.5, max_error_rate=0.05, min_requests=50)
    if share < 0.9:
        changes: dict[str, Any] = {"max_error_rate": 0.02, "min_requests": 100, "needs_p95": True}
        return _fast_step(share, max_latency_ratio=1.5, **changes)
    return _fast_step(share, confirms_only=True, min_seconds=4, min_requests=200)


PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "default": {},
    # Trials and demos: seconds, at hundreds of requests a second. The same tests at the same
    # error rate; only the gates ask for less.
    "fast": {
        "steps": [0.05, 0.25, 0.5, 0.9],
        "analysis_seconds": 1,
        "tick_seconds": 0.2,
        "warmup_seconds": 0.4,
        "max_seconds": 300,
        "no_data_seconds": 30,
        "capacity": {"forecast": False},
    },
    "classic": {"kind": "classic"},
}
"""Policies by name; other settings are laid over them."""


def make_policy(preset: str, settings: Mapping[str, Any]) -> SequentialPolicy | ClassicPolicy:
    """A preset with settings laid over it; tables are merged, lists replaced.

    Raises:
      pydantic.ValidationError: a setting is unknown or out of its range.
      KeyError: no such preset.
    """
    # `least` = {"min_seconds": ..., "min_requests": ...} holds for every step.
    plain = _merged(PRESETS[preset or "default"], settings)
    if preset == "fast":
        # Else its numbers would have the rules, and minutes, of the default's.
        plain["steps"] = [
            _fast_rules(step) if isinstance(step, int | float) and 0 < step < LAST else step
            for step in plain["steps"]
        ]
    plain.setdefault("kind", "sequential")
    least = plain.pop("least", None)
    policy = _ADAPTER.validate_python(plain)
    return policy if least is None else _with_least(policy, least)


def parse_policy(plain: Mapping[str, Any]) -> SequentialPolicy | ClassicPolicy:
    """From what `model_dump` gave.

    Raises:
      pydantic.ValidationError.
    """
    return _ADAPTER.validate_python(dict(plain))


def _with_least(
    policy: SequentialPolicy | ClassicPolicy, least: object
) -> SequentialPolicy | ClassicPolicy:
    """The policy with least time and least requests of every step replaced."""
    steps = []
    for step in policy.steps:
        plain = step.model_dump() | Least.model_validate(least).model_dump(exclude_none=True)
        plain["max_seconds"] = max(plain["max_seconds"], 2 * plain["min_seconds"])
        steps.append(plain)
    return _ADAPTER.validate_python(policy.model_dump() | {"steps": steps})


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in over.items():
        found = merged.get(name)
        both = isinstance(found, Mapping) and isinstance(value, Mapping)
        merged[name] = _merged(found, value) if both else value  # type: ignore[arg-type]
    return merged
