"""The readers on mutated messages; `tests.fuzz.guided` looks further, with coverage."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.readers import READERS, read, seeds


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(seeds()), st.integers(0, 300), st.binary(max_size=12))
def test_a_damaged_message_is_refused_or_read(seed: bytes, at: int, damage: bytes) -> None:
    at %= len(seed)
    read(seed[:at] + damage + seed[at + len(damage) :])


@settings(max_examples=500, deadline=None)
@given(st.integers(0, len(READERS) - 1), st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(reader: int, data: bytes) -> None:
    read(bytes([reader]) + data)


def test_the_seeds_are_good() -> None:
    for seed in seeds():
        READERS[seed[0]](seed[1:])
