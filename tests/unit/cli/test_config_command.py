import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headway.cli.app import app

GOOD = """
[gateway]
insecure_no_auth = true
fleet_token = "swordfish"
port = 6000

[[worker.models]]
model = "minilm"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "headway.toml"
    path.write_text(GOOD)
    return path


def test_a_good_file_is_ok(file: Path) -> None:
    result = CliRunner().invoke(app, ["config", "check", str(file)])
    assert (result.exit_code, result.stdout) == (0, f"{file}: ok (gateway, worker)\n")


def test_no_file_checks_the_environment() -> None:
    result = CliRunner().invoke(app, ["config", "check"], env={"HEADWAY_WORKER__PORT": "70000"})
    assert result.exit_code == 64
    assert "HEADWAY_WORKER__PORT: worker.port = '70000': must be less than" in result.stderr
    result = CliRunner().invoke(app, ["config", "check"])
    assert (result.exit_code, result.stdout) == (
        0,
        "environment: ok (nothing is set, all defaults)\n",
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["config", "check"], "[gateway]\nprot = 1\n"),
        (["config", "show"], "[gateway]\nprot = 1\n"),
        (["gateway"], "[gateway]\nprot = 1\n"),
        (["worker"], "[worker]\nprot = 1\n"),
        (["serve"], "[serve]\nprot = 1\n"),
    ],
)
def test_an_unknown_key_ends_every_command_with_64(
    file: Path, arguments: list[str], text: str
) -> None:
    file.write_text(text)
    option = [str(file)] if arguments[-1] == "check" else ["--config", str(file)]
    result = CliRunner().invoke(app, [*arguments, *option])
    assert result.exit_code == 64
    section = text[1:].split("]")[0]
    expected = f"{section}.prot: unknown key; did you mean {section}.port?"
    assert expected in result.stdout + result.stderr


def test_show_tells_values_with_their_sources(file: Path) -> None:
    result = CliRunner().invoke(
        app, ["config", "show", "--config", str(file)], env={"HEADWAY_GATEWAY__HTTP_PORT": "7"}
    )
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert f"gateway.port = 6000  # file {file}" in lines
    assert "gateway.http_port = 7  # env HEADWAY_GATEWAY__HTTP_PORT" in lines
    assert "gateway.control_port = 50052  # default" in lines
    assert "serve.port = 50051  # default" in lines


def test_show_masks_secrets(file: Path) -> None:
    result = CliRunner().invoke(app, ["config", "show", "--config", str(file)])
    assert f'gateway.fleet_token = "***"  # file {file}' in result.stdout.splitlines()
    as_json = CliRunner().invoke(app, ["config", "show", "--config", str(file), "--json"])
    assert "swordfish" not in result.stdout + as_json.stdout


def test_a_section_that_does_not_work_is_shown_as_it_was_set(tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text(
        '[gateway]\nport = 70000\nfleet_token = "swordfish"\n'
        '[gateway.store]\nurl = "postgresql://me:swordfish@db/headway"\n'
    )
    result = CliRunner().invoke(app, ["config", "show", "--config", str(bad)])
    lines = result.stdout.splitlines()
    assert result.exit_code == 64
    assert f"gateway.port = 70000  # file {bad}" in lines
    assert "gateway.control_port = 50052  # default" in lines
    assert f'gateway.store.url = "***"  # file {bad}' in lines
    assert "gateway is not usable as it is:" in lines
    assert "swordfish" not in result.stdout


def test_show_as_json_is_for_programs(file: Path) -> None:
    result = CliRunner().invoke(app, ["config", "show", "--config", str(file), "--json"])
    shown = json.loads(result.stdout)
    rows = {row["key"]: row for row in shown["settings"]}
    assert rows["gateway.port"] == {
        "key": "gateway.port",
        "value": 6000,
        "source": "file",
        "name": str(file),
    }
    assert rows["worker.models"]["value"][0]["model"] == "minilm"
    assert shown["problems"] == {}


def test_a_section_that_is_missing_and_needed_is_told_without_failing() -> None:
    result = CliRunner().invoke(app, ["config", "show"])
    assert result.exit_code == 0
    assert "gateway is not usable as it is:" in result.stdout
    assert "fleet_token is not set" in result.stdout
