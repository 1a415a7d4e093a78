"""Which replicas of a generative model version have a lane free, and memory for how much."""

from bisect import bisect_left, insort

from headway._core import ReplicaCondition, Rng
from headway.gateway.stream_replica import StreamReplica

READY = ReplicaCondition.READY


class OpenLanes:
    """Replicas that take work, in the order of their free memory.

    Those with memory for a request are the end of a sorted list, so that two of them are drawn
    without looking at the others: O(log n), whatever the size of the fleet. A change moves eight
    bytes for each replica behind it, which is 2 us among 10,000.
    """

    def __init__(self) -> None:
        # (free units, -handle): from the end, most memory first, then in order of arrival.
        self._order: list[tuple[int, int]] = []
        self._listed: dict[int, tuple[StreamReplica, tuple[int, int]]] = {}

    def __len__(self) -> int:
        """Replicas with a lane."""
        return len(self._order)

    def note(self, replica: StreamReplica) -> None:
        """Puts a replica where it belongs now: after each change of what it takes."""
        handle = replica.replica.handle
        place = (replica.free_units, -handle)
        known = self._listed.get(handle)
        is_open = replica.has_lane() and replica.replica.condition == READY
        if known is not None:
            if is_open and known[1] == place:
                return
            self.forget(handle)
        if is_open:
            insort(self._order, place)
            self._listed[handle] = replica, place

    def forget(self, handle: int) -> None:
        """Takes a replica out; does nothing if it is not in."""
        known = self._listed.pop(handle, None)
        if known is not None:
            del self._order[bisect_left(self._order, known[1])]

    def takes(self, handle: int, units: int) -> bool:
        """Whether a replica has a lane, and memory for so many units."""
        known = self._listed.get(handle)
        return known is not None and units <= known[1][0]

    def two_for(self, units: int, rng: Rng) -> list[StreamReplica]:
        """Two distinct ones at random of those that would take so many units; fewer if so few."""
        first = bisect_left(self._order, (units, -(1 << 64)))
        fitting = len(self._order) - first
        if fitting <= 2:
            return [self._at(place) for place in reversed(range(first, len(self._order)))]
        one = rng.below(fitting)
        two = rng.below(fitting - 1)
        return [self._at(first + one), self._at(first + two + (two >= one))]

    def _at(self, place: int) -> StreamReplica:
        return self._listed[-self._order[place][1]][0]
