"""Settings of what the scheduler values, and of the record of arrivals."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PriorityWeights(_Settings):
    """Factors on the value of a request, by its priority class.

    Device time goes where it buys the most value, so the factors say how much more device time an
    answer of one class is worth than one of the next.
    """

    critical: float = Field(
        default=64,
        gt=0,
        le=1e6,
        description="Of critical requests. Sixty-four: beyond what size and deadline make up for, "
        "so that under overload they do not miss for others.",
    )
    standard: float = Field(default=1, gt=0, le=1e6, description="Of requests that name no class.")
    sheddable: float = Field(
        default=1 / 64,
        gt=0,
        le=1e6,
        description="Of sheddable requests. A sixty-fourth: served from what the others leave.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.critical >= self.standard >= self.sheddable:
            raise ValueError(
                f"critical {self.critical:g}, standard {self.standard:g} and sheddable "
                f"{self.sheddable:g} must not rise from class to class"
            )
        return self


class SchedulingSettings(_Settings):
    """What goodput is traded for. docs/goodput.md measures each."""

    alpha: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Value of a request is its weight times units**alpha. 0: answers count alike, "
        "1: work units do. Half is nearly free; above 0.7 goodput collapses under overload.",
    )
    large_share: float = Field(
        default=0,
        ge=0,
        le=0.5,
        description="Share of device time kept for the largest tenth of requests while they wait. "
        "None by default: 0.15 gives them half of a fair share for 2 % of goodput.",
    )
    bulk_share: float = Field(
        default=0.05,
        ge=0,
        le=0.5,
        description="Share of device time of the bulk lane while interactive work waits: what it "
        "is owed, and what it may take.",
    )
    priority_weights: PriorityWeights = Field(
        default=PriorityWeights(),
        description="How much more a class counts than another when there is too much.",
    )
    shed_early: bool = Field(
        default=True,
        description="Refuse on arrival what will not be served in time, with a time to retry. "
        "False: it is told at its deadline.",
    )

    def with_model(self, own: "ModelSchedulingSettings") -> "SchedulingSettings":
        """These settings, under those of one model."""
        given = {name: value for name, value in own if value is not None}
        return self.model_copy(update=given)


class ModelSchedulingSettings(_Settings):
    """The same for one model; what is not set is the gateway's."""

    alpha: float | None = Field(
        default=None, ge=0, le=1, description="Default: gateway.scheduling.alpha."
    )
    large_share: float | None = Field(
        default=None, ge=0, le=0.5, description="Default: gateway.scheduling.large_share."
    )
    bulk_share: float | None = Field(
        default=None, ge=0, le=0.5, description="Default: gateway.scheduling.bulk_share."
    )
    priority_weights: PriorityWeights | None = Field(
        default=None, description="Default: gateway.scheduling.priority_weights."
    )
    shed_early: bool | None = Field(
        default=None, description="Default: gateway.scheduling.shed_early."
    )


class ArrivalTraceSettings(_Settings):
    """A record of arrivals without their inputs, for `headway lab replay`."""

    path: Path | None = Field(
        default=None,
        description="File to record to; older parts are beside it as FILE.1, FILE.2 and so on. "
        "One file a gateway. Default: nothing is recorded.",
    )
    max_file_bytes: int = Field(
        default=64 * 1024 * 1024,
        ge=4096,
        le=1 << 40,
        description="Size at which a file is closed and the next begun. 64 MiB hold about 700,000 "
        "requests.",
    )
    max_files: int = Field(
        default=4, ge=1, le=1000, description="Files kept, the newest ones; the rest are deleted."
    )
    tenant_salt: SecretStr | None = Field(
        default=None,
        description="Secret that the hashes of tenants' names are made with; the same one on all "
        "gateways makes their traces comparable. Default: made up at the start.",
    )
