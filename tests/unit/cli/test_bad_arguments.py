"""What people mistype is told before anything runs, in one line."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headway.cli.app import app


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["infer", "\udcff\udcfe"], "not valid UTF-8"),
        (["infer", "x", "--deadline-ms", "inf"], "--deadline-ms"),
        (["infer", "x", "--deadline-ms", "1e30"], "--deadline-ms"),
        (["loadtest", "--json", "/nonexistent/report.json"], "cannot write /nonexistent"),
        (["loadtest", "--json", "/"], "cannot write /"),
    ],
    ids=["bytes", "infinite", "ages", "no folder", "a folder"],
)
def test_wrong_usage_is_told_at_once(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert says in result.output
