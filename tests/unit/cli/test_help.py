import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from headway.cli.app import app

COMMANDS = [
    "serve",
    "gateway",
    "worker",
    "infer",
    "loadtest",
    "config check",
    "config show",
    "key new",
    "version",
    "rollout start",
    "rollout watch",
    "rollout show",
    "rollout list",
    "rollout pause",
    "rollout resume",
    "rollout promote",
    "rollout abort",
    "rollout simulate",
    "verify-rollout",
    "drill",
]
WITH_EXAMPLES = [
    "serve",
    "gateway",
    "worker",
    "infer",
    "loadtest",
    "config check",
    "key new",
    "rollout",
    "verify-rollout",
    "drill",
]


def help_of(*command: str) -> str:
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    return " ".join(result.stdout.split())


def test_the_command_lists_what_there_is() -> None:
    text = help_of()
    for command in ("serve", "gateway", "worker", "infer", "loadtest", "config", "key", "version"):
        assert f"│ {command} " in text
    assert "Start here headway serve" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_says_what_it_does(command: str) -> None:
    found = typer.main.get_command(app)
    for name in command.split():
        found = found.commands[name]  # type: ignore[attr-defined]  a group, by the list above
    options = [one for one in found.params if one.param_type_name == "option"]
    assert all(one.help for one in options)  # type: ignore[attr-defined]  options have help


@pytest.mark.parametrize("command", WITH_EXAMPLES)
def test_commands_show_examples(command: str) -> None:
    text = help_of(*command.split())
    assert "Example" in text
    assert f"headway {command}" in text


@pytest.mark.parametrize(
    ("command", "default"),
    [
        ("gateway", "Data port: inference. 0: any free one. Default: 50051."),
        ("gateway", "Control port: operators and workers. 0: any. Default: 50052."),
        ("gateway", "/metrics, /healthz, /readyz. 0: any. Default: 9100."),
        ("worker", "Default: 127.0.0.1:50052."),
        ("serve", "Default: v1,v1@0.6,v2; with --simulated v1,v1,v1@0.6."),
        ("infer", "[default: 127.0.0.1:50051]"),
        ("loadtest", "Length of the measured part, in s. [default: 10]"),
    ],
)
def test_defaults_are_told_with_their_units(command: str, default: str) -> None:
    assert default in help_of(command).replace("│ ", "").replace(" │", "")


@pytest.mark.parametrize("arguments", [["nonsense"], ["infer"], ["loadtest", "--clients", "0"]])
def test_wrong_usage_leaves_with_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2


def test_the_command_line_loads_nothing_heavy() -> None:
    script = (
        "import sys, headway.cli; "
        "print([name for name in ('grpc', 'pydantic', 'numpy', 'aiohttp') if name in sys.modules])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert loaded.stdout == "[]\n"


def test_version_names_what_it_runs_on() -> None:
    result = CliRunner().invoke(app, ["version"])
    assert result.stdout.splitlines()[0].split() == ["headway", "0.1.0"]
    assert [line.split()[0] for line in result.stdout.splitlines()] == [
        "headway",
        "python",
        "grpcio",
        "pygrpc-native",
        "onnxruntime",
    ]
