"""Runs policies over workloads and writes what came of it."""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import IO, Any

from headway.errors import ConfigError
from headway.lab.dispatch.catalog import NS_PER_MS, GraphSpec, dump_catalog
from headway.lab.dispatch.fixed_value import FixedValuePolicy
from headway.lab.dispatch.measure import RequestRow, SummaryRow, request_rows, summary_row
from headway.lab.dispatch.ongoing import OngoingServicePolicy
from headway.lab.dispatch.policy import Policy
from headway.lab.dispatch.production import ProductionPolicy
from headway.lab.dispatch.simulator import Run, Simulation
from headway.lab.dispatch.workload import workload

MakePolicy = Callable[[], Policy]


@dataclass(frozen=True)
class Case:
    """One run."""

    workload: str
    policy: str
    decode_value: float | None
    seed: int
    make_policy: MakePolicy


def cases(
    graphs: Sequence[GraphSpec],
    workload_names: Sequence[str],
    decode_values: Sequence[float],
    policies: Sequence[str],
    seeds: Sequence[int],
) -> list[Case]:
    """All combinations; "fixed" once a decode value.

    Raises:
      ConfigError: an unknown policy or workload, or a decode value not above 0.
    """
    makers = [maker for name in policies for maker in _makers(name, graphs, decode_values)]
    for name in workload_names:
        workload(name)
    return [
        Case(name, policy, value, seed, make)
        for name, (policy, value, make), seed in product(workload_names, makers, seeds)
    ]


def _makers(
    name: str, graphs: Sequence[GraphSpec], decode_values: Sequence[float]
) -> list[tuple[str, float | None, MakePolicy]]:
    if name == "fixed":
        for value in decode_values:
            FixedValuePolicy(graphs, value)
        return [
            (name, value, lambda value=value: FixedValuePolicy(graphs, value))  # type: ignore[misc]
            for value in decode_values
        ]
    if name == "ongoing":
        return [(name, None, lambda: OngoingServicePolicy(graphs))]
    if name == "production":
        return [(name, None, lambda: ProductionPolicy(graphs))]
    raise ConfigError(f"there is no policy {name!r}; there are fixed, ongoing, production")


class Output:
    """A new directory with `summary.csv`, `requests.csv`, `trace.jsonl` and `catalog.json`."""

    def __init__(self, directory: Path, graphs: Sequence[GraphSpec]) -> None:
        """Refuses a directory that exists: a result is never mixed with an older one."""
        try:
            directory.mkdir(parents=True)
        except FileExistsError as error:
            raise ConfigError(
                f"output {directory.name!r} exists; name a directory that does not"
            ) from error
        except OSError as error:
            raise ConfigError(f"output {directory.name!r}: {error.strerror}") from error
        dump_catalog(graphs, directory / "catalog.json")
        self._files = [
            (directory / name).open("w", encoding="utf-8", newline="")
            for name in ("summary.csv", "requests.csv", "trace.jsonl")
        ]
        self._summary = _table(self._files[0], SummaryRow)
        self._requests = _table(self._files[1], RequestRow)

    def write(self, case: Case, run: Run) -> None:
        """One case."""
        key = {
            "workload": case.workload,
            "policy": case.policy,
            "decode_value": case.decode_value,
            "seed": case.seed,
        }
        self._summary.writerow(key | asdict(summary_row(run)))
        for row in request_rows(run):
            self._requests.writerow(key | asdict(row))
        for entry in _trace(run):
            self._files[2].write(json.dumps(key | entry) + "\n")

    def close(self) -> None:
        """Closes the files."""
        for file in self._files:
            file.close()


def run_cases(
    directory: Path,
    graphs: Sequence[GraphSpec],
    all_cases: Sequence[Case],
    horizon_ns: int,
    on_case: Callable[[Case], None] = lambda case: None,
) -> None:
    """Runs the cases in order and writes each; `on_case` is told of every one that is done."""
    output = Output(directory, graphs)
    try:
        for case in all_cases:
            simulation = Simulation(graphs, workload(case.workload), case.make_policy(), case.seed)
            output.write(case, simulation.run(horizon_ns))
            on_case(case)
    finally:
        output.close()


def _table(file: IO[str], row: type) -> "csv.DictWriter[str]":
    names = ["workload", "policy", "decode_value", "seed", *(f.name for f in fields(row))]
    writer = csv.DictWriter(file, names)
    writer.writeheader()
    return writer


def _trace(run: Run) -> Iterator[dict[str, Any]]:
    for step in run.steps:
        selection = step.selection
        yield {
            "start_ms": step.started_at_ns / NS_PER_MS,
            "end_ms": step.ended_at_ns / NS_PER_MS,
            "graph": run.graphs[selection.graph].name,
            "reason": selection.reason,
            "score": selection.score,
            "prompts": [
                {"request": run.requests[request].spec.name, "tokens": tokens}
                for request, tokens in selection.prompts
            ],
            "rows": [run.requests[request].spec.name for request in selection.rows],
            "published": [
                {"request": run.requests[request].spec.name, "tokens": tokens, "ended": ended}
                for request, tokens, ended in step.published
            ],
            "scores": {run.graphs[graph].name: score for graph, score in selection.scores},
        }
