"""The only place that draws. Matplotlib comes with the `lab` extra and is imported on use."""

from pathlib import Path
from typing import Any

from headway.errors import HeadwayError


def new_axes(title: str, across: str, up: str) -> tuple[Any, Any]:
    """A figure and its axes.

    Raises:
      HeadwayError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise HeadwayError(
            "plots need matplotlib: pip install 'headway[lab]', or leave the plot out"
        ) from error
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    axes.set(title=title, xlabel=across, ylabel=up)
    axes.grid(alpha=0.3)
    return figure, axes


def save(figure: Any, path: Path) -> None:
    """Writes a figure; the suffix chooses the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=144)
