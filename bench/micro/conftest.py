"""After a run: what the core's call costs against plain Python and a call that does nothing."""

import re
from collections.abc import Iterable
from typing import Any

import pytest

KINDS = ("core", "plain_python", "null_call", "bare_read")
"""`bare_read` touches as much memory at the same random places, and does nothing with it."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the ratios of each group, and the growth from 1,000 to the largest size.

    Beside it the growth of a bare read at the same places, where there is one: what is left of the
    other is the machine's memory.
    """
    session: Any = getattr(terminalreporter.config, "_benchmarksession", None)
    medians = _medians(() if session is None else session.benchmarks)
    rows = [(group, each) for group, each in medians.items() if "core" in each]
    if not rows:
        return
    terminalreporter.section("ratios of medians")
    header = f"{'':34}{'core us':>11}{'plain/core':>12}{'core/null':>11}{'growth':>9}"
    terminalreporter.write_line(f"{header}{'of read':>9}")
    for group, each in rows:
        plain, null = each.get("plain_python"), each.get("null_call")
        terminalreporter.write_line(
            f"{group:34}{each['core'] * 1e6:11.3f}"
            + (f"{plain / each['core']:12.1f}" if plain else f"{'-':>12}")
            + (f"{each['core'] / null:11.1f}" if null else f"{'-':>11}")
            + _growth(group, "core", medians)
            + _growth(group, "bare_read", medians)
        )


def _medians(benchmarks: Iterable[Any]) -> dict[str, dict[str, float]]:
    medians: dict[str, dict[str, float]] = {}
    for benchmark in benchmarks:
        kind = benchmark.name.removeprefix("test_").partition("[")[0]
        if benchmark.group and kind in KINDS and benchmark.stats.data:
            medians.setdefault(benchmark.group, {})[kind] = benchmark.stats.median
    return medians


def _growth(group: str, kind: str, medians: dict[str, dict[str, float]]) -> str:
    """Against the group of the same name with 1,000 of whatever it counts."""
    smaller = medians.get(re.sub(r"\b\d+(?= \w+$)", "1000", group), {}).get(kind)
    median = medians[group].get(kind)
    is_larger = median and smaller and smaller != median
    return f"{median / smaller:9.2f}" if is_larger else f"{'':9}"
