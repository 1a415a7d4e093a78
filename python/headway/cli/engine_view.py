"""How the engine's steps are shown: a table, a sum, and a timeline."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

NS_PER_MS = 1e6
StepLine = Mapping[str, Any]
"""A step as `headway.engine.trace.StepRecord.as_json` writes it."""


def as_table(steps: Sequence[StepLine]) -> Table:
    """A row a step; times in ms, prices in output tokens."""
    table = Table(box=None, header_style="bold", padding=(0, 1))
    columns = ("step", "at s", "graph", "reason", "lanes", "prompt", "output", "predicted",
               "device", "handoff", "score/s", "value by part")  # fmt: skip
    for name in columns:
        left = name in ("graph", "reason", "value by part")
        table.add_column(name, justify="left" if left else "right", no_wrap=name != "reason")
    begun_ns = steps[0]["submitted_at_ns"]
    for step in steps:
        table.add_row(*_cells(step, begun_ns))
    return table


def summary(steps: Sequence[StepLine]) -> str:
    """What the steps come to."""
    device_ns = sum(step["device_ns"] for step in steps)
    wall_ns = sum(step["wall_ns"] for step in steps)
    output = sum(share["output_tokens"] for step in steps for share in step["lanes"])
    prompt = sum(share["prompt_tokens"] for step in steps for share in step["lanes"])
    drafted = sum(share["drafted"] for step in steps for share in step["lanes"])
    accepted = sum(share["accepted"] for step in steps for share in step["lanes"])
    errors = sorted(
        abs(step["device_ns"] / step["predicted_ns"] - 1)
        for step in steps
        if step["predicted_ns"] and step["device_ns"]
    )
    off = f"; costs off by {errors[len(errors) // 2]:.0%} (median)" if errors else ""
    drafts = f"; {accepted} of {drafted} drafts right" if drafted else ""
    reasons = ", ".join(f"{n} {reason}" for reason, n in _reasons(steps).most_common())
    return (
        f"{len(steps)} steps ({reasons}): {prompt} prompt and {output} output tokens in "
        f"{wall_ns / 1e9:.2f} s, {device_ns / max(1, wall_ns):.0%} of it on the device{off}{drafts}"
    )


def draw(steps: Sequence[StepLine], path: Path) -> None:
    """Draws a lane a line: prompt chunks, decode steps, and the device's time above them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(dict.fromkeys(s["request_id"] for step in steps for s in step["lanes"]))
    row_of = {name: index + 1 for index, name in enumerate(names)}
    figure, axes = pyplot.subplots(figsize=(14, 1.5 + 0.35 * (len(names) + 1)))
    begun_ns = steps[0]["completed_at_ns"] - steps[0]["wall_ns"]
    for step in steps:
        start = (step["completed_at_ns"] - step["wall_ns"] - begun_ns) / 1e9
        width = step["wall_ns"] / 1e9
        axes.barh(0, width, left=start, color="#999999", edgecolor="white", linewidth=0.3)
        for share in step["lanes"]:
            color = "#d98c3f" if share["prompt_tokens"] else "#4f81bd"
            axes.barh(row_of[share["request_id"]], width, left=start, color=color,
                      edgecolor="white", linewidth=0.3)  # fmt: skip
    axes.set_yticks(range(len(names) + 1), ["device", *names])
    axes.invert_yaxis()
    axes.set_xlabel("seconds; orange: prompt, blue: output")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _reasons(steps: Sequence[StepLine]) -> Counter[str]:
    return Counter(step["reason"] for step in steps)


def _cells(step: StepLine, begun_ns: int) -> list[str]:
    shares = step["lanes"]
    parts = step["parts"]
    shown = " ".join(
        f"{name[:4]} {value:.1f}" for name, value in parts.items() if abs(value) >= 0.05
    )
    return [
        str(step["step"]),
        f"{(step['submitted_at_ns'] - begun_ns) / 1e9:.2f}",
        step["graph"],
        step["reason"],
        f"{len(shares)}/{step['num_lanes']}",
        str(sum(share["prompt_tokens"] for share in shares) or ""),
        str(sum(share["output_tokens"] for share in shares) or ""),
        _ms(step["predicted_ns"]),
        _ms(step["device_ns"]),
        _ms(step["handoff_ns"]) + ("*" if step["drained"] else ""),
        f"{step['score']:.1f}",
        shown,
    ]


def _ms(ns: int) -> str:
    return f"{ns / NS_PER_MS:.1f}" if ns else "-"
