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


def replica(handle: int, *, first_ms: int, lanes: int = 1, busy: bool = True) -> StreamReplica:
    known = SimpleNamespace(handle=handle, wire_handle=0, condition=ReplicaCondition.READY)
    made = StreamReplica(cast(Any, known))
    said = worker_pb2.Capacity(
        free_lanes=lanes, free_kv_units=1_000, first_token_wait_ns=first_ms * MS
    )
    made.take_note(said)
    if busy:
        made.inflight[1] = cast(Any, SimpleNamespace(stream_id=1))
    return made


def pool_of(*replicas: StreamReplica) -> StreamPool:
    """Outputs of one unit, so that the first one is all of the time; learned just now."""
    pool = StreamPool()
    for each in replicas:
        pool.note(each)
    for _ in range(300):
        pool.forecast.learn_first(S, 100, 100 * MS)
        pool.forecast.learn_end(S, 1, censored=False)
    return pool


class Door:
    """A gateway's admission of outputs: at most two wait."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(seed=1, max_live=10)
        self.tenant = self.scheduler.add_tenant(0, units_per_s=1e9, burst_units=1e9)
        self.handle = self.scheduler.add_pool(
            max_queued_requests=2, max_queued_units=1 << 62, prior_intercept_ns=1, prior_slope_ns=1
        )

    def admit(self, pool: StreamPool, left_ms: int) -> int:
        def renew(_: object) -> int:
            raise AssertionError("the tenant is known")

        caller = SimpleNamespace(handle=self.tenant, tenant="t")
        record: Any = SimpleNamespace(
            arrived_ns=S, deadline_ns=S + left_ms * MS, units=100, pinned=False, caller=caller,
            priority=2, reading=None,
        )  # fmt: skip
        version: Any = SimpleNamespace(name="m/v1", num_replicas=1, handle=self.handle)
        admission = StreamAdmission(self.scheduler, renew=renew)
        return admission.admit(record, version, pool, 1.0).ticket

    def write(self, pool: StreamPool, hold_ms: int) -> None:
        """An output that holds its lane for so long."""
        ticket = self.admit(pool, 1_000_000)
        self.scheduler.begin_output(S, ticket, hold_ms * MS, hold_ms * MS, 1.0)


@pytest.mark.parametrize("order", [(900, 500, 200), (200, 500, 900)])
def test_one_of_them_being_quick_enough_is_enough(order: tuple[int, int, int]) -> None:
    pool = pool_of(*(replica(at, first_ms=each) for at, each in enumerate(order)))
    Door().admit(pool, 250)
    with pytest.raises(errors.DeadlineUnreachable) as refused:
        Door().admit(pool, 150)
    # Of the quickest.
    needed_ns = int(refused.value.metadata["needed_ns"])
    assert needed_ns == pytest.approx(200 * MS, rel=0.05)
    assert refused.value.metadata["available_ns"] == str(150 * MS)
    assert refused.value.metadata["rule"] == "deadline"


def test_a_device_with_nothing_to_do_refuses_nobody() -> None:
    Door().admit(pool_of(replica(1, first_ms=900, busy=False)), 1)


def test_without_a_lane_the_wait_for_one_is_counted() -> None:
    door, waits = Door(), pool_of(replica(1, first_ms=100, lanes=0))
    Door().admit(pool_of(replica(1, first_ms=100)), 150)
    door.write(waits, 700)
    longer = door.scheduler.waiting_outputs(S, door.handle)[1]
    assert longer == 700 * MS
    with pytest.raises(errors.DeadlineUnreachable) as refused:
        door.admit(waits, 100 + longer // MS - 5)
    assert "a lane in 700" in refused.value.message
    door.admit(waits, 100 + longer // MS + 5)


def test_a_full_queue_says_when_to_come_again() -> None:
    door, pool = Door(), pool_of(replica(1, first_ms=100, lanes=0))
    door.write(pool, 3_000)
    for _ in range(2):
        door.admit(pool, 100_000)
    with pytest.raises(errors.QueueFull) as refused:
        door.admit(pool, 100_000)
    # The lane falls free, and one of the queue leaves it.
    assert refused.value.retry_after_ns == 3_000 * MS
    assert refused.value.metadata["rule"] == "queue"


def test_more_than_a_burst_is_told_which_field_to_lower() -> None:
    door = Door()
    door.tenant = door.scheduler.add_tenant(0, units_per_s=1, burst_units=100)
    with pytest.raises(errors.InvalidRequest) as refused:
        door.admit(pool_of(replica(1, first_ms=100)), 1_000)
    assert refused.value.field == "max_output_units"
    assert refused.value.metadata["rule"] == "burst"
