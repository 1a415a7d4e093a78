from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from headway.cli.lab_dispatch import register


@pytest.fixture
def lab() -> typer.Typer:
    app = typer.Typer()
    register(app)
    return app


def test_dispatch_and_plot(lab: typer.Typer, tmp_path: Path) -> None:
    output = tmp_path / "out"
    arguments = ["--decode-values", "1,64", "--workload", "solo_prefill", "--output", str(output)]
    first = CliRunner().invoke(lab, ["dispatch", *arguments])
    assert first.exit_code == 0, first.output
    assert "4 cases in" in first.output
    assert {path.name for path in output.iterdir()} == {
        "summary.csv",
        "requests.csv",
        "trace.jsonl",
        "catalog.json",
    }
    again = CliRunner().invoke(lab, ["dispatch", *arguments])
    assert again.exit_code == 64
    assert "exists; name a directory that does not" in again.output
    plotted = CliRunner().invoke(lab, ["plot", str(output)])
    assert plotted.exit_code == 0, plotted.output
    assert (output / "tradeoff.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--decode-values", "1,x"], "numbers separated by commas, got 'x'"),
        (["--decode-values", "0"], "decode_value must be above 0"),
        (["--decode-values", "nan"], "got nan"),
        (["--workload", "none"], "there is no workload 'none'"),
        (["--policies", "none"], "there is no policy 'none'"),
        (["--mixed", "--catalog", "x.json"], "leave it out with --catalog"),
        (["--catalog", "x.json"], "catalog x.json"),
    ],
)
def test_bad_arguments_end_with_64_and_leave_no_directory(
    lab: typer.Typer, tmp_path: Path, arguments: list[str], message: str
) -> None:
    output = tmp_path / "out"
    result = CliRunner().invoke(lab, ["dispatch", *arguments, "--output", str(output)])
    assert result.exit_code == 64
    assert message in result.output
    assert not output.exists()
