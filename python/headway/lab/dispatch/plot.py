"""Timelines, output gaps and the trade-off of an experiment, as SVG files."""

import csv
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot
from matplotlib.axes import Axes

from headway.errors import ConfigError

# Fixed ids and no date: the same experiment gives the same bytes.
matplotlib.rcParams.update({"svg.hashsalt": "headway", "font.size": 8})
_METADATA = {"Date": None}
_PROMPT, _ROW = "#d97706", "#2563eb"

Entry = dict[str, Any]


def plot_experiment(
    directory: Path, on_plot: Callable[[Path], None] = lambda path: None
) -> list[Path]:
    """Draws the experiment in `directory` into it; returns the files.

    Raises:
      ConfigError: the directory holds no experiment.
    """
    try:
        summary = list(csv.DictReader((directory / "summary.csv").open(encoding="utf-8")))
        trace = (directory / "trace.jsonl").read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(
            f"{directory.name!r} holds no experiment ({error.strerror}); "
            "make one with `headway lab dispatch --output`"
        ) from error
    runs: dict[str, dict[str, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for line in trace:
        entry = json.loads(line)
        if entry["seed"] == int(summary[0]["seed"]):
            runs[entry["workload"]][_label(entry)].append(entry)
    paths = []
    for workload, policies in runs.items():
        for draw, name in ((_timelines, "timeline"), (_gaps, "gaps")):
            path = directory / f"{name}-{workload}.svg"
            draw(workload, policies, path)
            on_plot(path)
            paths.append(path)
    path = directory / "tradeoff.svg"
    _tradeoff(summary, path)
    on_plot(path)
    return [*paths, path]


def _label(entry: Entry) -> str:
    value = entry["decode_value"]
    return str(entry["policy"]) if value in (None, "") else f"{entry['policy']} β={float(value):g}"


def _timelines(workload: str, policies: dict[str, list[Entry]], path: Path) -> None:
    """One row a lane: prompt work and decode rows, over the first steps of each policy."""
    height = 0.6 + 0.14 * sum(len(_lanes(steps)) for steps in policies.values())
    figure, axes = pyplot.subplots(
        len(policies), 1, figsize=(8, height + 0.35 * len(policies)), sharex=True, squeeze=False
    )
    for axis, (label, steps) in zip(axes[:, 0], policies.items(), strict=True):
        _timeline(axis, label, steps[:80])
    axes[-1, 0].set_xlabel("ms")
    figure.suptitle(f"{workload}: prompt work (orange) and decode rows (blue), first steps")
    _save(figure, path)


def _lanes(steps: list[Entry]) -> list[str]:
    names = {p["request"] for s in steps for p in s["prompts"]}
    names |= {row for s in steps for row in s["rows"]}
    return sorted(names, key=lambda name: (name.split("-")[0], int(name.split("-")[1])))


def _timeline(axis: Axes, label: str, steps: list[Entry]) -> None:
    lanes = {name: place for place, name in enumerate(_lanes(steps))}
    for kind, color in (("prompts", _PROMPT), ("rows", _ROW)):
        bars: dict[int, list[tuple[float, float]]] = defaultdict(list)
        for step in steps:
            for lane in step[kind]:
                place = lanes[lane["request"] if kind == "prompts" else lane]
                bars[place].append((step["start_ms"], step["end_ms"] - step["start_ms"]))
        for place, spans in bars.items():
            axis.broken_barh(
                spans, (place - 0.4, 0.8), facecolor=color, edgecolor="white", linewidth=0.3
            )
    axis.set_yticks(range(len(lanes)), list(lanes))
    axis.invert_yaxis()
    axis.set_title(label, loc="left", fontsize=8)
    axis.margins(x=0)


def _gaps(workload: str, policies: dict[str, list[Entry]], path: Path) -> None:
    """Share of deliveries within a gap: a stall is where a curve is late to reach 1."""
    figure, axis = pyplot.subplots(figsize=(5, 3))
    for label, steps in policies.items():
        gaps = sorted(_delivery_gaps(steps))
        if gaps:
            shares = [(place + 1) / len(gaps) for place in range(len(gaps))]
            axis.step(gaps, shares, where="post", label=label, linewidth=1)
    axis.set(xlabel="gap between deliveries of a request, ms", ylabel="share of deliveries")
    axis.set_xscale("log")
    axis.set_title(workload)
    if axis.has_data():
        axis.legend()
    _save(figure, path)


def _delivery_gaps(steps: list[Entry]) -> list[float]:
    last: dict[str, float] = {}
    gaps = []
    for step in steps:
        for item in step["published"]:
            if item["tokens"] > 0:
                if item["request"] in last:
                    gaps.append(step["end_ms"] - last[item["request"]])
                last[item["request"]] = step["end_ms"]
    return gaps


def _tradeoff(summary: list[dict[str, str]], path: Path) -> None:
    """Output rate against the worst gap, a point a case."""
    figure, axis = pyplot.subplots(figsize=(5, 3.4))
    series: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in summary:
        if row["max_gap_ms"]:
            point = (float(row["max_gap_ms"]), float(row["output_tokens_per_s"]))
            series[_label(row)].append(point)
    for label, points in series.items():
        gaps, rates = zip(*points, strict=True)
        axis.scatter(gaps, rates, s=14, label=label, alpha=0.7)
    axis.set(xlabel="longest gap between deliveries, ms", ylabel="output tokens/s")
    axis.set_xscale("log")
    axis.set_title("throughput and latency, one point a workload")
    if series:
        axis.legend()
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, metadata=_METADATA)
    pyplot.close(figure)
