"""No number from Python makes the core panic: it answers, or names what is wrong.

A panic would arrive as a `BaseException`, which these tests do not expect.
"""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from headway._core import (
    BatchOutcome,
    CostModel,
    EdfQueue,
    PeakEwma,
    QuantileHistogram,
    ReplicaCondition,
    ReplicaSpeeds,
    Rng,
    Scheduler,
    TokenBucket,
    hash_key,
    split_point,
)

EDGES = [0, 1, 2**24, 2**31, 2**38, 2**62, 2**62 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64]
INTS = st.one_of(
    st.integers(0, 3),
    st.sampled_from(EDGES).flatmap(lambda edge: st.sampled_from([edge, -edge])),
    st.integers(-(2**80), 2**80),
)
REALS = st.one_of(st.floats(), st.sampled_from([0.0, 1.0, 1e-300, 1e300, 10**400, -(10**400)]))


def attempt(call: Callable[[], object]) -> None:
    try:
        call()
    except (ValueError, KeyError) as error:
        assert str(error)


@given(st.data())
def test_scheduler(data: st.DataObject) -> None:
    def number() -> int:
        return data.draw(INTS)

    def real() -> float:
        return data.draw(REALS)

    core = Scheduler(seed=1, max_live=4)
    core.add_tenant(0, units_per_s=1e9, burst_units=1e9)
    core.add_model(salt=0)
    core.add_pool(
        max_queued_requests=9, max_queued_units=2**62, prior_intercept_ns=1, prior_slope_ns=0
    )
    core.set_split(0, [0], [1.0])
    core.add_replica(0, 0, max_outstanding=1, max_requests=0, max_rows=0, max_units=0)
    core.set_replica_condition(0, 0, ReplicaCondition.READY)
    outcomes = st.sampled_from([BatchOutcome.OK, BatchOutcome.BUSY, BatchOutcome.FAILED])
    calls: list[Callable[[], object]] = [
        lambda: core.add_tenant(number(), units_per_s=real(), burst_units=real()),
        lambda: core.set_tenant_quota(number(), number(), units_per_s=real(), burst_units=real()),
        lambda: core.add_model(salt=number()),
        lambda: core.set_split(number(), [number(), number()], [real(), real()]),
        lambda: core.add_pool(
            max_queued_requests=number(),
            max_queued_units=number(),
            prior_intercept_ns=real(),
            prior_slope_ns=real(),
        ),
        lambda: core.add_replica(
            number(),
            number(),
            max_outstanding=number(),
            max_requests=number(),
            max_rows=number(),
            max_units=number(),
        ),
        lambda: core.set_replica_limits(
            0,
            max_outstanding=number(),
            max_requests=number(),
            max_rows=number(),
            max_units=number(),
        ),
        lambda: core.set_replica_condition(number(), number(), ReplicaCondition.READY),
        lambda: core.offer(
            number(),
            number(),
            number(),
            number(),
            number(),
            number(),
            number(),
            number(),
            number(),
            number(),
            real(),
        ),
        # Mostly valid, so that what follows meets extreme but admitted work.
        lambda: core.offer(
            0, 0, 0, -1, 0, number(), number(), number(), 2, data.draw(st.integers(1, 2)), 1.0
        ),
        lambda: core.form_batch(data.draw(st.sampled_from([0, 1, 2**62, -(2**62)])), 0),
        lambda: core.form_batch(number(), number()),
        lambda: core.complete(
            0,
            data.draw(st.integers(0, 3)),
            data.draw(outcomes),
            number(),
            number(),
            number(),
            [number()],
            number(),
        ),
        lambda: core.cancel(number(), number()),
        lambda: core.expire(number()),
        lambda: core.admit_output(
            number(),
            number(),
            number(),
            number(),
            number(),
            number(),
            number(),
            data.draw(st.booleans()),
            number(),
        ),
        lambda: core.admit_output(0, 0, 0, 1, number(), 2, number(), False, number()),
        lambda: core.next_output(number()),
        lambda: core.begin_output(
            number(), core.next_output(0) or number(), number(), number(), real()
        ),
        lambda: core.return_output(number()),
        lambda: core.end_output(number(), number(), number(), number(), number()),
        lambda: core.waiting_outputs(number(), number()),
        lambda: core.pool_of(number()),
        lambda: core.drain_ns(number()),
        lambda: core.pool_stats(0),
        lambda: core.replica_stats(0),
        lambda: core.next_event_ns(),
        lambda: core.remove_replica(number(), number()),
        lambda: core.remove_pool(number(), number()),
    ]
    for _ in range(20):
        attempt(calls[data.draw(st.integers(0, len(calls) - 1))])


@given(st.lists(st.tuples(INTS, INTS), max_size=12), REALS, REALS)
def test_the_rest(numbers: list[tuple[int, int]], one: float, two: float) -> None:
    cost = CostModel(prior_intercept_ns=0, prior_slope_ns=0)
    bucket = TokenBucket(0, units_per_s=1e-300, burst_units=1e300)
    latency = PeakEwma(0, decay_ns=1, prior_ns=2**62)
    histogram, queue = QuantileHistogram(), EdfQueue()
    speeds = ReplicaSpeeds()
    attempt(lambda: CostModel(prior_intercept_ns=one, prior_slope_ns=two))
    attempt(lambda: TokenBucket(0, units_per_s=one, burst_units=two))
    for left, right in numbers:
        calls: list[Callable[[], object]] = [
            lambda: Rng(left).below(right),  # noqa: B023  # called at once
            lambda: split_point(left, right),  # noqa: B023
            lambda: hash_key(b"", left),  # noqa: B023
            lambda: cost.observe(left, right),  # noqa: B023
            lambda: cost.quantile_ns(left, one),  # noqa: B023
            lambda: bucket.try_take(left, right),  # noqa: B023
            lambda: bucket.put_back(left, right),  # noqa: B023
            lambda: bucket.available(left),  # noqa: B023
            lambda: latency.observe(left, right),  # noqa: B023
            lambda: latency.value_ns(left),  # noqa: B023
            lambda: histogram.record(left, right),  # noqa: B023
            lambda: histogram.quantile(two),
            lambda: histogram.merge(histogram),
            lambda: queue.push(left, right, abs(left)),  # noqa: B023
            lambda: queue.units_before(left),  # noqa: B023
            lambda: queue.remove(right),  # noqa: B023
            lambda: speeds.set(left, right, one),  # noqa: B023
            lambda: speeds.quickest(one, two, right),  # noqa: B023
            lambda: speeds.remove(right),  # noqa: B023
        ]
        for call in calls:
            attempt(call)
    assert cost.intercept_ns >= 0
    assert cost.slope_ns >= 0
    assert 0 <= bucket.available(0) <= 1e300
    assert histogram.count >= 0
