"""Where lanes keep their keys and values, and what is kept of them after they end."""

from collections.abc import Sequence
from dataclasses import dataclass, field

SHORTEST_REUSE = 16
"""Tokens; a shorter common beginning is not worth a copy."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a request goes.

    Attributes:
      slot: its memory.
      source: slot that holds the beginning of its prompt; -1 if none does.
      reused: tokens of that beginning, fewer than the prompt has.
    """

    slot: int
    source: int
    reused: int


@dataclass(slots=True)
class _Slot:
    occupied: bool = False
    reserved: int = 0
    tokens: list[int] = field(default_factory=list)
    used_at: int = 0


class SlotMemory:
    """Slots under one budget of tokens.

    A lane reserves its prompt and its whole output, so that no lane is ever put out for another.
    What an ended lane leaves stays for prompts that begin alike, until the room is needed; the
    least recently used goes first.
    """

    def __init__(self, num_slots: int, num_tokens: int) -> None:
        """`num_slots`: lanes at once. `num_tokens`: the budget, over all slots."""
        self._slots = [_Slot() for _ in range(num_slots)]
        self._budget = num_tokens
        self._ticks = 0

    @property
    def free_slots(self) -> int:
        """Slots without a lane."""
        return sum(not slot.occupied for slot in self._slots)

    @property
    def free_tokens(self) -> int:
        """Budget that lanes do not hold; what is kept for reuse counts as free."""
        return self._budget - sum(slot.reserved for slot in self._slots if slot.occupied)

    def fits(self, num_tokens: int) -> bool:
        """Whether a lane of so many tokens, prompt and output, would be placed now."""
        return self.free_slots > 0 and num_tokens <= self.free_tokens

    def place(self, prompt: Sequence[int], num_tokens: int) -> Placement | None:
        """Takes a slot for a prompt and its output; None if there is no room. O(slots * prompt).

        `num_tokens`: the most that it will hold.
        """
        if not self.fits(num_tokens):
            return None
        source, reused = self._longest_match(prompt)
        slot = self._choose(source)
        self._ticks += 1
        taken = self._slots[slot]
        taken.occupied, taken.reserved, taken.used_at = True, num_tokens, self._ticks
        taken.tokens = list(prompt[:reused])
        if source >= 0:
            self._slots[source].used_at = self._ticks
        return Placement(slot, source, reused)

    def evicted(self) -> list[int]:
        """Takes back what is kept, oldest first, until the budget holds; its slots."""
        over = sum(slot.reserved for slot in self._slots) - self._budget
        evicted = []
        kept = [i for i, slot in enumerate(self._slots) if not slot.occupied and slot.reserved]
        for index in sorted(kept, key=lambda i: self._slots[i].used_at):
            if over <= 0:
                break
            over -= self._slots[index].reserved
            self._slots[index] = _Slot()
            evicted.append(index)
        return evicted

    def extend(self, slot: int, tokens: Sequence[int]) -> None:
        """Notes what an occupied slot holds besides, in order."""
        self._slots[slot].tokens.extend(tokens)

    def vacate(self, slot: int, *, keep: bool) -> None:
        """The lane is gone; what it holds is kept for reuse, or not."""
        left = self._slots[slot]
        if keep and len(left.tokens) >= SHORTEST_REUSE:
            left.occupied = False
            left.reserved = len(left.tokens)
        else:
            self._slots[slot] = _Slot()

    def _longest_match(self, prompt: Sequence[int]) -> tuple[int, int]:
        best, best_length = -1, SHORTEST_REUSE - 1
        for index, slot in enumerate(self._slots):
            length = min(common_prefix(slot.tokens, prompt), len(prompt) - 1)
            if length > best_length:
                best, best_length = index, length
        return (best, best_length) if best >= 0 else (-1, 0)

    def _choose(self, source: int) -> int:
        """An empty slot, else the least recently used; the source itself only as the last one.

        Copying leaves the source to serve the next prompt that begins alike.
        """
        free = [i for i, slot in enumerate(self._slots) if not slot.occupied]
        return min(free, key=lambda i: (i == source, self._slots[i].used_at, i))


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the common beginning; by bisection over slices, which compare in C."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if list(first[low:middle]) == list(second[low:middle]):
            low = middle
        else:
            high = middle - 1
    return low
