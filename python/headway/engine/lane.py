"""One request on the device: what it has got, what is in flight for it, and how it ends."""

from collections.abc import Sequence

from headway.engine.drafts import Acceptance
from headway.engine.executor import Vocabulary
from headway.engine.frame import RowOutcome
from headway.engine.request import Ending, Finish, GenerationRequest, OutputListener
from headway.engine.stops import TextStream


class EngineLane:
    """A lane from admission to the release of its slot.

    Its output ends once (`ending` is set); its slot stays until no frame in flight has it.
    """

    __slots__ = (
        "_listener", "_text", "acceptance", "admitted_at", "device_ns", "ending",
        "first_token_at", "handle", "num_frames", "output_tokens", "prompt_done",
        "prompt_submitted", "request", "reused", "slot",
    )  # fmt: skip

    def __init__(
        self,
        request: GenerationRequest,
        listener: OutputListener,
        vocabulary: Vocabulary,
        acceptance: Acceptance,
        *,
        handle: int,
        slot: int,
        reused: int,
        now_ns: int,
    ) -> None:
        """`reused`: prompt tokens that memory had already."""
        self.request = request
        self.acceptance = acceptance
        self.handle = handle
        self.slot = slot
        self.reused = reused
        self.admitted_at = now_ns
        self.first_token_at: int | None = None
        self.prompt_submitted = reused
        self.prompt_done = reused
        self.output_tokens = 0
        self.num_frames = 0
        self.device_ns = 0
        self.ending: Ending | None = None
        self._listener = listener
        self._text = TextStream(vocabulary.piece, request.stops)

    @property
    def prompt_left(self) -> int:
        """Prompt tokens that no completed frame has done."""
        return len(self.request.prompt) - self.prompt_done

    def take(self, outcome: RowOutcome, ends: frozenset[int], now_ns: int) -> list[int]:
        """Publishes a row's tokens, up to the end where one is among them; those it kept."""
        if self.ending is not None:
            return []
        if outcome.tokens and self.first_token_at is None:
            self.first_token_at = now_ns
        pieces: list[str] = []
        kept: list[int] = []
        logprobs: list[float] = []
        for index, token in enumerate(outcome.tokens):
            if token in ends:
                self._publish("".join(pieces), kept, logprobs)
                self.end(Finish.STOP)
                return kept
            kept.append(token)
            if self.request.sampling.logprobs:
                logprobs.append(outcome.logprobs[index])
            pieces.append(self._text.push(token))
            self.output_tokens += 1
            if self._text.stopped or self.output_tokens == self.request.output_limit:
                self._publish("".join(pieces), kept, logprobs)
                self.end(Finish.STOP if self._text.stopped else Finish.LENGTH)
                return kept
        self._publish("".join(pieces), kept, logprobs)
        return kept

    def end(self, finish: Finish, error: str = "") -> None:
        """Ends the output; its listener hears of it."""
        if self.ending is not None:
            return
        if rest := self._text.finish():
            self._listener.on_output(rest, (), ())
        self.ending = Ending(
            finish,
            prompt_tokens=len(self.request.prompt),
            reused_tokens=self.reused,
            output_tokens=self.output_tokens,
            device_ns=self.device_ns,
            error=error,
        )
        self._listener.on_end(self.ending)

    def cancel(self) -> None:
        """Ends the output without a word: its owner knows."""
        self.ending = Ending(
            Finish.CANCELLED, len(self.request.prompt), self.reused, self.output_tokens,
            self.device_ns,
        )  # fmt: skip

    def _publish(self, text: str, tokens: Sequence[int], logprobs: Sequence[float]) -> None:
        if text or tokens:
            self._listener.on_output(text, tokens, logprobs)
