"""The learned structures of the core beside their plain-Python models, step by step."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.learned_models import (
    PlainCostModel,
    PlainEdfQueue,
    PlainPeakEwma,
    PlainRng,
    PlainTokenBucket,
    quantile_of,
)

from headway._core import (
    CostModel,
    EdfQueue,
    PeakEwma,
    QuantileHistogram,
    Rng,
    TokenBucket,
)


@given(st.integers(0, 2**64 - 1), st.lists(st.integers(0, 2**64 - 1), max_size=30))
def test_rng(seed: int, bounds: list[int]) -> None:
    core, plain = Rng(seed), PlainRng(seed)
    for bound in bounds:
        assert core.next_u64() == plain.next_u64()
        assert core.uniform() == plain.uniform()
        if bound > 0:
            assert core.below(bound) == plain.below(bound)


TICKETS = st.integers(0, 20)
EDF_STEPS = st.one_of(
    st.tuples(st.just("push"), TICKETS, st.integers(-30, 30), st.integers(0, 2**38)),
    st.tuples(st.just("remove"), TICKETS, st.just(0), st.just(0)),
    st.tuples(st.just("pop"), st.just(0), st.just(0), st.just(0)),
)


@given(st.lists(EDF_STEPS, max_size=80), st.integers(-40, 40))
def test_edf_queue(steps: list[tuple[str, int, int, int]], asked: int) -> None:
    core, plain = EdfQueue(), PlainEdfQueue()
    for kind, ticket, deadline, units in steps:
        if kind == "push":
            if plain.push(ticket, deadline, units):
                core.push(ticket, deadline, units)
            else:
                with pytest.raises(ValueError, match="ticket must be one that is not queued yet"):
                    core.push(ticket, deadline, units)
        elif kind == "remove":
            assert core.remove(ticket) == plain.remove(ticket)
        else:
            first = plain.peek()
            assert core.pop() == (first[0] if first else None)
            plain.entries = plain.entries[1:]
        assert core.peek() == plain.peek()
        assert len(core) == len(plain.entries)
        assert (core.count_before(asked), core.units_before(asked)) == plain.before(asked)
        assert core.total_units() == plain.before(10**9)[1]


@given(
    intercept=st.floats(0, 5e7),
    slope=st.floats(0, 1e5),
    batches=st.lists(
        st.tuples(st.integers(1, 20_000), st.floats(0.5, 2.0), st.sampled_from([1, 1, 1, 5])),
        max_size=60,
    ),
    same_size=st.booleans(),
)
def test_cost_model(
    intercept: float,
    slope: float,
    batches: list[tuple[int, float, int]],
    same_size: bool,
) -> None:
    core = CostModel(prior_intercept_ns=18e6, prior_slope_ns=22e3)
    plain = PlainCostModel(18e6, 22e3)
    for units, noise, slowdown in batches:
        units = 500 if same_size else units
        device_ns = round((intercept + slope * units) * noise * slowdown)
        core.observe(units, device_ns)
        plain.observe(units, device_ns)
        assert core.observations == plain.count
        assert core.intercept_ns == pytest.approx(plain.intercept, rel=1e-4, abs=10)
        assert core.slope_ns == pytest.approx(plain.slope, rel=1e-4, abs=1e-3)
        for asked in (1, units, 50_000):
            assert core.predict_ns(asked) == pytest.approx(plain.predict(asked), rel=1e-4, abs=100)
            assert core.quantile_ns(asked, 0.9) == pytest.approx(
                plain.quantile(asked, 0.9), rel=1e-4, abs=100
            )
        last = plain.residuals[-64:]
        mean = sum(last) / len(last) if last else 0
        spread = math.sqrt(sum((r - mean) ** 2 for r in last) / len(last)) if last else 0
        assert core.residual_ratio == pytest.approx(spread, rel=1e-3, abs=1e-6)


@given(
    rate=st.integers(1, 100_000),
    burst=st.integers(1, 100_000),
    steps=st.lists(
        st.tuples(st.integers(0, 3 * 10**9), st.integers(0, 120_000), st.booleans()), max_size=60
    ),
)
def test_token_bucket(rate: int, burst: int, steps: list[tuple[int, int, bool]]) -> None:
    core = TokenBucket(0, units_per_s=rate, burst_units=burst)
    plain = PlainTokenBucket(0, rate, burst)
    now = 0
    for elapsed, units, is_return in steps:
        now += elapsed
        plain.advance(now)
        assert core.available(now) == pytest.approx(float(plain.level), abs=1e-4)
        if is_return:
            core.put_back(now, units)
            plain.level = min(plain.burst, plain.level + units)
            continue
        # The bucket forgives a millionth of a unit: what lies so near the edge goes either way.
        if abs(units - plain.level) < 1e-4:
            continue
        wait, expected = core.try_take(now, units), plain.wait_ns(units)
        assert wait == expected or (wait > 0 and abs(wait - expected) <= 1 + 1e5 / rate)
        if wait == 0:
            plain.level -= units


@given(
    decay=st.integers(1, 10**11),
    prior=st.integers(0, 10**10),
    steps=st.lists(st.tuples(st.integers(0, 10**10), st.integers(0, 10**10)), max_size=40),
)
def test_peak_ewma(decay: int, prior: int, steps: list[tuple[int, int]]) -> None:
    core = PeakEwma(0, decay_ns=decay, prior_ns=prior)
    plain = PlainPeakEwma(decay, prior)
    now = 0
    for elapsed, latency in steps:
        now += elapsed
        assert core.value_ns(now) == pytest.approx(plain.value_ns(now), rel=1e-9, abs=1e-3)
        core.observe(now, latency)
        plain.observe(now, latency)
        assert core.value_ns(now) == pytest.approx(plain.value_ns(now), rel=1e-9, abs=1e-3)
        assert core.value_ns(now) >= latency - 1, "never below what was just seen"


VALUES = st.lists(st.one_of(st.integers(0, 300), st.integers(0, 2**63 - 1)), max_size=60)


@given(VALUES, VALUES, st.floats(0, 1))
def test_quantile_histogram(ours: list[int], theirs: list[int], q: float) -> None:
    core, other = QuantileHistogram(), QuantileHistogram()
    for value in ours:
        core.record(value)
    for value in theirs:
        other.record(value, 1)
    assert core.quantile(q) == quantile_of(ours, q)
    core.merge(other)
    core.merge(QuantileHistogram())
    both = ours + theirs
    found = core.quantile(q)
    assert found == quantile_of(both, q)
    assert core.count == len(both)
    assert core.max == max(both, default=0)
    assert core.mean == pytest.approx(sum(both) / len(both) if both else 0)


def test_a_histogram_merges_with_itself() -> None:
    core = QuantileHistogram()
    core.record(7, 3)
    core.merge(core)
    assert (core.count, core.quantile(0.5)) == (6, 7)
