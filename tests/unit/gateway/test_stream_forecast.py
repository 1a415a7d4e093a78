from types import SimpleNamespace
from typing import Any, cast

import pytest

from headway._core import ReplicaSpeeds
from headway.gateway.stream_affinity import BLOCK_BYTES, PrefixAffinity, blocks_of
from headway.gateway.stream_forecast import StreamForecast
from headway.gateway.stream_replica import StreamReplica
from headway.v1 import types_pb2, worker_pb2

MS = 1_000_000
S = 1000 * MS


def replica(**capacity: int) -> StreamReplica:
    made = StreamReplica(cast(Any, SimpleNamespace(handle=1, wire_handle=0)))
    made.take_note(worker_pb2.Capacity(**capacity))
    return made


def test_what_a_worker_says_is_what_it_takes() -> None:
    one = replica(free_lanes=1, free_kv_units=100)
    assert one.would_take(100)
    assert not one.would_take(101)
    assert not replica(free_lanes=0, free_kv_units=100).would_take(1)
    one.draining = True
    assert not one.would_take(1)


def test_gaps_are_learned_quickly_at_first() -> None:
    one = replica()
    one.learn_gap(11, 500 * MS)
    assert one.gap_ns == 50 * MS
    one.learn_gap(11, 700 * MS)
    assert one.gap_ns == 60 * MS
    one.learn_gap(1, 999 * MS)  # one unit has no gap
    assert one.gap_ns == 60 * MS


def test_the_first_unit_scales_the_workers_word_by_the_prompt() -> None:
    forecast, one = StreamForecast(), replica(first_token_wait_ns=500 * MS)
    for _ in range(30):
        forecast.learn_first(S, 100, 500 * MS)
        forecast.learn_first(S, 1000, 3200 * MS)
    small, large = forecast.first_ns(one, 100), forecast.first_ns(one, 1000)
    assert large > 4 * small
    one.take_note(worker_pb2.Capacity(first_token_wait_ns=1000 * MS))
    assert forecast.first_ns(one, 100) == pytest.approx(2 * small, rel=1e-6)


def times(forecast: StreamForecast, one: StreamReplica, budget: int) -> tuple[float, float]:
    speeds = ReplicaSpeeds()
    speeds.set(1, one.first_token_wait_ns, one.gap_ns)
    found = forecast.quickest(speeds, 100, forecast.lengths.expected(budget=budget))
    assert found is not None
    return found[0], found[1]


def writing_ns(forecast: StreamForecast, one: StreamReplica, budget: int) -> float:
    return times(forecast, one, budget)[1]


def test_writing_takes_as_long_as_outputs_are() -> None:
    forecast, one = StreamForecast(), replica()
    one.learn_gap(101, 2 * S)
    for _ in range(300):
        forecast.learn_end(S, 50, censored=False)
    assert writing_ns(forecast, one, 1000) == pytest.approx(50 * 20 * MS, rel=0.12)
    assert writing_ns(forecast, one, 11) == pytest.approx(10 * 20 * MS, rel=0.12)
    assert round(times(forecast, one, 11)[0]) == forecast.first_ns(one, 100)
    one.take_note(worker_pb2.Capacity(first_token_wait_ns=500 * MS))
    assert round(times(forecast, one, 11)[0]) == forecast.first_ns(one, 100)


def test_evidence_grows_stale() -> None:
    forecast = StreamForecast()
    assert not forecast.is_fresh(S)
    forecast.learn_first(S, 10, MS)
    assert forecast.is_fresh(30 * S)
    assert not forecast.is_fresh(32 * S)


def text(value: str) -> types_pb2.Input:
    return types_pb2.Input(text=value)


def test_the_longest_known_beginning_says_where() -> None:
    affinity = PrefixAffinity()
    common = "a" * (2 * BLOCK_BYTES)
    affinity.note(blocks_of(text(common + "b" * BLOCK_BYTES)), 1)
    affinity.note(blocks_of(text("c" * 200)), 2)
    assert affinity.find(blocks_of(text(common + "z" * 100))) == (1, 2 * BLOCK_BYTES)
    assert affinity.find(blocks_of(text("c" * 130))) == (2, 2 * BLOCK_BYTES)
    assert affinity.find(blocks_of(text("z" * 500))) == (-1, 0)
    assert affinity.find(blocks_of(text("short"))) == (-1, 0)


def test_a_block_elsewhere_is_not_the_same_beginning() -> None:
    first, second = "a" * BLOCK_BYTES, "b" * BLOCK_BYTES
    assert blocks_of(text(first + second))[1] not in blocks_of(text(second + second))


def test_token_ids_have_beginnings_too() -> None:
    ids = types_pb2.Input(token_ids=types_pb2.TokenIds(ids=range(40)))
    longer = types_pb2.Input(token_ids=types_pb2.TokenIds(ids=range(50)))
    assert len(blocks_of(ids)) == 2
    assert blocks_of(longer)[:2] == blocks_of(ids)
