"""One generative model version: what serves it, how quick it is, and who goes where."""

from dataclasses import dataclass, field
from typing import NamedTuple

from headway._core import ReplicaCondition, ReplicaSpeeds, Rng
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


class _Noted(NamedTuple):
    """What the indexes hold of a replica."""

    lanes: int
    wait_ns: int
    gap_ns: float


_UNREADY = _Noted(0, 0, 0.0)


@dataclass(slots=True)
class StreamPool:
    """Replicas and what is learned of them; who waits is for the scheduler to order.

    Attributes:
      replicas: by handle; whoever changes what one takes or holds says so with `note`.
      num_lanes: lanes of those that take work.
    """

    forecast: StreamForecast = field(default_factory=StreamForecast)
    affinity: PrefixAffinity = field(default_factory=PrefixAffinity)
    replicas: dict[int, StreamReplica] = field(default_factory=dict)
    lanes: OpenLanes = field(default_factory=OpenLanes)
    num_lanes: int = 0
    _speeds: ReplicaSpeeds = field(default_factory=ReplicaSpeeds)
    _noted: dict[int, _Noted] = field(default_factory=dict)
    _busy: set[int] = field(default_factory=set)

    def note(self, replica: StreamReplica) -> None:
        """A replica came, or takes or holds more or less than before. O(log n) comparisons."""
        handle = replica.replica.handle
        self.replicas[handle] = replica
        self.lanes.note(replica)
        is_ready = replica.replica.condition == READY
        noted = _UNREADY
        if is_ready:
            noted = _Noted(replica.total_lanes, replica.first_token_wait_ns, replica.gap_ns)
        self._note(handle, noted)
        if is_ready and replica.inflight:
            self._busy.add(handle)
        else:
            self._busy.discard(handle)

    def forget(self, handle: int) -> None:
        """A replica is gone."""
        del self.replicas[handle]
        self.lanes.forget(handle)
        self._note(handle, _UNREADY)
        self._noted.pop(handle, None)
        self._busy.discard(handle)

    def _note(self, handle: int, noted: _Noted) -> None:
        before = self._noted.get(handle, _UNREADY)
        if noted == before:
            return
        self._noted[handle] = noted
        self.num_lanes += noted.lanes - before.lanes
        if noted is _UNREADY:
            self._speeds.remove(handle)
        else:
            self._speeds.set(handle, noted.wait_ns, noted.gap_ns)

    def occupy(self, stream: PendingStream, replica: StreamReplica) -> None:
        """Gives a request a lane and memory of a replica, until the worker says more."""
        replica.free_lanes -= 1
        replica.free_units -= stream.units + stream.budget
        replica.inflight[stream.stream_id] = stream
        self.affinity.note(stream.blocks, replica.replica.handle)
        self.note(replica)

    def release(self, stream: PendingStream, replica: StreamReplica) -> None:
        """A request is no longer on a replica; its lane is free once the worker says so."""
        replica.inflight.pop(stream.stream_id, None)
        if replica.replica.handle in self.replicas:
            self.note(replica)

    def is_open(self) -> bool:
        """Whether some replica has a lane."""
        return len(self.lanes) > 0

    def quickest(
        self, now_ns: int, units: int, output_units: float
    ) -> tuple[float, float, float] | None:
        """(ns from a lane to the first unit, to the last, least of all) where it is quickest.

        None where nothing may be refused for it: evidence that has gone stale, or a fleet with
        nothing to do. The same work whatever the size of the fleet.
        """
        if not self.forecast.is_fresh(now_ns) or not self._busy:
            return None
        return self.forecast.quickest(self._speeds, units, output_units)

    def describe(self, waiting: int, wait_ns: int) -> control_pb2.StreamPoolState:
        """What operators are shown; `wait_ns` for the lane of one more, as the core has it."""
        ready = [each for each in self.replicas.values() if each.replica.condition == READY]
        if not waiting and self.is_open():
            wait_ns = 0
        return control_pb2.StreamPoolState(
            waiting=waiting,
            writing=sum(len(each.inflight) for each in self.replicas.values()),
            free_lanes=sum(each.free_lanes for each in ready),
            total_lanes=sum(each.total_lanes for each in ready),
            free_kv_units=sum(each.free_units for each in ready),
            total_kv_units=sum(each.total_units for each in ready),
            expected_output_units=self.forecast.lengths.expected(budget=LONGEST_OUTPUT),
            lane_wait=duration_from_ns(wait_ns),
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
