"""Small things that users met."""

import io
import json
import stat
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from headway import __version__
from headway.cli import answer
from headway.cli.app import app
from headway.rpc.convert import tensor_from_array
from headway.store.engine import make_private
from headway.v1 import inference_pb2, types_pb2


def test_the_version_is_an_option_too() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"headway {__version__}\n")


@pytest.mark.parametrize(
    ("command", "example", "not_shown"),
    [
        ("explain", "headway explain 5f1c9a02-3", "replicas drain"),
        ("log-level", "headway log-level debug", "replicas drain"),
        ("audit", "headway audit --limit 50", "replicas drain"),
        ("status", "headway status", "replicas drain"),
    ],
)
def test_help_shows_the_commands_own_examples(command: str, example: str, not_shown: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).stdout
    assert example in shown
    assert not_shown not in shown


def test_whole_numbers_are_shown_whole() -> None:
    digests = np.array([[1, 4038258813], [2, 9007199254740993]], np.int64)
    response = inference_pb2.InferResponse(
        output=types_pb2.Output(tensors=[tensor_from_array("digest", digests)])
    )
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(answer.as_panel(response, 0, pinned=False))
    text = console.export_text()
    assert "0: 1 4038258813" in text
    assert "1: 2 9007199254740993" in text
    assert "cosine" not in text


@pytest.mark.parametrize("replicas", ["v1@0", "v1,v2@-1", "v1@99"])
def test_a_bad_speed_names_the_option_that_gave_it(replicas: str) -> None:
    result = CliRunner().invoke(app, ["serve", "--replicas", replicas])
    assert result.exit_code == 64
    assert result.stderr.startswith("--replicas: serve.replicas[")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[gateway]\nport = 70000\n", "gateway.port = 70000"),
        ("[worker]\nspeed = 2\n", "worker.speed: unknown key"),
        (
            '[gateway.tls]\ncert_file = "c.pem"\nkey_file = "k.pem"\n',
            "gateway.tls is set and `headway serve` is a trial in plaintext",
        ),
    ],
)
def test_serve_judges_its_childrens_configuration_first(
    text: str, said: str, tmp_path: Path
) -> None:
    """It left with 69, after some of them had started."""
    file, state = tmp_path / "headway.toml", tmp_path / "state"
    file.write_text(text)
    result = CliRunner().invoke(app, ["serve", "--config", str(file), "--state-dir", str(state)])
    assert result.exit_code == 64
    assert said in result.stderr
    assert not state.exists()


def test_the_control_store_is_its_owners(tmp_path: Path) -> None:
    file = tmp_path / "headway" / "control.db"
    make_private(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    make_private(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_load_test_without_an_answer_tells_no_times(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    result = CliRunner().invoke(
        app,
        ["loadtest", "--address", "127.0.0.1:1", "--clients", "2", "--seconds", "1",
         "--warmup", "0", "--json", str(report)],
    )  # fmt: skip
    assert result.exit_code == 69
    assert "no request was answered" in result.stdout
    assert "p99.9" not in result.stdout
    # Two clients, ten tries a second each.
    assert json.loads(report.read_text())["offered"] <= 22
