"""Which outputs are refused, and what they are told."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headway import errors
from headway._core import ReplicaCondition, Scheduler
from headway.gateway.stream_admission import StreamAdmission
from headway.gateway.stream_pool import StreamPool
from headway.gateway.stream_replica import StreamReplica
from headway.v1 import worker_pb2

MS = 1_000_000
S = 1000 * MS
POOL: Any = SimpleNamespace(name="m/v1", num_replicas=1)


def replica(handle: int, *, first_ms: int, lanes: int = 1, busy: bool = True) -> StreamReplica:
    known = SimpleNamespace(handle=handle, wire_handle=0, condition=ReplicaCondition.READY)
    made = StreamReplica(cast(Any, known))
    said = worker_pb2.Capacity(
        free_lanes=lanes, free_kv_units=1_000, first_token_wait_ns=first_ms * MS
    )
    made.take_note(said)
    if busy:
        stream = SimpleNamespace(first_part_ns=1, dispatched_ns=0, written=0, budget=1_000)
        made.inflight[1] = cast(Any, stream)
    return made


def pool_of(*replicas: StreamReplica) -> StreamPool:
    """Outputs of one unit, so that the first one is all of the time; learned just now."""
    pool = StreamPool()
    for each in replicas:
        pool.note(each)
    for _ in range(300):
        pool.forecast.learn_first(S, 100, 100 * MS)
        pool.forecast.learn_end(S, 1, 100 * MS, censored=False)
    return pool


def check(pool: StreamPool, left_ms: int) -> None:
    def renew(_: object) -> int:
        raise AssertionError("nothing is charged")

    admission = StreamAdmission(Scheduler(seed=1), max_live=10, max_queued=2, renew=renew)
    record: Any = SimpleNamespace(
        arrived_ns=S, deadline_ns=S + left_ms * MS, units=100, pinned=False
    )
    admission.check(record, POOL, pool, 50, 0)


@pytest.mark.parametrize("order", [(900, 500, 200), (200, 500, 900)])
def test_one_of_them_being_quick_enough_is_enough(order: tuple[int, int, int]) -> None:
    pool = pool_of(*(replica(at, first_ms=each) for at, each in enumerate(order)))
    check(pool, 250)
    with pytest.raises(errors.DeadlineUnreachable) as refused:
        check(pool, 150)
    # Of the quickest.
    needed_ns = int(refused.value.metadata["needed_ns"])
    assert needed_ns == pytest.approx(200 * MS, rel=0.05)
    assert refused.value.metadata["available_ns"] == str(150 * MS)


def test_a_device_with_nothing_to_do_refuses_nobody() -> None:
    check(pool_of(replica(1, first_ms=900, busy=False)), 1)


def test_without_a_lane_the_wait_for_one_is_counted() -> None:
    waits = pool_of(replica(1, first_ms=100, lanes=0))
    check(pool_of(replica(1, first_ms=100)), 150)
    longer = waits.lane_ns(S)
    assert longer > 0
    with pytest.raises(errors.DeadlineUnreachable):
        check(waits, 100 + longer // MS - 5)


def test_a_full_queue_says_when_to_come_again() -> None:
    pool = pool_of(replica(1, first_ms=100, lanes=0))
    for number in range(2):
        pool.enqueue(cast(Any, SimpleNamespace(order=(2, 0, number))))
    with pytest.raises(errors.QueueFull) as refused:
        check(pool, 10_000)
    assert (refused.value.retry_after_ns or 0) >= 1
