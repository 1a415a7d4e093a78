import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headway.cli.app import app
from headway.cli.load_view import as_table
from headway.loadtest import LoadReport
from headway.loadtest.plan import LoadPlan
from headway.loadtest.report import DeadlineClassReport
from headway.loadtest.workload import parse_deadline_mix

FIGURES = {"p50": 12.5, "p90": 20.0, "p95": 25.0, "p99": 40.0, "p99.9": 80.0, "max": 81.0}
REPORT = LoadReport(
    seconds=10.0,
    offered=2000,
    dropped_by_client=5,
    ok=1900,
    in_time=1800,
    goodput_ratio=0.9,
    throughput_per_s=190.0,
    goodput_per_s=180.0,
    latency_ms={**FIGURES, "mean": 14.0},
    queued_ms={**FIGURES, "mean": 14.0},
    device_ms={**FIGURES, "mean": 14.0},
    mean_batch=11.7,
    units_per_s=34000.0,
    hedged=3,
    repeated=2,
    errors={"OVERLOADED": 95},
    batch_reasons={"QUANTUM": 1900},
    versions={"v1": 1710, "v2": 190},
    replicas={"replica-a": 1900},
    deadlines=[DeadlineClassReport(120, 600, 500), DeadlineClassReport(900, 1400, 1300)],
)


def test_the_table_has_all_that_was_measured() -> None:
    from rich.console import Console

    plan = LoadPlan(parse_deadline_mix("120ms:0.3,900ms:0.7"), seconds=10, rate_per_s=200)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(as_table(REPORT, plan, 7))
    shown = console.export_text()
    for part in (
        "open loop, 200/s poisson for 10.0 s, seed 7",
        "2000 (200.0/s), 5 of them dropped by this client",
        "1900 (190.0/s)",
        "1800 within the deadline (180.0/s), 90.0 % of the offered",
        "120 ms: 500/600 83.3 %",
        "900 ms: 1300/1400 92.9 %",
        "OVERLOADED 95 (4.8 %)",
        "mean 11.7 requests; closed by QUANTUM 1900 (100.0 %)",
        "v1 1710 (90.0 %), v2 190 (10.0 %)",
        "34000 units/s; hedged 3, executed again 2",
        "latency  12.5  20.0  25.0  40.0   80.0  81.0  14.0",
    ):
        assert part in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rate", "5", "--clients", "5"], "give one of them"),
        (["--deadline-mix", "120ms:0.3"], "they must add up to 1"),
        (["--size", "huge"], "is not a number"),
        (["--size", "fixed:0"], "is not a whole number in [1, 1000000]"),
    ],
)
def test_a_load_that_makes_no_sense_is_wrong_usage(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["loadtest", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr


def test_nobody_there_is_reported_and_leaves_with_69(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    load = ["--clients", "2", "--seconds", "0.2", "--warmup", "0", "--seed", "7"]
    result = CliRunner().invoke(
        app, ["loadtest", "--address", "127.0.0.1:1", *load, "--json", str(file)]
    )
    assert result.exit_code == 69
    shown = json.loads(file.read_text())
    assert (shown["seed"], shown["ok"], list(shown["errors"])) == (7, 0, ["UNREACHABLE"])
    assert "UNREACHABLE" in result.stdout
