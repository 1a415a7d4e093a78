"""One generative model version: what waits for it, what serves it, and who goes where."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from headway._core import ReplicaCondition, Rng
from headway.gateway.open_lanes import OpenLanes
from headway.gateway.stream_affinity import PrefixAffinity
from headway.gateway.stream_forecast import StreamForecast
from headway.gateway.stream_replica import StreamReplica
from headway.gateway.stream_request import PendingStream
from headway.rpc.convert import duration_from_ns
from headway.v1 import control_pb2

READY = ReplicaCondition.READY
LONGEST_OUTPUT = 1 << 20
"""No budget: the expectation shown is of what the model writes by itself."""


@dataclass(slots=True)
class StreamPool:
    """Queue, replicas and what is learned; the queue is bounded by who fills it.

    Attributes:
      queue: in the order in which they begin.
      replicas: by handle; whoever changes what one takes says so with `note`.
    """

    forecast: StreamForecast = field(default_factory=StreamForecast)
    affinity: PrefixAffinity = field(default_factory=PrefixAffinity)
    queue: list[PendingStream] = field(default_factory=list)
    replicas: dict[int, StreamReplica] = field(default_factory=dict)
    lanes: OpenLanes = field(default_factory=OpenLanes)

    def enqueue(self, stream: PendingStream) -> None:
        """Puts a request at its place."""
        insort(self.queue, stream, key=lambda each: each.order)

    def dequeue(self, stream: PendingStream) -> None:
        """Takes a queued request out. O(log n) comparisons."""
        del self.queue[bisect_left(self.queue, stream.order, key=lambda each: each.order)]

    def note(self, replica: StreamReplica) -> None:
        """A replica came, or takes more or less than before. O(log n) comparisons."""
        self.replicas[replica.replica.handle] = replica
        self.lanes.note(replica)

    def forget(self, handle: int) -> None:
        """A replica is gone."""
        del self.replicas[handle]
        self.lanes.forget(handle)

    def occupy(self, stream: PendingStream, replica: StreamReplica) -> None:
        """Gives a request a lane and memory of a replica, until the worker says more."""
        replica.free_lanes -= 1
        replica.free_units -= stream.units + stream.budget
        replica.inflight[stream.stream_id] = stream
        self.affinity.note(stream.blocks, replica.replica.handle)
        self.lanes.note(replica)

    def ready_replicas(self) -> Iterator[StreamReplica]:
        """Those that take work, one after the other: who finds enough need not see them all."""
        return (each for each in self.replicas.values() if each.replica.condition == READY)

    def lane_ns(self, now_ns: int) -> int:
        """Wait for a lane of one that comes now. O(1) while there is one and nobody waits."""
        if not self.queue and len(self.lanes):
            return 0
        return self.forecast.lane_ns(now_ns, self.ready_replicas(), len(self.queue))

    def times(self, units: int, budget: int) -> Iterator[tuple[int, int]]:
        """Time to the first unit, and from there to the last, on each replica that takes work."""
        return self.forecast.times(self.ready_replicas(), units, budget)

    def describe(self, now_ns: int) -> control_pb2.StreamPoolState:
        """What operators are shown."""
        ready = list(self.ready_replicas())
        return control_pb2.StreamPoolState(
            waiting=len(self.queue),
            writing=sum(len(each.inflight) for each in self.replicas.values()),
            free_lanes=sum(each.free_lanes for each in ready),
            total_lanes=sum(each.total_lanes for each in ready),
            free_kv_units=sum(each.free_units for each in ready),
            total_kv_units=sum(each.total_units for each in ready),
            expected_output_units=self.forecast.lengths.expected(budget=LONGEST_OUTPUT),
            lane_wait=duration_from_ns(self.lane_ns(now_ns)),
        )

    def choose(self, stream: PendingStream, rng: Rng) -> StreamReplica | None:
        """The better of two, by predicted first unit; what is remembered there is taken off.

        None if no replica has a lane and memory for it now. O(log n) in the replicas.

        Source: Mitzenmacher, "The power of two choices in randomized load balancing", IEEE TPDS
        12(10), 2001.
        """
        needed = stream.units + stream.budget
        sampled = self.lanes.two_for(needed, rng)
        if not sampled:
            return None
        known, common = self.affinity.find(stream.blocks)
        if self.lanes.takes(known, needed):
            sampled.append(self.replicas[known])

        def wait_ns(replica: StreamReplica) -> float:
            units = stream.units
            if replica.replica.handle == known:
                # Bounded: at least a tenth of the prompt is taken to be new.
                share = common / max(common, stream.request.input.ByteSize())
                units = max(units // 10, round(units * (1 - share)))
            return self.forecast.first_ns(replica, units)

        return min(sampled, key=wait_ns)
