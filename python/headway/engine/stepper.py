"""Runs frames on a token model: chunks, drafts and their verification, one forward pass each.

This is the device's side. The next step of a lane starts from its last token, which is known
here first; so a frame can be submitted before the one ahead of it has ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headway.engine import drafts
from headway.engine.executor import LaneOpening
from headway.engine.frame import DecodeRow, Frame, PrefillRow, RowOutcome
from headway.engine.sampling import Logits, Sampler


@dataclass(frozen=True, slots=True)
class ModelRow:
    """Consecutive tokens of one lane.

    Attributes:
      slot: its memory.
      start: position of the first, the number of tokens in memory before them.
      tokens: at least one.
      num_logits: how many of the last positions' logits are wanted.
    """

    slot: int
    start: int
    tokens: Sequence[int]
    num_logits: int


class TokenModel(Protocol):
    """A transformer with one key-value memory for each slot. Not thread-safe."""

    def reserve(self, slot: int, num_tokens: int, source: int, reused: int) -> None:
        """Makes room in a slot, beginning with `reused` tokens of `source` (which may be it)."""
        ...

    def truncate(self, slot: int, num_tokens: int) -> None:
        """Forgets what a slot holds beyond so many tokens."""
        ...

    def release(self, slot: int) -> None:
        """Forgets a slot."""
        ...

    def forward(self, rows: Sequence[ModelRow]) -> Sequence[Sequence[Logits]]:
        """One pass over all rows; for each, the logits it wants, in order of position."""
        ...


@dataclass(slots=True)
class _Lane:
    # The prompt, then the output. What memory holds of it ends before its last output token.
    tokens: list[int]
    prompt_length: int
    length: int
    limit: int
    sampler: Sampler
    ended: bool = False

    @property
    def output_left(self) -> int:
        return self.limit - (len(self.tokens) - self.prompt_length)


class Stepper:
    """The lanes of one model, from opening to release."""

    def __init__(self, model: TokenModel, ends: frozenset[int]) -> None:
        """`ends`: tokens after which nothing is decoded."""
        self._model = model
        self._ends = ends
        self._lanes: dict[int, _Lane] = {}

    def open(self, opening: LaneOpening) -> None:
        """Begins a lane."""
        self._model.reserve(opening.slot, opening.num_tokens, opening.source, opening.reused)
        self._lanes[opening.slot] = _Lane(
            tokens=list(opening.prompt),
            prompt_length=len(opening.prompt),
            length=opening.reused,
            limit=opening.output_limit,
            sampler=Sampler(opening.sampling),
        )

    def release(self, slot: int) -> None:
        """Frees a slot."""
        self._lanes.pop(slot, None)
        self._model.release(slot)

    def run(self, frame: Frame) -> list[RowOutcome]:
        """Runs a frame; one outcome a row."""
        decode = [(row, self._drafts(row)) for row in frame.decode if self._goes_on(row)]
        rows = [self._chunk(row) for row in frame.prefill]
        rows += [self._verification(row.slot, drafted) for row, drafted in decode]
        logits = self._model.forward(rows) if rows else []
        chunks = len(frame.prefill)
        outcomes = [self._end_chunk(row, logits[index]) for index, row in enumerate(frame.prefill)]
        outcomes += [
            self._verify(row.slot, drafted, logits[chunks + index])
            for index, (row, drafted) in enumerate(decode)
        ]
        going = {row.slot for row, _ in decode}
        outcomes += [RowOutcome(row.slot) for row in frame.decode if row.slot not in going]
        return outcomes

    def _goes_on(self, row: DecodeRow) -> bool:
        lane = self._lanes[row.slot]
        return not lane.ended and lane.output_left > 0

    def _drafts(self, row: DecodeRow) -> list[int]:
        lane = self._lanes[row.slot]
        return drafts.propose(lane.tokens, min(row.width, lane.output_left) - 1)

    def _chunk(self, row: PrefillRow) -> ModelRow:
        lane = self._lanes[row.slot]
        tokens = lane.tokens[lane.length : lane.length + row.num_tokens]
        return ModelRow(row.slot, lane.length, tokens, num_logits=int(row.completes))

    def _verification(self, slot: int, drafted: Sequence[int]) -> ModelRow:
        lane = self._lanes[slot]
        tokens = [lane.tokens[-1], *drafted]
        return ModelRow(slot, lane.length, tokens, num_logits=len(tokens))

    def _end_chunk(self, row: PrefillRow, logits: Sequence[Logits]) -> RowOutcome:
        lane = self._lanes[row.slot]
        lane.length += row.num_tokens
        if not row.completes:
            return RowOutcome(row.slot)
        token, logprob = self._draw(lane, logits[0])
        return RowOutcome(row.slot, (token,), (logprob,))

    def _verify(self, slot: int, drafted: Sequence[int], logits: Sequence[Logits]) -> RowOutcome:
        """Draws as if the drafts were not there, until one of them is wrong.

        The draw at a position is the model's own, so a draft changes when tokens come, never
        which: also where they are drawn at random.
        """
        lane = self._lanes[slot]
        tokens, logprobs, accepted = [], [], 0
        for index, each in enumerate(logits):
            token, logprob = self._draw(lane, each)
            tokens.append(token)
            logprobs.append(logprob)
            if lane.ended or index == len(drafted) or drafted[index] != token:
                break
            accepted += 1
        lane.length += len(tokens)
        if len(tokens) <= len(drafted):
            self._model.truncate(slot, lane.length)
        return RowOutcome(slot, tuple(tokens), tuple(logprobs), len(drafted), accepted)

    def _draw(self, lane: _Lane, logits: Logits) -> tuple[int, float]:
        token, logprob = lane.sampler.draw(logits)
        lane.tokens.append(token)
        lane.ended = token in self._ends
        return token, logprob
