"""Beside plain models: who takes an output, and whose deadline is next."""

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway._core import ReplicaCondition, Rng
from headway.gateway.deadline_queue import DeadlineQueue
from headway.gateway.open_lanes import OpenLanes
from headway.gateway.stream_replica import StreamReplica
from headway.v1 import worker_pb2

READY, CONNECTING = ReplicaCondition.READY, ReplicaCondition.CONNECTING


def made(handle: int, lanes: int, units: int, *, ready: bool = True) -> StreamReplica:
    known = SimpleNamespace(handle=handle, wire_handle=0, condition=READY if ready else CONNECTING)
    replica = StreamReplica(cast(Any, known))
    replica.take_note(worker_pb2.Capacity(free_lanes=lanes, free_kv_units=units))
    return replica


changes = st.tuples(
    st.integers(0, 7),  # which replica
    st.integers(0, 2),  # lanes
    st.integers(0, 30),  # units
    st.booleans(),  # ready
    st.booleans(),  # draining
    st.booleans(),  # gone instead
)


@settings(max_examples=300)
@given(st.lists(changes, min_size=1, max_size=40), st.integers(0, 30), st.integers(0, 1 << 32))
def test_those_drawn_are_those_that_a_scan_finds(
    steps: list[tuple[int, int, int, bool, bool, bool]], wanted: int, seed: int
) -> None:
    index, rng = OpenLanes(), Rng(seed)
    fleet: dict[int, StreamReplica] = {}
    for handle, lanes, units, ready, draining, gone in steps:
        if gone:
            fleet.pop(handle, None)
            index.forget(handle)
        else:
            replica = fleet[handle] = made(handle, lanes, units, ready=ready)
            replica.draining = draining
            index.note(replica)
        scanned = {
            each.replica.handle
            for each in fleet.values()
            if each.replica.condition == READY and each.would_take(wanted)
        }
        drawn = [each.replica.handle for each in index.two_for(wanted, rng)]
        assert len(drawn) == len(set(drawn)) == min(2, len(scanned))
        assert set(drawn) <= scanned
        assert {handle for handle in range(8) if index.takes(handle, wanted)} == scanned


def test_each_pair_is_as_likely_as_any_other() -> None:
    # 20,000 draws of 20 ordered pairs: 1,000 each, standard deviation 31; five of them allowed.
    index, rng = OpenLanes(), Rng(7)
    for handle in range(8):
        index.note(made(handle, 1, 10 * handle))
    pairs = Counter(
        tuple(each.replica.handle for each in index.two_for(30, rng)) for _ in range(20_000)
    )
    assert set(pairs) == {(a, b) for a in range(3, 8) for b in range(3, 8) if a != b}
    assert all(count == pytest.approx(1_000, abs=155) for count in pairs.values())


deadlines = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(0, 50)),
        st.tuples(st.just("end"), st.integers(0, 200)),
        st.tuples(st.just("pass"), st.integers(0, 8)),
    ),
    max_size=300,
)


@settings(max_examples=300)
@given(deadlines)
def test_deadlines_come_as_from_a_sorted_list(steps: list[tuple[str, int]]) -> None:
    queue, now, following = DeadlineQueue(), 0, 0
    model: dict[int, int] = {}
    for kind, number in steps:
        if kind == "push":
            queue.push(now + number, following)
            model[following] = now + number
            following += 1
        elif kind == "end":
            queue.discard(number)
            model.pop(number, None)
        else:
            now += number
            due = sorted((at, each) for each, at in model.items() if at <= now)
            found = []
            while (request := queue.pop_due(now)) is not None:
                found.append((model.pop(request), request))
            assert found == due
        assert queue.next_ns() == min(model.values(), default=None)
        assert len(queue) == len(model)
