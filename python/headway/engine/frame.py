"""What passes between the engine and a device: frames one way, completions the other."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class GraphShape:
    """A prepared execution, and what it has room for.

    Attributes:
      name: unique in its catalogue.
      prefill_tokens: prompt tokens it takes; 0 for a decode graph.
      prompt_rows: prompts that may share them; 0 for a decode graph.
      decode_rows: streams it decodes for; 0 for a prefill graph.
      width: positions verified a decode row, the certain one included; >= 1.
      feedback: whether the next submission always waits for its outcome.
    """

    name: str
    prefill_tokens: int = 0
    prompt_rows: int = 0
    decode_rows: int = 0
    width: int = 1
    feedback: bool = False


@dataclass(frozen=True, slots=True)
class PrefillRow:
    """A chunk of a prompt.

    Attributes:
      slot: where the lane's memory is.
      num_tokens: length of the chunk, >= 1; it follows what is in the slot.
      completes: True for the last chunk, which yields the first output token.
    """

    slot: int
    num_tokens: int
    completes: bool


@dataclass(frozen=True, slots=True)
class DecodeRow:
    """One decoding stream; at most `width` tokens come of it."""

    slot: int
    width: int


@dataclass(frozen=True, slots=True)
class Frame:
    """One submission. Every slot is in it at most once."""

    frame_id: int
    graph: int
    prefill: tuple[PrefillRow, ...]
    decode: tuple[DecodeRow, ...]

    @property
    def slots(self) -> list[int]:
        """Slots of its rows."""
        return [row.slot for row in self.prefill] + [row.slot for row in self.decode]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A likely token and its log-probability."""

    token: int
    logprob: float


@dataclass(frozen=True, slots=True)
class RowOutcome:
    """What a row yielded.

    Attributes:
      slot: as in the frame.
      tokens: output tokens in order; none for a chunk that does not complete its prompt, or for
        a lane that had ended before.
      logprobs: of each token, where the lane asked for it.
      num_drafted: drafts that were verified.
      num_accepted: those that were right, a prefix of the drafted.
    """

    slot: int
    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    num_drafted: int = 0
    num_accepted: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """A frame that ended.

    Attributes:
      device_ns: time the device worked on it; 0 where it cannot tell.
      error: why it failed as a whole; "" if it did not.
    """

    frame_id: int
    outcomes: Sequence[RowOutcome] = field(default=())
    device_ns: int = 0
    error: str = ""
