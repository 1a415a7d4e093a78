"""What the engine asks of a device that runs a generative model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headway.engine.frame import Completion, Frame, GraphShape
from headway.engine.sampling import Sampling


@dataclass(frozen=True, slots=True)
class ExecutorLimits:
    """What a device has room for.

    Attributes:
      num_slots: lanes at once.
      kv_tokens: tokens over all lanes, what is kept for reuse included.
      context: tokens in one lane, prompt and output.
    """

    num_slots: int
    kv_tokens: int
    context: int


@dataclass(frozen=True, slots=True)
class LaneOpening:
    """A lane that begins.

    Attributes:
      slot: its memory, free until now.
      num_tokens: the most that it will hold.
      prompt: its tokens.
      source: slot whose first `reused` tokens are the prompt's; -1 for none.
      reused: tokens to take from there.
      output_limit: most output tokens.
      sampling: how they are drawn.
    """

    slot: int
    num_tokens: int
    prompt: Sequence[int]
    source: int
    reused: int
    output_limit: int
    sampling: Sampling


class Vocabulary(Protocol):
    """Text to tokens and back."""

    @property
    def size(self) -> int:
        """Number of tokens."""
        ...

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that end an output."""
        ...

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, as the user's turn where the model is one for chats."""
        ...

    def piece(self, token: int) -> bytes:
        """Bytes of a token; b"" for those that stand for none."""
        ...


class Executor(Protocol):
    """A device with one queue. What it is told happens in the order in which it was told.

    Called on one event loop (or thread), on which it calls back; it never calls back from
    within a call.
    """

    @property
    def catalogue(self) -> Sequence[GraphShape]:
        """Its prepared graphs, in the order that breaks ties."""
        ...

    @property
    def limits(self) -> ExecutorLimits:
        """What it has room for."""
        ...

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens."""
        ...

    @property
    def measured_ns(self) -> Sequence[int]:
        """Device time of each graph as measured before it serves; 0 for those that were not."""
        ...

    def full_ns(self, frame: Frame, completion: Completion) -> int:
        """What a completed frame would have taken with all of its graph's room in use.

        Its device time where contents do not matter. Where they do, a graph that was half empty
        would seem cheap for what it holds, and the rates read off the catalogue too high.
        """
        ...

    def open(self, lane: LaneOpening) -> None:
        """Begins a lane."""
        ...

    def release(self, slot: int) -> None:
        """Frees a slot's memory; what it held is gone."""
        ...

    def submit(self, frame: Frame, done: Callable[[Completion], None]) -> None:
        """Runs a frame after those before it; `done` hears of its end, once, in order."""
        ...

    async def close(self) -> None:
        """Stops; frames in hand may or may not end."""
        ...
