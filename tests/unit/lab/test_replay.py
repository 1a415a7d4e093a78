"""Recorded traces: written, rotated, read, and replayed under other settings."""

import json
from pathlib import Path

import pytest

from headway.errors import HeadwayError
from headway.lab.replay import Scenario, difference, load
from headway.sim import Fleet, Policy
from headway.telemetry.trace import Arrival, TraceWriter, read_trace, tenant_hash

MS = 1_000_000


def arrival(number: int, **changes: object) -> Arrival:
    plain = Arrival(
        at_ns=number * 5 * MS,
        model="echo",
        units=100 + number % 50,
        rows=1,
        deadline_ns=200 * MS,
        lane=1,
        priority=2,
        weight=1.0,
        tenant=tenant_hash("acme", 1),
        outcome="ok",
        ended_ns=30 * MS,
    )
    return plain._replace(**changes)


def record(path: Path, count: int) -> None:
    writer = TraceWriter(path)
    for number in range(count):
        writer.write(arrival(number))
    writer.close()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.trace"
    record(path, 600)
    assert list(read_trace(path)) == [arrival(number) for number in range(600)]
    header = json.loads(path.read_text(encoding="ascii").splitlines()[0])
    assert header["format"] == "headway-trace-1"


def test_names_of_tenants_are_not_in_it(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.trace"
    record(path, 10)
    assert "acme" not in path.read_text(encoding="ascii")
    assert tenant_hash("acme", 1) != tenant_hash("acme", 2)
    assert 0 <= tenant_hash("acme", 1) < 2**32


def test_it_rotates_within_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.trace"
    writer = TraceWriter(path, max_bytes=4096, max_files=3, buffer_lines=1)
    for number in range(500):
        writer.write(arrival(number))
    writer.close()
    sizes = [file.stat().st_size for file in tmp_path.iterdir()]
    assert len(sizes) == 3
    assert max(sizes) <= 4096
    kept = list(read_trace(path))
    assert kept[-1] == arrival(499)
    assert [one.at_ns for one in kept] == sorted(one.at_ns for one in kept)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}\n", "first line must name headway-trace-1"),
        ("", "first line must name headway-trace-1"),
        ('{"format":"headway-trace-1"}\n[1,2]\n', ":2: expected a list of at_ns, model"),
        ('{"format":"headway-trace-1"}\nnonsense\n', ":2: expected a list of"),
    ],
)
def test_damage_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.trace"
    path.write_text(text, encoding="ascii")
    with pytest.raises(HeadwayError, match=says):
        list(read_trace(path))


def test_a_line_cut_off_at_the_end_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.trace"
    record(path, 3)
    path.write_text(path.read_text(encoding="ascii")[:-5], encoding="ascii")
    assert len(list(read_trace(path))) == 2


def test_bounds_of_the_writer() -> None:
    with pytest.raises(ValueError, match="max_bytes is 10, but must be at least 4096"):
        TraceWriter(Path("unused"), max_bytes=10)


def test_more_traffic_serves_a_smaller_share(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.trace"
    record(path, 2000)
    arrivals = load(path)
    now = Scenario(Fleet(), Policy())
    then = now.with_settings({"traffic": "3"})
    figures = {name: (a, b) for name, a, b in difference(now.run(arrivals), then.run(arrivals))}
    before, after = figures["offered_per_s"]
    assert after == pytest.approx(3 * before)
    assert figures["on_time 0"][1] < figures["on_time 0"][0]


def test_losing_a_replica(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.trace"
    record(path, 2000)
    arrivals = load(path)
    two = Scenario(Fleet(), Policy()).with_settings({"replicas": "2", "traffic": "2"})
    lost = two.with_settings({"lose_replica_at_s": "2"})
    assert lost.run(arrivals).goodput_per_s(5, 9) < two.run(arrivals).goodput_per_s(5, 9)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"colour": "red"}, "--set colour: unknown; known are traffic, replicas"),
        ({"traffic": "-1"}, "--set traffic=-1: must be above 0"),
        ({"lose_replica_at_s": "3"}, "needs at least two replicas"),
        ({"alpha": "7"}, "--set alpha=7"),
    ],
)
def test_a_bad_setting_is_named(settings: dict[str, str], says: str) -> None:
    with pytest.raises(HeadwayError, match=says):
        Scenario(Fleet(), Policy()).with_settings(settings)
