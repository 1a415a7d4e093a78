"""Which live request runs out of time first."""

from heapq import heapify, heappop, heappush

_MOST_STALE = 64
"""Entries of requests that have ended, kept at most beside as many as there are live ones."""


class DeadlineQueue:
    """Deadlines of live requests, the earliest first. Calls are O(log n), amortised.

    Whoever ends early is only struck out: its entry goes when its turn comes, or with all the
    others once they are more than half, so that memory is bounded by the live ones.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._live: dict[int, int] = {}

    def __len__(self) -> int:
        """Live requests."""
        return len(self._live)

    def push(self, deadline_ns: int, request: int) -> None:
        """Adds a request that is not in the queue."""
        self._live[request] = deadline_ns
        heappush(self._heap, (deadline_ns, request))

    def discard(self, request: int) -> None:
        """A request ended; does nothing if it is not in the queue."""
        self._live.pop(request, None)
        if len(self._heap) > 2 * len(self._live) + _MOST_STALE:
            self._heap = [(at_ns, each) for each, at_ns in self._live.items()]
            heapify(self._heap)

    def next_ns(self) -> int | None:
        """The earliest deadline; None without requests."""
        while self._heap and self._live.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ns: int) -> int | None:
        """Takes out the first request whose deadline is at or before now; None if none is."""
        first_ns = self.next_ns()
        if first_ns is None or first_ns > now_ns:
            return None
        request = heappop(self._heap)[1]
        del self._live[request]
        return request
