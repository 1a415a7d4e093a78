"""Whose batch a device takes next, where several gateways or models want it."""

from collections.abc import Iterable
from dataclasses import dataclass

from headway.worker.batch import PendingBatch, Turn

_EVEN = 4
"""A lead below this part of a batch is none: whoever does not execute now goes first."""


@dataclass(slots=True)
class _Place:
    start_ns: int
    charged_ns: int


class Turns:
    """Deals out one device's time evenly to those who want it.

    Each turn is charged for the device time its batches take; whoever was idle begins where the
    one that executes began, so nobody saves up. Who is turned away waits in line to be called.
    O(1) for each batch but for what looks at those that wait: at most one for each asker.

    Source: Goyal, Vin, Cheng, "Start-time fair queuing", IEEE/ACM ToN 5(5), 1997, with equal
    weights.
    """

    def __init__(self) -> None:
        self._virtual_ns = 0
        self._places: dict[PendingBatch, _Place] = {}
        self._executing: PendingBatch | None = None
        self._away: dict[Turn, None] = {}

    def enter(self, batch: PendingBatch, expected_ns: int) -> None:
        """A batch was taken in hand; its turn is charged what it is expected to take."""
        place = _Place(self._start_ns(batch.turn), max(expected_ns, 1))
        self._places[batch] = place
        batch.turn.finish_ns = place.start_ns + place.charged_ns
        self._away.pop(batch.turn, None)

    def begin(self, batch: PendingBatch) -> None:
        """A batch begins to execute."""
        self._executing = batch
        place = self._places[batch]
        # Less the lead that counts as even, or whoever is behind by it would lose it.
        start_ns = place.start_ns - place.charged_ns // _EVEN
        self._virtual_ns = max(self._virtual_ns, start_ns)

    def leave(self, batch: PendingBatch, used_ns: int = 0) -> None:
        """A batch has ended: its turn is charged what it took, nothing if it was not executed."""
        place = self._places.pop(batch)
        batch.turn.finish_ns += used_ns - place.charged_ns
        if batch is self._executing:
            self._executing = None

    def displaced_by(
        self, batch: PendingBatch, waiting: Iterable[PendingBatch]
    ) -> PendingBatch | None:
        """The waiting batch that gives way to a new one whose turn comes before; None if none.

        O(waiting).
        """
        places = ((self._key(each.turn, self._places[each].start_ns), each) for each in waiting)
        last, victim = max(places, key=lambda place: place[0], default=(0, None))
        return victim if self._key(batch.turn, self._start_ns(batch.turn)) < last else None

    def turn_away(self, turn: Turn, until_ns: int) -> None:
        """Whoever had no room stands in line, and was told to come back at an instant."""
        turn.told_at = until_ns
        self._away[turn] = None

    def call_all(self, now_ns: int) -> None:
        """There is room: everybody in line hears of it."""
        away, self._away = self._away, {}
        for turn in away:
            turn.told_at = now_ns
            turn.call(0)

    def call_before(self, batch: PendingBatch, free_in_ns: int, now_ns: int) -> None:
        """Calls whoever in line comes before a batch that waits to follow what executes.

        It was sent just before that ends, so that one that is sent now comes in time as well.
        O(line).
        """
        place = self._key(batch.turn, self._places[batch].start_ns)
        line = ((self._key(turn, self._start_ns(turn)), turn) for turn in self._away)
        first, turn = min(line, key=lambda entry: entry[0], default=(place, None))
        if turn is not None and first < place:
            del self._away[turn]
            turn.told_at = now_ns + free_in_ns
            turn.call(free_in_ns)

    def forget(self, turn: Turn) -> None:
        """Whoever asked is gone."""
        self._away.pop(turn, None)

    def _start_ns(self, turn: Turn) -> int:
        return max(self._virtual_ns, turn.finish_ns)

    def _key(self, turn: Turn, start_ns: int) -> int:
        """Its start, later for whoever executes now."""
        executing = self._executing
        if executing is None or executing.turn is not turn:
            return start_ns
        return start_ns + self._places[executing].charged_ns // _EVEN
