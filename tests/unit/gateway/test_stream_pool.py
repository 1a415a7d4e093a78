"""Which replica an output goes to."""

from types import SimpleNamespace
from typing import Any, cast

from headway._core import ReplicaCondition, Rng
from headway.gateway.stream_pool import StreamPool
from headway.gateway.stream_replica import StreamReplica
from headway.gateway.stream_request import PendingStream
from headway.v1 import inference_pb2, types_pb2, worker_pb2

MS = 1_000_000
READY, DRAINING = ReplicaCondition.READY, ReplicaCondition.DRAINING


def replica(handle: int, *, wait_ms: int, lanes: int = 1, units: int = 1_000) -> StreamReplica:
    known = SimpleNamespace(handle=handle, wire_handle=0, condition=READY)
    made = StreamReplica(cast(Any, known))
    said = worker_pb2.Capacity(
        free_lanes=lanes, free_kv_units=units, first_token_wait_ns=wait_ms * MS
    )
    made.take_note(said)
    return made


def output(number: int = 1, *, units: int = 100, blocks: tuple[int, ...] = ()) -> PendingStream:
    request = inference_pb2.InferRequest(input=types_pb2.Input(text="x" * 640))
    fields = SimpleNamespace(
        stream_id=number, units=units, budget=50, blocks=list(blocks), request=request,
        order=(2, 0, number),
    )  # fmt: skip
    return cast(PendingStream, fields)


def pool_of(*replicas: StreamReplica) -> StreamPool:
    pool = StreamPool()
    for each in replicas:
        pool.note(each)
    return pool


def chosen(pool: StreamPool, stream: PendingStream) -> int | None:
    found = pool.choose(stream, Rng(1))
    return None if found is None else found.replica.handle


def test_of_two_the_one_whose_first_unit_comes_sooner() -> None:
    assert chosen(pool_of(replica(1, wait_ms=30), replica(2, wait_ms=20)), output()) == 2


def test_a_lane_taken_is_gone_until_the_worker_says_more() -> None:
    soon, late = replica(1, wait_ms=20), replica(2, wait_ms=30)
    pool = pool_of(soon, late)
    pool.occupy(output(7), soon)
    assert chosen(pool, output()) == 2
    pool.occupy(output(8), late)
    assert chosen(pool, output()) is None
    soon.take_note(worker_pb2.Capacity(free_lanes=1, free_kv_units=150))
    pool.note(soon)
    assert chosen(pool, output()) == 1


def test_memory_for_prompt_and_budget_is_needed() -> None:
    pool = pool_of(replica(1, wait_ms=20, units=149), replica(2, wait_ms=90, units=150))
    assert chosen(pool, output(units=100)) == 2
    assert chosen(pool, output(units=101)) is None


def test_one_that_drains_or_left_gets_nothing() -> None:
    drains, leaves, stays = (replica(at, wait_ms=10 * at) for at in (1, 2, 3))
    pool = pool_of(drains, leaves, stays)
    drains.replica.condition = DRAINING
    pool.note(drains)
    pool.forget(2)
    assert chosen(pool, output()) == 3
    drains.replica.condition = READY
    pool.note(drains)
    assert chosen(pool, output()) == 1


def test_a_remembered_prompt_draws_its_replica_in_wherever_the_draw_fell() -> None:
    # Nine of ten blocks are known at the slow one, whose wait for a tenth of it is the shortest.
    pool = pool_of(replica(1, wait_ms=40), *(replica(at, wait_ms=39) for at in range(2, 40)))
    pool.affinity.note(list(range(9)), 1)
    asked = [pool.choose(output(blocks=tuple(range(10))), Rng(seed)) for seed in range(20)]
    assert {each.replica.handle for each in asked if each is not None} == {1}


def test_lanes_are_those_of_the_fleet_that_takes_work() -> None:
    one, two = (replica(at, wait_ms=10, lanes=3) for at in (1, 2))
    pool = pool_of(one, two)
    assert pool.num_lanes == 6
    two.replica.condition = DRAINING
    pool.note(two)
    assert pool.num_lanes == 3
    pool.forget(1)
    assert pool.num_lanes == 0


def test_an_output_is_worth_the_lanes_that_its_memory_would_be_enough_for() -> None:
    one = replica(1, wait_ms=10)
    assert one.size_of(1 << 40) > 1  # by its totals so far
    said = worker_pb2.ModelCapacity(total_lanes=4, total_kv_units=1_000, free_lanes=1)
    one.take_note(worker_pb2.Capacity(models=[said]))
    assert one.size_of(100) == 1
    assert one.size_of(500) == 2
    assert one.company == 3


def test_a_pace_is_compared_with_that_of_the_same_company() -> None:
    one = replica(1, wait_ms=10)
    assert one.planned_ns(11, company=1) == 0
    one.learn_company(11, 100 * MS, company=1)
    one.learn_company(11, 400 * MS, company=8)
    assert one.planned_ns(11, company=1) == 100 * MS
    assert one.planned_ns(21, company=8) == 800 * MS
    one.learn_company(11, 200 * MS, company=1)
    assert one.planned_ns(11, company=1) == 110 * MS


def test_a_fleet_with_nothing_to_do_or_unknown_refuses_nobody() -> None:
    one = replica(1, wait_ms=10)
    pool = pool_of(one)
    pool.forecast.learn_first(1, 100, 10 * MS)
    assert pool.quickest(2, 100, 50) is None
    pool.occupy(output(7), one)
    assert pool.quickest(2, 100, 50) is not None
    assert pool.quickest(31_000 * MS, 100, 50) is None
    pool.release(output(7), one)
    assert pool.quickest(2, 100, 50) is None
