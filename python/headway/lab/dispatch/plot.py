"""Timelines, output gaps and the trade-off of an experiment, as PNG files."""

import csv
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from headway.errors import ConfigError

matplotlib.rcParams.update({"font.size": 8, "savefig.dpi": 100})
_PROMPT, _ROW = "#d97706", "#2563eb"
_GRAPHS = matplotlib.colormaps["tab20b"]
_SHOWN = 80

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
            path = directory / f"{name}-{workload}.png"
            draw(workload, policies, path)
            on_plot(path)
            paths.append(path)
    path = directory / "tradeoff.png"
    _tradeoff(summary, path)
    on_plot(path)
    return [*paths, path]


def _label(entry: Entry) -> str:
    value = entry["decode_value"]
    return str(entry["policy"]) if value in (None, "") else f"{entry['policy']} β={float(value):g}"


def _timelines(workload: str, policies: dict[str, list[Entry]], path: Path) -> None:
    """The graphs, and a row a lane with its prompt work and decode rows, over the first steps."""
    shown = {label: steps[:_SHOWN] for label, steps in policies.items()}
    graphs = list(dict.fromkeys(step["graph"] for steps in shown.values() for step in steps))
    lanes = sum(len(_lanes(steps)) + 1 for steps in shown.values())
    figure, axes = pyplot.subplots(
        len(shown),
        1,
        figsize=(8, 1.2 + 0.14 * lanes + 0.35 * len(shown)),
        sharex=True,
        squeeze=False,
        layout="constrained",
    )
    colors = {name: _GRAPHS(place % _GRAPHS.N) for place, name in enumerate(graphs)}
    for axis, (label, steps) in zip(axes[:, 0], shown.items(), strict=True):
        _timeline(axis, label, steps, colors)
    axes[-1, 0].set_xlabel("ms")
    patches = [Patch(color=color, label=name) for name, color in colors.items()]
    figure.legend(handles=patches, loc="outside lower center", ncols=6, fontsize=6)
    figure.suptitle(f"{workload}: graphs, prompt work (orange) and decode rows (blue)")
    _save(figure, path)


def _lanes(steps: list[Entry]) -> list[str]:
    names = {p["request"] for s in steps for p in s["prompts"]}
    names |= {row for s in steps for row in s["rows"]}
    return sorted(names, key=lambda name: (name.split("-")[0], int(name.split("-")[1])))


def _timeline(axis: Axes, label: str, steps: list[Entry], colors: dict[str, Any]) -> None:
    lanes = {name: place for place, name in enumerate(["graph", *_lanes(steps)])}
    bars: dict[tuple[int, Any], list[tuple[float, float]]] = defaultdict(list)
    for step in steps:
        span = (step["start_ms"], step["end_ms"] - step["start_ms"])
        bars[0, colors[step["graph"]]].append(span)
        for prompt in step["prompts"]:
            bars[lanes[prompt["request"]], _PROMPT].append(span)
        for row in step["rows"]:
            bars[lanes[row], _ROW].append(span)
    for (place, color), spans in bars.items():
        axis.broken_barh(
            spans, (place - 0.4, 0.8), facecolor=color, edgecolor="white", linewidth=0.3
        )
    axis.set_yticks(range(len(lanes)), list(lanes))
    axis.invert_yaxis()
    axis.set_title(label, loc="left", fontsize=8)
    axis.margins(x=0)


def _gaps(workload: str, policies: dict[str, list[Entry]], path: Path) -> None:
    """Share of deliveries that waited longer than a gap: a stall is a tail to the right."""
    figure, axis = pyplot.subplots(figsize=(5, 3), layout="constrained")
    for place, (label, steps) in enumerate(policies.items()):
        gaps = sorted(_delivery_gaps(steps))
        if gaps:
            shares = [1 - index / len(gaps) for index in range(len(gaps))]
            style = ("-", "--", "-.", ":")[place % 4]
            axis.step(gaps, shares, where="post", label=label, linewidth=1.2, linestyle=style)
    axis.set(xlabel="gap between deliveries of a request, ms", ylabel="share as long or longer")
    axis.set_yscale("log")
    _plain_log(axis)
    axis.set_title(workload)
    if axis.has_data():
        axis.legend()
    _save(figure, path)


def _plain_log(axis: Axes) -> None:
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.xaxis.set_minor_locator(NullLocator())


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
    """Output rate against the longest gap, each over the best of its workload."""
    figure, axis = pyplot.subplots(figsize=(5, 3.4), layout="constrained")
    series: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for workload in dict.fromkeys(row["workload"] for row in summary):
        rows = [row for row in summary if row["workload"] == workload and row["max_gap_ms"]]
        shortest = min((float(row["max_gap_ms"]) for row in rows), default=1.0)
        fastest = max((float(row["output_tokens_per_s"]) for row in rows), default=1.0)
        for row in rows:
            rate = float(row["output_tokens_per_s"]) / fastest
            series[_label(row)].append((float(row["max_gap_ms"]) / shortest, rate))
    for place, (label, points) in enumerate(series.items()):
        gaps, rates = zip(*points, strict=True)
        axis.scatter(gaps, rates, s=18, label=label, alpha=0.7, marker="osD^x+"[place % 6])
    axis.set(
        xlabel="longest gap, over the shortest of any policy",
        ylabel="output rate, over the highest",
    )
    _plain_log(axis)
    axis.set_title("throughput and latency, one point a workload; top left is best")
    if series:
        axis.legend()
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path)
    pyplot.close(figure)
