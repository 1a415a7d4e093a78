"""Schedulers written in Python, in the simulator; and that both loops do the same."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.sim import (
    Device,
    Fleet,
    Policy,
    PolicyKind,
    Replicas,
    Report,
    Request,
    ScheduledPolicy,
    SpeedChange,
    Workload,
    simulate,
    simulate_policy,
)


def same(one: Report, other: Report) -> bool:
    return (
        one.fates.tolist() == other.fates.tolist()
        and one.ended_at_ns.tolist() == other.ended_at_ns.tolist()
        and one.batch_sizes.tolist() == other.batch_sizes.tolist()
        and one.num_batches == other.num_batches
        and one.busy_ns == other.busy_ns
    )


@settings(max_examples=100, deadline=None)
@given(
    rate=st.sampled_from([20.0, 200.0, 500.0]),
    seed=st.integers(0, 2**32),
    speeds=st.sampled_from([(1.0,), (1.0, 0.5), (1.0, 1.0, 0.6)]),
    cancel_share=st.sampled_from([0.0, 0.4]),
    lost_at_s=st.sampled_from([None, 0.5]),
    alpha=st.sampled_from([0.0, 0.5]),
    large_share=st.sampled_from([0.0, 0.2]),
)
def test_the_cores_scheduler_does_the_same_in_either_loop(
    rate: float,
    seed: int,
    speeds: tuple[float, ...],
    cancel_share: float,
    lost_at_s: float | None,
    alpha: float,
    large_share: float,
) -> None:
    workload = Workload.reference(rate, duration_s=1.5).model_copy(
        update={"cancel_share": cancel_share, "max_rows": 4, "tenants": 3}
    )
    changes: tuple[SpeedChange, ...] = ()
    if lost_at_s is not None and len(speeds) > 1:
        changes = (
            SpeedChange(at_s=lost_at_s + 0.5, replica=0, speed=0.7),
            SpeedChange(at_s=lost_at_s, replica=len(speeds) - 1, speed=0),
        )
    fleet = Fleet(device=Device(max_rows=40), speeds=speeds, changes=changes)
    policy = Policy(alpha=alpha, large_share=large_share)
    trace = workload.draw(seed)
    native = simulate(trace, fleet, policy, seed)
    assert same(simulate_policy(trace, ScheduledPolicy(fleet, policy, seed), fleet, seed), native)


class OneByOne:
    """First come, first served, in batches of one."""

    def __init__(self) -> None:
        self.queue: list[int] = []

    def arrive(self, now_ns: int, request: Request, replicas: Replicas) -> bool:
        self.queue.append(request.number)
        return True

    def cancel(self, now_ns: int, number: int) -> None:
        self.queue.remove(number)

    def form(self, now_ns: int, replicas: Replicas) -> tuple[int, Sequence[int]] | None:
        return (replicas.free.index(True), [self.queue.pop(0)]) if self.queue else None

    def complete(self, now_ns: int, replica: int, device_ns: int) -> None:
        pass

    def expire(self, now_ns: int) -> Iterable[int]:
        return ()

    def wake_at_ns(self) -> int | None:
        return None


def test_a_rival_written_in_python_is_the_cores() -> None:
    workload = Workload.reference(40, duration_s=20).model_copy(update={"cancel_share": 0.2})
    trace = workload.draw(5)
    native = simulate(trace, policy=Policy(kind=PolicyKind.ONE_BY_ONE), seed=5)
    assert same(simulate_policy(trace, OneByOne(), seed=5), native)


def test_a_quota_changed_on_the_way_is_seen_in_the_result() -> None:
    class Tightening(ScheduledPolicy):
        """After a second, the tenant may use 1,000 units a second."""

        def arrive(self, now_ns: int, request: Request, replicas: Replicas) -> bool:
            if now_ns > 1_000_000_000:
                self.scheduler.set_tenant_quota(now_ns, 0, units_per_s=1_000, burst_units=4_096)
            return super().arrive(now_ns, request, replicas)

    trace = Workload.reference(100, duration_s=10).draw(1)
    policy = Tightening(Fleet(), Policy())
    report = simulate_policy(trace, policy)
    # 1,000 of the 18,000 units a second that are offered: mean size 180.
    assert report.goodput_per_s(0, 1) >= 85
    assert report.goodput_per_s(5, 10) <= 20
    assert str(policy.refusals[max(policy.refusals)].reason).endswith("QUOTA_EXCEEDED")


class Greedy(OneByOne):
    """Runs what it has run before."""

    def form(self, now_ns: int, replicas: Replicas) -> tuple[int, Sequence[int]] | None:
        return (0, self.queue[:1]) if self.queue else None


def test_a_batch_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="form: request 0 is not queued"):
        simulate_policy(Workload.reference(40, duration_s=1).draw(1), Greedy())
