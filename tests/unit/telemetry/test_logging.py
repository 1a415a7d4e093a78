import asyncio
import io
import json
import logging
from collections.abc import Iterator

import pytest

from headway.telemetry.logging import (
    JsonFormatter,
    TextFormatter,
    bind,
    configure,
    is_secret,
    masked,
    set_level,
)

KEY = "hw_a1B2c3D4_0123456789abcdefghijABCDEFGHIJ01"


def record(message: str, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("headway.test", logging.WARNING, __file__, 1, message, (), None)
    made.created = 1_767_323_045.678
    vars(made).update(extra)
    return made


@pytest.fixture
def restored_root() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_line_is_one_json_object_with_the_extra_fields() -> None:
    line = JsonFormatter().format(record("shed\nnow", retry_after_ms=40, model="minilm"))
    assert line == (
        '{"ts": "2026-01-02T03:04:05.678Z", "level": "warning", "logger": "headway.test", '
        '"message": "shed\\nnow", "retry_after_ms": 40, "model": "minilm"}'
    )


def test_bound_fields_reach_lines_inside_and_only_those() -> None:
    with bind(request_id="r-1"), bind(model="m"):
        inside = json.loads(JsonFormatter().format(record("x")))
    outside = json.loads(JsonFormatter().format(record("x")))
    assert (inside["request_id"], inside["model"]) == ("r-1", "m")
    assert "request_id" not in outside


async def test_bound_fields_follow_a_task_and_do_not_leak_to_its_siblings() -> None:
    async def line_of(request_id: str) -> str:
        with bind(request_id=request_id):
            await asyncio.sleep(0)  # noqa: TID251  lets the sibling run in between
            return str(json.loads(JsonFormatter().format(record("x")))["request_id"])

    assert await asyncio.gather(line_of("a"), line_of("b")) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"key {KEY} refused", "key hw_a1B2c3D4_*** refused"),
        (f"Bearer {KEY}", "Bearer hw_a1B2c3D4_***"),
        ("hw_short_1", "hw_short_1"),
        ("nothing secret", "nothing secret"),
    ],
)
def test_api_keys_are_masked_wherever_they_stand(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert json.loads(JsonFormatter().format(record(text)))["message"] == shown
    assert json.loads(JsonFormatter().format(record("x", note=text)))["note"] == shown


@pytest.mark.parametrize(
    ("field", "secret"),
    [
        ("fleet_token", True),
        ("token", True),
        ("api_key", True),
        ("authorization", True),
        ("password", True),
        ("tokens", False),
        ("num_tokens", False),
        ("key_id", False),
        ("api_key_sha256", False),
    ],
)
def test_fields_named_like_secrets_are_masked(field: str, secret: bool) -> None:
    assert is_secret(field) is secret
    shown = json.loads(JsonFormatter().format(record("x", **{field: "swordfish"})))[field]
    assert shown == ("***" if secret else "swordfish")


def test_a_secret_in_a_traceback_is_masked() -> None:
    failed = record("failed")
    error = ValueError(f"bad key {KEY}")
    failed.exc_info = (ValueError, error, None)
    line = JsonFormatter().format(failed)
    assert "ValueError: bad key hw_a1B2c3D4_***" in json.loads(line)["exception"]
    assert KEY not in line


def test_text_lines_are_for_people() -> None:
    line = TextFormatter().format(record("shed", retry_after_ms=40))
    assert line == "03:04:05.678 warning  headway.test: shed retry_after_ms=40"
    assert "\x1b[33mwarning" in TextFormatter(colour=True).format(record("shed"))


@pytest.mark.usefixtures("restored_root")
def test_configure_and_set_level_decide_what_is_written() -> None:
    out = io.StringIO()
    configure(level="warning", style="json", stream=out)
    log = logging.getLogger("headway.test")
    log.info("first")
    log.warning("second")
    set_level("debug")
    log.debug("third")
    lines = [json.loads(line)["message"] for line in out.getvalue().splitlines()]
    assert lines == ["second", "third"]
