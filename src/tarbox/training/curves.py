"""The learning curves of a run, from its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tarbox.evaluation.plots import COLOURS
from tarbox.training.events import read_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVES: Final = "curves.png"


def draw_curves(run: Path) -> None:
    """Two panels: the loss of each task, and the validation MRR of each level, by epoch."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = read_metrics(run)
    epochs = [line for line in lines if line["event"] == "epoch"]
    validations = [line for line in lines if line["event"] == "validation"]
    figure = Figure(figsize=(8.0, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    losses, ranks = figure.subplots(1, 2)
    _draw(losses, "loss per task", epochs, "losses")
    _draw(ranks, "validation MRR", validations, "levels")
    figure.savefig(run / CURVES, dpi=130)


def _draw(panel: Axes, title: str, lines: Sequence[Mapping[str, Any]], key: str) -> None:
    panel.set_title(title, loc="left", fontsize=10)
    panel.set_xlabel("epoch", fontsize=9)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(color="#DDDDDD", linewidth=0.7)
    names = list(lines[0][key]) if lines else []
    for name, colour in zip(names, COLOURS, strict=False):
        values = [line[key][name] for line in lines]
        marker = "o" if len(lines) < 30 else None
        panel.plot([line["epoch"] for line in lines], values, color=colour, label=name, marker=marker, markersize=3)
    if names:
        panel.legend(frameon=False, fontsize=8)
