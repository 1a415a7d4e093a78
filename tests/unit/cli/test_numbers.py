"""Every number that a command takes: one that is none, or out of range, is told at once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from headway.cli.app import app

WRONG = (2, 64)
MAY_BE_NEGATIVE = {"--seed"}
ARGUMENTS = {
    "infer": ["text"],
    "tenant create": ["acme"],
    "tenant update": ["acme"],
    "quota set": ["acme"],
    "rollout start": ["sim", "v2"],
    "lab replay": ["trace"],
    "lab dispatch": ["--output", "steps"],
}


def leaves(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, each in getattr(group, "commands", {}).items():
        yield from leaves(each, (*path, name))
    if not hasattr(group, "commands"):
        yield " ".join(path), group


def options(kind: type) -> list[tuple[str, str]]:
    return [
        (command, parameter.opts[0])
        for command, found in leaves(typer.main.get_command(app))
        for parameter in found.params
        if parameter.type_descriptor.annotation is kind
    ]


@pytest.fixture(autouse=True)
def an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trace").touch()


def refused(command: str, option: str, value: str) -> str:
    arguments = [*command.split(), *ARGUMENTS.get(command, []), f"{option}={value}"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code in WRONG, result.output
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


def test_the_options_are_found() -> None:
    assert {("loadtest", "--rate"), ("infer", "--top-p"), ("tenant create", "--weight")} <= set(
        options(float)
    )
    assert {("gateway", "--port"), ("infer", "--max-tokens")} <= set(options(int))


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(("command", "option"), options(float))
def test_what_is_no_finite_number(command: str, option: str, value: str) -> None:
    assert option in refused(command, option, value)


@pytest.mark.parametrize("value", [str(2**70), str(-(2**70))])
@pytest.mark.parametrize(("command", "option"), options(int))
def test_what_is_beyond_64_bits(command: str, option: str, value: str) -> None:
    assert option in refused(command, option, value)


@pytest.mark.parametrize(
    ("command", "option"),
    [each for each in options(float) + options(int) if each[1] not in MAY_BE_NEGATIVE],
)
def test_what_is_below_zero(command: str, option: str) -> None:
    name = option.removeprefix("--").replace("-", "_")
    text = refused(command, option, "-1")
    assert option in text or name in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["rollout", "start", "sim", "v2", "--steps", "nan"],
        ["rollout", "start", "sim", "v2", "--steps", "1,inf"],
        ["rollout", "start", "sim", "v2", "--steps", "-5"],
        ["split", "set", "sim", "v1=nan"],
        ["split", "set", "sim", "v1=inf"],
        ["key", "rotate", "Ab3dEf7h", "--overlap", "9" * 400],
        ["loadtest", "--deadline-mix", "1s:nan"],
        ["loadtest", "--size", "fixed:inf"],
        ["loadtest", "--deadline-mix", "9" * 400 + "s"],
        ["lab", "goodput", "--speeds", "nan"],
        ["lab", "dispatch", "--output", "steps", "--decode-values", "inf"],
    ],
    ids=" ".join,
)
def test_numbers_within_text(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code in WRONG, result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["loadtest", "--rate", "inf"], "'--rate': Input should be less than or equal to 1000000"),
        (
            ["loadtest", "--seconds", "1e308"],
            "'--seconds': Input should be less than or equal to 1000000",
        ),
        (
            ["gateway", "--drain-seconds", "nan"],
            "--drain-seconds is nan; it must be a finite number",
        ),
        (["gateway", "--seed", str(2**70)], "it must be a whole number of at most 64 bits"),
    ],
)
def test_the_sentence_is_true(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert (result.exit_code, says in " ".join(result.output.split())) == (2, True), result.output
