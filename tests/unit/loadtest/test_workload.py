import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.loadtest.workload import (
    DeadlineMix,
    FixedSize,
    LogNormalSize,
    UniformSize,
    Workload,
    parse_deadline_mix,
    parse_duration_ns,
    parse_size,
)
from headway.rng import SeedTree
from headway.v1 import inference_pb2, types_pb2

MIX = DeadlineMix((120_000_000, 900_000_000), (0.3, 0.7))


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("250us", 250_000),
        ("120ms", 120_000_000),
        ("1.5s", 1_500_000_000),
        ("2m", 120_000_000_000),
    ],
)
def test_durations_are_read_with_their_unit(text: str, duration_ns: int) -> None:
    assert parse_duration_ns(text) == duration_ns


@pytest.mark.parametrize("text", ["", "120", "ms", "-5ms", "0ms", "1h", "1 s", "nan s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration; write 250us, 120ms, 1\.5s or 2m"):
        parse_duration_ns(text)


def test_a_deadline_mix_is_read_with_its_shares() -> None:
    assert parse_deadline_mix("120ms:0.3, 900ms:0.7") == MIX
    assert parse_deadline_mix("1s") == DeadlineMix((1_000_000_000,), (1.0,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("120ms:0.3,900ms:0.6", "add up to 0.9; they must add up to 1"),
        ("120ms:0.3,900ms", "the share in '900ms' is not a number"),
        ("120ms:1.5,900ms:-0.5", "they must add up to 1"),
        ("soon:1", "'soon' is not a duration"),
        ("1s:nan", "is not finite"),
    ],
)
def test_a_malformed_mix_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_deadline_mix(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("fixed:64", FixedSize(64)),
        ("uniform:16,256", UniformSize(16, 256)),
        ("lognormal:4.8,0.9,16,4096", LogNormalSize(4.8, 0.9, 16, 4096)),
    ],
)
def test_sizes_are_read(text: str, size: object) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("64", "'' in '64' is not a number"),
        ("fixed:0", "0 in 'fixed:0' is not a whole number"),
        ("fixed:1.5", "1.5 in 'fixed:1.5' is not a whole number"),
        ("fixed:2000000", "not a whole number in"),
        ("uniform:9,3", "the least size 9 is above the most 3"),
        ("lognormal:4.8,-1,16,4096", "sigma in .* is -1; it must be at least 0"),
        ("normal:3,1", "is not a size; write fixed:UNITS, uniform:LEAST,MOST or lognormal:"),
    ],
)
def test_a_malformed_size_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_size(text)


@given(
    mu=st.floats(-5, 20),
    sigma=st.floats(0, 5),
    smallest=st.integers(1, 1000),
    width=st.integers(0, 5000),
    seed=st.integers(0, 2**64 - 1),
)
def test_sizes_stay_within_their_bounds(
    mu: float, sigma: float, smallest: int, width: int, seed: int
) -> None:
    rng = SeedTree(seed).stream("x")
    for size in (
        LogNormalSize(mu, sigma, smallest, smallest + width),
        UniformSize(smallest, smallest + width),
    ):
        assert all(smallest <= size.draw(rng) <= smallest + width for _ in range(20))


def test_lognormal_sizes_have_the_stated_median_and_spread() -> None:
    rng = SeedTree(7).stream("sizes")
    size = LogNormalSize(4.8, 0.9, 1, 1_000_000)
    logs = [math.log(size.draw(rng)) for _ in range(20_000)]
    # Four standard errors: 0.9 / sqrt(20000) = 0.0064, and that over sqrt(2); rounding adds less.
    assert statistics.fmean(logs) == pytest.approx(4.8, abs=0.026)
    assert statistics.stdev(logs) == pytest.approx(0.9, abs=0.018)


def workload(template: inference_pb2.InferRequest, seed: int = 1) -> Workload:
    return Workload(template, size=UniformSize(1, 40), deadlines=MIX, seeds=SeedTree(seed))


def test_texts_hold_four_bytes_a_unit() -> None:
    made = Workload(
        inference_pb2.InferRequest(model="minilm"),
        size=FixedSize(100),
        deadlines=MIX,
        seeds=SeedTree(1),
    )
    requests = [made.next().request for _ in range(50)]
    assert {len(request.input.text.encode()) for request in requests} == {400}
    assert {request.model for request in requests} == {"minilm"}
    assert len({request.input.text for request in requests}) > 10


def test_the_same_seed_gives_the_same_requests() -> None:
    first, again, other = (workload(inference_pb2.InferRequest(), seed) for seed in (1, 1, 2))
    drawn = [
        [(work.request.input.text, work.deadline_class) for work in (one.next() for _ in range(99))]
        for one in (first, again, other)
    ]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def test_an_input_in_the_template_is_sent_as_it_is() -> None:
    template = inference_pb2.InferRequest(input=types_pb2.Input(text="the tide turns"))
    assert {workload(template).next().request.input.text for _ in range(5)} == {"the tide turns"}


def test_deadline_classes_come_in_their_shares() -> None:
    made = workload(inference_pb2.InferRequest(input=types_pb2.Input(text="x")))
    urgent = sum(made.next().deadline_class == 0 for _ in range(10_000))
    # Four standard deviations: sqrt(10000 * 0.3 * 0.7) = 46.
    assert urgent == pytest.approx(3000, abs=184)
