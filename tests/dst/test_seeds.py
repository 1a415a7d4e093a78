"""Two thousand fleets with faults, in virtual time: what is promised holds at every turn."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.dst.__main__ import replay
from tests.dst.plan import Plan
from tests.dst.run import run_seed

ROOT = Path(__file__).parents[2]
SEEDS = 2_000
CHUNK = 50


@pytest.mark.parametrize("start", range(0, SEEDS, CHUNK))
def test_every_promise_holds(start: int) -> None:
    reports = [run_seed(seed) for seed in range(start, start + CHUNK)]
    failed = [report for report in reports if report.failure]
    assert not failed, "\n" + "\n".join(
        f"seed {report.seed}: {report.failure}\n  {replay(report.seed)}" for report in failed
    )
    # A run in which nothing happens shows nothing.
    assert sum(report.outcomes["ok"] for report in reports) > 20 * CHUNK / 2
    assert sum(bool(report.faults) for report in reports) > CHUNK / 2
    assert sum(report.num_executions for report in reports) > 5 * CHUNK


@pytest.mark.parametrize("seed", range(12))
def test_a_seed_runs_the_same_again(seed: int) -> None:
    first, second = run_seed(seed), run_seed(seed)
    assert first.digest == second.digest
    assert first.num_events == second.num_events > 30


def test_a_seed_runs_the_same_in_another_process_with_another_hash_of_strings() -> None:
    script = (
        "from tests.dst.run import run_seed; print([run_seed(seed).digest for seed in range(6)])"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert told[0] == told[1] == f"{[run_seed(seed).digest for seed in range(6)]}\n"


@pytest.mark.parametrize("seed", range(12))
def test_steps_of_the_wall_clock_change_nothing(seed: int) -> None:
    # Known fault 18.
    def stepped(plan: Plan) -> Plan:
        steps = tuple((at * 100_000_000, (-3, 10)[at % 2] * 10**9) for at in range(20))
        return dataclasses.replace(plan, wall_steps=steps)

    def steady(plan: Plan) -> Plan:
        return dataclasses.replace(plan, wall_steps=())

    assert run_seed(seed, change=stepped).digest == run_seed(seed, change=steady).digest


def test_a_failing_seed_prints_what_replays_it() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "tests.dst", "--seed", "3", "--trace"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    lines: list[str] = []
    report = run_seed(3, lines.append)
    assert told[: len(lines)] == lines
    assert f"  trace {report.digest}" in told
