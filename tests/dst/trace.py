"""What happened in a run, in order: hashed always, printed when asked for."""

from collections.abc import Callable
from hashlib import blake2b


class Trace:
    """Lines with their instants."""

    def __init__(self, now_ns: Callable[[], int], show: Callable[[str], None] | None) -> None:
        self._now_ns = now_ns
        self._show = show
        self._hash = blake2b(digest_size=16)
        self.num_events = 0

    def add(self, *words: object) -> None:
        line = f"{self._now_ns() / 1e6:12.6f} ms  " + " ".join(map(str, words))
        self._hash.update(line.encode())
        self.num_events += 1
        if self._show is not None:
            self._show(line)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
