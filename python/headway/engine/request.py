"""A request to the engine, and how it hears of its output."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from headway.engine.sampling import Sampling


@dataclass(frozen=True, slots=True)
class Targets:
    """What a request wants by when; each moves its price as its slack vanishes.

    Attributes:
      first_token_at_ns: when its first token is due; None where that does not matter.
      completion_at_ns: when its last token is due. Past it, it is given up.
      gap_ns: longest wanted time between two deliveries.
      wanted_by_ns: when its last token is wanted; past it, it goes on.
    """

    first_token_at_ns: int | None = None
    completion_at_ns: int | None = None
    gap_ns: int | None = None
    wanted_by_ns: int | None = None

    @property
    def priced_completion_ns(self) -> int | None:
        """The completion that moves its price: the earlier of the wanted one and the deadline."""
        ends = [at for at in (self.wanted_by_ns, self.completion_at_ns) if at is not None]
        return min(ends, default=None)


GREEDY = Sampling()
NO_TARGETS = Targets()


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One output to write.

    Attributes:
      prompt: at least one token.
      output_limit: most output tokens, >= 1.
      sampling: how they are drawn.
      stops: texts that end the output.
      targets: its deadlines.
      weight: multiplies all its prices, > 0.
      arrived_at_ns: when waiting for it began.
      request_id: its name, for traces.
    """

    prompt: Sequence[int]
    output_limit: int
    sampling: Sampling = GREEDY
    stops: Sequence[str] = ()
    targets: Targets = NO_TARGETS
    weight: float = 1.0
    arrived_at_ns: int = 0
    request_id: str = ""


class Finish(Enum):
    """Why an output ended."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Ending:
    """How an output ended.

    Attributes:
      prompt_tokens: of the request.
      reused_tokens: those that were found in memory.
      output_tokens: those written, without the one that says the end.
      device_ns: time of the steps it was in; the steps were shared.
      error: what went wrong, for FAILED.
    """

    finish: Finish
    prompt_tokens: int
    reused_tokens: int
    output_tokens: int
    device_ns: int
    error: str = ""


class OutputListener(Protocol):
    """Who a lane's output goes to. Must not block, and must not raise."""

    def on_output(self, text: str, token_ids: Sequence[int], logprobs: Sequence[float]) -> None:
        """More output; the text may lag behind the tokens, where a character is not all there."""
        ...

    def on_end(self, ending: Ending) -> None:
        """The end; nothing follows. Never called for a lane that its owner cancelled."""
        ...
