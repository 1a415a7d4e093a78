"""A replica that writes, as the gateway sees it: what it says, and what is learned of it."""

from headway.gateway.replica import Replica
from headway.gateway.stream_request import PendingStream
from headway.v1 import worker_pb2

PRIOR_GAP_NS = 100_000_000.0
WEIGHT = 0.1


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

    def take_note(self, capacity: worker_pb2.Capacity) -> None:
        """The worker said what it can take.

        By model; a worker of one model that says no more than totals means it.
        """
        handle = self.replica.wire_handle
        mine = next((each for each in capacity.models if each.handle == handle), None)
        said = mine or capacity
        self.free_lanes = said.free_lanes
        self.free_units = said.free_kv_units
        self.first_token_wait_ns = said.first_token_wait_ns
        self.total_lanes = mine.total_lanes if mine else max(self.total_lanes, said.free_lanes)
        self.total_units = mine.total_kv_units if mine else max(self.total_units, self.free_units)
        self.draining = capacity.draining

    def has_lane(self) -> bool:
        """Whether it takes an output now, memory apart."""
        return self.free_lanes > 0 and not self.draining

    def would_take(self, units: int) -> bool:
        """Whether it has a lane and memory for so many units now."""
        return self.has_lane() and units <= self.free_units

    def learn_gap(self, output_units: int, writing_ns: int) -> None:
        """An output took so long from its first to its last unit."""
        if output_units < 2:
            return
        weight = max(WEIGHT, 1 / (self.num_gaps + 1))
        self.gap_ns += weight * (writing_ns / (output_units - 1) - self.gap_ns)
        # Where all units come in one message no time is seen between them; others divide by it.
        self.gap_ns = max(1.0, self.gap_ns)
        self.num_gaps += 1
