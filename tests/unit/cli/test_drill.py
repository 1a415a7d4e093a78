import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headway.cli.app import app
from headway.drill import catalog
from headway.drill.catalog import Drill
from headway.drill.stage import Stage, require


async def good(stage: Stage) -> None:
    """All is well."""
    stage.figures["answers"] = 42


async def bad(stage: Stage) -> None:
    """Something does not hold."""
    require(False, "7 calls failed")


@pytest.fixture(autouse=True)
def two_drills(monkeypatch: pytest.MonkeyPatch) -> None:
    drills = {
        name: Drill(name, str(run.__doc__), run) for name, run in (("good", good), ("bad", bad))
    }
    monkeypatch.setattr(catalog, "DRILLS", drills)


def test_it_lists_the_drills_and_what_each_shows() -> None:
    result = CliRunner().invoke(app, ["drill", "--list"])
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "good               All is well.",
        "bad                Something does not hold.",
    ]


def test_a_failed_drill_is_told_and_ends_with_1(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    arguments = ["drill", "good", "bad", "--json", str(report), "--logs", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "FAILED: 7 calls failed; the logs are in" in result.stdout
    told = json.loads(report.read_text())
    assert [(each["drill"], each["passed"]) for each in told] == [("good", True), ("bad", False)]
    assert told[1]["reason"].startswith("7 calls failed")


def test_drills_that_pass_are_repeated_and_end_with_0() -> None:
    result = CliRunner().invoke(app, ["drill", "--only", "good", "--repeat", "3"])
    assert result.exit_code == 0
    assert "good on grpcio, 3 of 3" in result.stdout
    assert result.stdout.splitlines()[-1].split() == ["good", "on", "grpcio", "3", "of", "3"]


def test_an_unknown_drill_is_wrong_usage_and_names_those_there_are() -> None:
    result = CliRunner().invoke(app, ["drill", "nonsense"])
    assert result.exit_code == 2
    assert "'nonsense' is not a drill; there are: good, bad" in result.stderr


def test_help_and_documentation_agree_on_how_long_it_takes() -> None:
    told = CliRunner().invoke(app, ["drill", "--help"]).output
    written = (Path(__file__).parents[3] / "docs" / "drills.md").read_text()
    (minutes,) = re.findall(r"some (\w+) minutes", told)
    assert re.findall(r"all, some (\w+) minutes", written) == [minutes]
