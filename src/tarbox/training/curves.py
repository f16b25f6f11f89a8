"""The learning curves of a run, from its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tarbox.evaluation.plots import COLOURS, GRID_COLOUR, new_figure
from tarbox.training.events import read_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVES: Final = "curves.png"


def draw_curves(run: Path) -> None:
    """Two panels: the loss of each task, and the validation MRR of each level, by epoch."""
    epochs, validations = _lines(run)
    if not epochs and not validations:  # a model that has nothing to learn has no curves
        return
    figure, (losses, ranks) = new_figure(1, (8.0, 3.2), columns=2)
    _draw(losses, "loss per task", epochs, "losses")
    _draw(ranks, "validation MRR", validations, "levels")
    figure.savefig(run / CURVES, dpi=130)


def _lines(run: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(the epochs, the validations); of a model that is trained in parts, the epochs of the last part."""
    lines = read_metrics(run)
    epochs, validations = ([line for line in lines if line["event"] == event] for event in ("epoch", "validation"))
    last = epochs[-1].get("part") if epochs else None
    return [line for line in epochs if line.get("part") == last], validations


def _draw(panel: Axes, title: str, lines: Sequence[Mapping[str, Any]], key: str) -> None:
    panel.set_title(title, loc="left", fontsize=10)
    panel.set_xlabel("epoch", fontsize=9)
    panel.grid(color=GRID_COLOUR, linewidth=0.7)
    names = list(lines[0][key]) if lines else []
    for name, colour in zip(names, COLOURS, strict=False):
        values = [line[key][name] for line in lines]
        marker = "o" if len(lines) < 30 else None
        panel.plot([line["epoch"] for line in lines], values, color=colour, label=name, marker=marker, markersize=3)
    if names:
        panel.legend(frameon=False, fontsize=8)
