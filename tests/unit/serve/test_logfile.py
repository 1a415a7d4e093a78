from pathlib import Path

import pytest

from headway.serve.logfile import BoundedLog, LineSplitter, loud


def test_a_log_never_grows_beyond_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    log = BoundedLog(path, max_bytes=100)
    for number in range(1000):
        log.write(b"%039d\n" % number)
    log.close()
    assert path.read_bytes() == b"%039d\n%039d\n" % (998, 999)
    assert (tmp_path / "worker.log.1").read_bytes() == b"%039d\n%039d\n" % (996, 997)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["worker.log", "worker.log.1"]


def test_the_log_of_an_earlier_run_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    path.write_text("old")
    log = BoundedLog(path, max_bytes=100)
    log.write(b"new")
    log.close()
    assert (path.read_text(), (tmp_path / "worker.log.1").read_text()) == ("new", "old")


def test_lines_are_cut_wherever_the_stream_was() -> None:
    lines = LineSplitter()
    assert lines.feed(b"on") == []
    assert lines.feed(b"e\ntwo\nthr") == [b"one", b"two"]
    assert lines.feed(b"ee\n") == [b"three"]


def test_an_endless_line_is_cut() -> None:
    lines = LineSplitter()
    assert [len(line) for line in lines.feed(b"x" * 20_000)] == [20_000]
    assert lines.feed(b"y\n") == [b"y"]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b'{"ts": "t", "level": "info", "logger": "l", "message": "m"}', None),
        (
            b'{"ts": "t", "level": "warning", "logger": "l", "message": "lease ended", "n": 3}',
            "warning: lease ended n=3",
        ),
        (b'{"level": "error", "message": "no", "exception": "Traceback"}', "error: no"),
        (b"Traceback (most recent call last):", "Traceback (most recent call last):"),
        (b"I1129 17:07:39.777446    9806 chttp2_transport.cc:1403] GOAWAY", None),
        (b"E1129 17:07:39.777446    9806 x.cc:1] broken", "E1129 17:07:39.777446    9806 x.cc:1] "
         "broken"),
        (b"", None),
        (b"[1, 2]", None),
        (b"key hw_a1B2c3D4_0123456789abcdefghijABCDEFGHIJ01", "key hw_a1B2c3D4_***"),
    ],
)  # fmt: skip
def test_what_deserves_to_be_seen_is_shown(line: bytes, shown: str | None) -> None:
    assert loud(line) == shown
