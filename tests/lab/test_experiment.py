import csv
import json
from pathlib import Path

import pytest

from headway.errors import ConfigError
from headway.lab.dispatch.catalog import load_catalog, synthetic_catalog
from headway.lab.dispatch.experiment import cases, run_cases
from headway.lab.dispatch.plot import plot_experiment
from headway.lab.dispatch.workload import workloads


def test_there_are_sixteen_workloads_of_up_to_sixteen_requests() -> None:
    assert len(workloads()) == 16
    assert max(len(requests) for requests in workloads().values()) == 16


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    graphs = synthetic_catalog(mixed=True)
    to_run = cases(
        graphs,
        ["mixed_phases", "delayed_prefill"],
        [1.0, 64.0],
        ["fixed", "ongoing", "production"],
        [0],
    )
    done = []
    run_cases(tmp_path / "out", graphs, to_run, 600_000_000, done.append)
    assert done == to_run
    return tmp_path / "out"


def test_an_experiment_is_four_files(experiment: Path) -> None:
    summary = list(csv.DictReader((experiment / "summary.csv").open()))
    assert [(row["workload"], row["policy"], row["decode_value"]) for row in summary[:4]] == [
        ("mixed_phases", "fixed", "1.0"),
        ("mixed_phases", "fixed", "64.0"),
        ("mixed_phases", "ongoing", ""),
        ("mixed_phases", "production", ""),
    ]
    requests = list(csv.DictReader((experiment / "requests.csv").open()))
    assert len(requests) == 4 * (12 + 6)
    trace = [json.loads(line) for line in (experiment / "trace.jsonl").read_text().splitlines()]
    assert len(trace) == sum(int(row["num_steps"]) for row in summary)
    assert trace[0]["graph"] in trace[0]["scores"]
    assert load_catalog(experiment / "catalog.json") == synthetic_catalog(mixed=True)


def test_the_same_experiment_gives_the_same_bytes(experiment: Path, tmp_path: Path) -> None:
    graphs = synthetic_catalog(mixed=True)
    policies = ["fixed", "ongoing", "production"]
    again = cases(graphs, ["mixed_phases", "delayed_prefill"], [1.0, 64.0], policies, [0])
    run_cases(tmp_path / "again", graphs, again, 600_000_000)
    for name in ("summary.csv", "requests.csv", "trace.jsonl", "catalog.json"):
        assert (tmp_path / "again" / name).read_bytes() == (experiment / name).read_bytes()


def test_an_existing_directory_is_refused(experiment: Path) -> None:
    with pytest.raises(ConfigError, match="'out' exists"):
        run_cases(experiment, synthetic_catalog(), [], 1)


def test_plots_are_drawn_for_each_workload(experiment: Path) -> None:
    names = sorted(path.name for path in plot_experiment(experiment))
    assert names == [
        "gaps-delayed_prefill.png",
        "gaps-mixed_phases.png",
        "timeline-delayed_prefill.png",
        "timeline-mixed_phases.png",
        "tradeoff.png",
    ]


def test_a_directory_without_an_experiment_cannot_be_plotted(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no experiment"):
        plot_experiment(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "at least one graph"),
        ("{}", "a JSON array"),
        ("nonsense", "catalog graphs.json"),
        ('[{"name": "a"}]', "needs a name and a duration_ms"),
        ('[{"name": "a", "duration_ms": 0, "decode_capacity": 1}]', "duration_ms must be above 0"),
        ('[{"name": "a", "duration_ms": 1}]', "give it a prefill_capacity"),
        ('[{"name": "a", "duration_ms": 1, "rows": 1}]', "has no field 'rows'"),
        ('[{"name": "a", "duration_ms": "1"}]', "duration_ms must be a number"),
        ('[{"name": "a", "duration_ms": 1, "decode_capacity": 1, "width": 0}]', "width must be"),
    ],
)
def test_a_bad_catalog_is_refused_by_field(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "graphs.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_catalog(path)
