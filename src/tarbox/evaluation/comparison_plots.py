"""A comparison as bars: one colour per model, one panel per level. matplotlib is loaded when drawing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tarbox.core.errors import BenchmarkError
from tarbox.core.ids import Level
from tarbox.evaluation.comparison import Comparison, columns, common_templates
from tarbox.evaluation.comparison_tables import ANSWERS, AVERAGE_HEADING, COMMON, NAMES
from tarbox.evaluation.plots import AVERAGE_GAP, BAR_SHARE, COLOURS, GRID_COLOUR, INK, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HATCHES: Final = ("", "////", "....")
"""Beyond as many models as there are colours, the same colours come again with a pattern."""


def draw_comparison(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Bars of the mean MRR per template and their average; whiskers: the deviation over runs."""
    levels = comparison.levels()
    rows = [row for row in comparison.measured if row.figures]
    if not levels:
        raise BenchmarkError("there are no results to plot")
    widest = max(len(columns(rows, level)) for level in levels) + 1
    width = min(24.0, max(6.5, 1.6 + widest * max(0.55, 0.16 * len(rows))))
    figure, panels = new_figure(len(levels), (width, 2.9 * len(levels) + 0.9))
    for panel, level in zip(panels, levels, strict=True):
        _draw_level(panel, comparison, level)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 8), frameon=False, fontsize=8.5)
    protocol = comparison.about.get("protocol", "")
    title = f"{NAMES['mrr']} per template ({protocol} protocol, {comparison.about.get('split', '')})"
    save_figure(figure, path, title)


def _draw_level(panel: Axes, comparison: Comparison, level: Level) -> None:
    rows = [row for row in comparison.measured if row.figures]
    templates = columns(rows, level)
    shared = common_templates(comparison.rows, level)
    average = AVERAGE_HEADING if len(shared) == len(templates) else COMMON
    places = {**{name: float(at) for at, name in enumerate(templates)}, average: len(templates) + AVERAGE_GAP}
    averaged = {**{name: [name] for name in templates}, average: shared}
    size = BAR_SHARE / len(rows)
    for number, row in enumerate(rows):
        shift = (number - (len(rows) - 1) / 2) * size
        found = {name: row.average(level, "mrr", over) for name, over in averaged.items()}
        cells = {name: cell for name, cell in found.items() if cell is not None}
        at = [places[name] + shift for name in cells]
        heights = [100 * cell.mean for cell in cells.values()]
        reach = [100 * (cell.deviation or 0.0) for cell in cells.values()]
        colour, hatch = COLOURS[number % len(COLOURS)], _HATCHES[number // len(COLOURS) % len(_HATCHES)]
        panel.bar(at, heights, size * 0.92, color=colour, hatch=hatch, edgecolor="white", linewidth=0, label=row.name)
        if any(reach):
            panel.errorbar(at, heights, reach, fmt="none", ecolor=INK, elinewidth=0.8, capsize=1.5, zorder=3)
    panel.set_xticks(list(places.values()), list(places))
    panel.set_ylabel(f"{NAMES['mrr']} x 100", color=INK)
    panel.set_title(ANSWERS[level], loc="left", fontsize=9.5, color=INK)
    panel.set_ylim(bottom=0)
    panel.margins(x=0.01, y=0.1)
    panel.set_axisbelow(True)
    panel.grid(axis="y", color=GRID_COLOUR, linewidth=0.7)
