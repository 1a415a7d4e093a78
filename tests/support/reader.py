"""A reader of the engine's output."""

from collections.abc import Sequence

from headway.engine.request import Ending


class Reader:
    def __init__(self) -> None:
        self.text = ""
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.ending: Ending | None = None
        self.num_outputs = 0

    def on_output(self, text: str, token_ids: Sequence[int], logprobs: Sequence[float]) -> None:
        assert self.ending is None
        self.text += text
        self.tokens.extend(token_ids)
        self.logprobs.extend(logprobs)
        self.num_outputs += 1

    def on_end(self, ending: Ending) -> None:
        assert self.ending is None
        self.ending = ending
