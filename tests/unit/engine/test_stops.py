import pytest

from headway.engine.stops import TextStream
from headway.errors import RuntimeInputError

PIECES = {1: b"hel", 2: b"lo", 3: b" wor", 4: b"ld", 5: "é".encode()[:1], 6: "é".encode()[1:],
          7: b"\xff", 8: b"STO", 9: b"P"}  # fmt: skip


def stream(*stops: str) -> TextStream:
    return TextStream(PIECES.__getitem__, stops)


def test_text_comes_as_the_tokens_do() -> None:
    text = stream()
    assert [text.push(token) for token in (1, 2, 3)] == ["hel", "lo", " wor"]
    assert text.finish() == ""


def test_a_character_over_two_tokens_comes_whole() -> None:
    text = stream()
    assert [text.push(5), text.push(6)] == ["", "é"]


def test_half_a_character_at_the_end_is_shown_as_such() -> None:
    text = stream()
    assert text.push(5) == ""
    assert text.finish() == "\ufffd"


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert stream().push(7) == "\ufffd"


def test_a_stop_string_over_token_borders_ends_before_it() -> None:
    text = stream("lo wo")
    assert [text.push(token) for token in (1, 2)] == ["he", "l"]
    assert text.push(3) == ""
    assert text.stopped
    assert text.push(4) == ""
    assert text.finish() == ""


def test_what_only_looked_like_a_stop_string_is_given_out() -> None:
    text = stream("STOP!")
    assert [text.push(token) for token in (8, 9)] == ["", ""]
    assert text.push(1) == "STOPhel"
    assert not text.stopped


def test_held_back_text_comes_at_the_end() -> None:
    text = stream("STOP")
    assert text.push(8) == ""
    assert text.finish() == "STO"


def test_the_earliest_of_several_wins() -> None:
    text = stream("ld", "o w")
    assert [text.push(token) for token in (1, 2)] == ["he", "ll"]
    assert text.push(3) == ""
    assert text.stopped


def test_text_before_a_stop_in_one_token_is_kept() -> None:
    text = stream("l")
    assert text.push(1) == "he"
    assert text.stopped


@pytest.mark.parametrize(
    ("stops", "named"),
    [
        ([""], r"sampling.stop\[0\] has 0"),
        (["a", "b" * 257], r"sampling.stop\[1\] has 257"),
        (["x"] * 17, "17 strings"),
    ],
)
def test_bad_stop_strings_are_named(stops: list[str], named: str) -> None:
    with pytest.raises(RuntimeInputError, match=named):
        TextStream(PIECES.__getitem__, stops)
