"""A replica that writes, as the gateway sees it: what it says, and what is learned of it."""

from headway.gateway.replica import Replica
from headway.gateway.stream_request import PendingStream
from headway.v1 import worker_pb2

PRIOR_GAP_NS = 100_000_000.0
WEIGHT = 0.1
MOST_NS = 1 << 62
"""Longest time that the core takes; a worker may say anything."""

_MOST_LANES = 1e6


class StreamReplica:
    """Lanes, memory and speed of one replica.

    Its lanes are the worker's word: other gateways use them too. What was dispatched since that
    word is taken off; where it was too much, the worker says busy, which costs a message.
    """

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.free_lanes = 0
        self.free_units = 0
        self.total_lanes = 0
        self.total_units = 0
        self.first_token_wait_ns = 0
        self.draining = False
        self.inflight: dict[int, PendingStream] = {}
        self.gap_ns = PRIOR_GAP_NS
        self.num_gaps = 0
        # By the doublings of the lanes in use.
        self._gaps_in_company: dict[int, float] = {}

    def take_note(self, capacity: worker_pb2.Capacity) -> None:
        """The worker said what it can take.

        By model; a worker of one model that says no more than totals means it.
        """
        handle = self.replica.wire_handle
        mine = next((each for each in capacity.models if each.handle == handle), None)
        said = mine or capacity
        self.free_lanes = said.free_lanes
        self.free_units = said.free_kv_units
        self.first_token_wait_ns = min(max(0, said.first_token_wait_ns), MOST_NS)
        lanes = mine.total_lanes if mine else max(self.total_lanes, said.free_lanes)
        self.total_lanes = max(0, lanes)
        self.total_units = mine.total_kv_units if mine else max(self.total_units, self.free_units)
        self.draining = capacity.draining

    def has_lane(self) -> bool:
        """Whether it takes an output now, memory apart."""
        return self.free_lanes > 0 and not self.draining

    def would_take(self, units: int) -> bool:
        """Whether it has a lane and memory for so many units now."""
        return self.has_lane() and units <= self.free_units

    @property
    def company(self) -> int:
        """Lanes in use, of all gateways, by the worker's word and what was sent since; >= 1."""
        return max(1, self.total_lanes - self.free_lanes)

    def size_of(self, units: int) -> float:
        """Lanes that so much memory would be enough for, >= 1; 1 where the worker says nothing."""
        if self.total_units <= 0:
            return 1.0
        return min(max(1.0, units * self.total_lanes / self.total_units), _MOST_LANES)

    def planned_ns(self, output_units: int, company: int) -> int:
        """Time from an output's first to its last unit, as usual in such company; 0 if unknown."""
        gap_ns = self._gaps_in_company.get(company.bit_length(), 0.0)
        return min(round(max(0, output_units - 1) * gap_ns), MOST_NS)

    def learn_company(self, output_units: int, writing_ns: int, company: int) -> None:
        """An output took so long from its first to its last unit, beside others in their lanes."""
        if output_units < 2:
            return
        level, gap_ns = company.bit_length(), writing_ns / (output_units - 1)
        known_ns = self._gaps_in_company.get(level, gap_ns)
        self._gaps_in_company[level] = known_ns + WEIGHT * (gap_ns - known_ns)

    def learn_gap(self, output_units: int, writing_ns: int) -> None:
        """An output took so long from its first to its last unit."""
        if output_units < 2:
            return
        weight = max(WEIGHT, 1 / (self.num_gaps + 1))
        self.gap_ns += weight * (writing_ns / (output_units - 1) - self.gap_ns)
        # Where all units come in one message no time is seen between them; others divide by it.
        self.gap_ns = max(1.0, self.gap_ns)
        self.num_gaps += 1
