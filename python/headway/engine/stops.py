"""From tokens to text: characters across token borders, and texts that end an output."""

import codecs
from collections.abc import Callable, Sequence

from headway.errors import RuntimeInputError

MOST_STOPS = 16
LONGEST_STOP = 256


class TextStream:
    """The text of one output.

    A character whose bytes are not all there is held back; so is an end that could be the
    beginning of a stop string. What is handed out is never taken back.
    """

    def __init__(self, piece: Callable[[int], bytes], stops: Sequence[str] = ()) -> None:
        """Makes the stream of an output that has not begun.

        Args:
          piece: bytes of a token.
          stops: texts that end the output; the output ends before the first of them.

        Raises:
          RuntimeInputError: too many stop strings, an empty one, or one that is too long.
        """
        _check(stops)
        self._piece = piece
        self._stops = tuple(stops)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.stopped = False

    def push(self, token: int) -> str:
        """Text that became certain with one more token; sets `stopped` where it ends here."""
        return self._advance(self._decoder.decode(self._piece(token)))

    def finish(self) -> str:
        """Text still held back, once no token follows. Empty after a stop string."""
        if self.stopped:
            return ""
        rest = self._advance(self._decoder.decode(b"", final=True))
        held, self._held = self._held, ""
        return rest if self.stopped else rest + held

    def _advance(self, text: str) -> str:
        if self.stopped:
            return ""
        self._held += text
        found = [at for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if found:
            self.stopped = True
            certain, self._held = self._held[: min(found)], ""
            return certain
        keep = max((_overlap(self._held, stop) for stop in self._stops), default=0)
        cut = len(self._held) - keep
        certain, self._held = self._held[:cut], self._held[cut:]
        return certain


def _overlap(text: str, stop: str) -> int:
    """Length of the longest proper beginning of `stop` that `text` ends with."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0


def _check(stops: Sequence[str]) -> None:
    if len(stops) > MOST_STOPS:
        raise RuntimeInputError(
            f"sampling.stop has {len(stops)} strings; give at most {MOST_STOPS}"
        )
    for index, stop in enumerate(stops):
        if not 0 < len(stop) <= LONGEST_STOP:
            raise RuntimeInputError(
                f"sampling.stop[{index}] has {len(stop)} characters; give 1 to {LONGEST_STOP}"
            )
