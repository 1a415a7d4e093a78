"""After a run: what the core's call costs against plain Python and a call that does nothing."""

import re
from collections.abc import Iterable
from typing import Any

import pytest

KINDS = ("core", "plain_python", "null_call")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the ratios of each group, and the growth from 1,000 to the largest size."""
    session: Any = getattr(terminalreporter.config, "_benchmarksession", None)
    medians = _medians(() if session is None else session.benchmarks)
    rows = [(group, each) for group, each in medians.items() if "core" in each]
    if not rows:
        return
    terminalreporter.section("ratios of medians")
    header = f"{'':34}{'core us':>11}{'plain/core':>12}{'core/null':>11}{'growth':>9}"
    terminalreporter.write_line(header)
    for group, each in rows:
        plain, null = each.get("plain_python"), each.get("null_call")
        terminalreporter.write_line(
            f"{group:34}{each['core'] * 1e6:11.3f}"
            + (f"{plain / each['core']:12.1f}" if plain else f"{'-':>12}")
            + (f"{each['core'] / null:11.1f}" if null else f"{'-':>11}")
            + _growth(group, each["core"], medians)
        )


def _medians(benchmarks: Iterable[Any]) -> dict[str, dict[str, float]]:
    medians: dict[str, dict[str, float]] = {}
    for benchmark in benchmarks:
        kind = benchmark.name.removeprefix("test_").partition("[")[0]
        if benchmark.group and kind in KINDS and benchmark.stats.data:
            medians.setdefault(benchmark.group, {})[kind] = benchmark.stats.median
    return medians


def _growth(group: str, core: float, medians: dict[str, dict[str, float]]) -> str:
    """Against the group of the same name with 1,000 of whatever it counts."""
    smaller = medians.get(re.sub(r"\b\d+(?= \w+$)", "1000", group), {}).get("core")
    return f"{core / smaller:9.2f}" if smaller and smaller != core else f"{'':9}"
