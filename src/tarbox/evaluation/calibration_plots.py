"""Reliability diagrams: one per template and level. matplotlib is loaded when drawing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tarbox.benchmark.tables import in_order
from tarbox.core.errors import BenchmarkError
from tarbox.core.ids import Level
from tarbox.evaluation.calibration import BEST, BINS, WIDTHS, Bin, Calibration, Reliability
from tarbox.evaluation.plots import COLOURS, GRID_COLOUR, INK, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS: Final = dict(zip(Level, COLOURS, strict=False))
_SIDE: Final = 3.0  # inches
_STRIP: Final = 0.3  # the height of a histogram, in heights of a diagram
_TICKS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
_LABELS: Final = ("0", "0.25", "0.5", "0.75", "1")


def beside(path: str | os.PathLike[str]) -> Path:
    """The file that goes with a plot of ranks.

    >>> beside("bars.png").name
    'bars-calibration.png'
    """
    plot = Path(path)
    return plot.with_name(f"{plot.stem}-calibration{plot.suffix}")


def draw_reliability(calibration: Calibration, path: str | os.PathLike[str]) -> None:
    """A row of diagrams per level, a column per template; below each how many predictions have which degree."""
    levels = [level for level, found in calibration.levels.items() if found.overall.n]
    if not levels:
        raise BenchmarkError("there are no predictions to plot")
    names = in_order({name for level in levels for name in calibration.levels[level].templates})
    size = (_SIDE * len(names) + 0.7, _SIDE * (1 + _STRIP) * len(levels) + 1.2)
    figure, panels = new_figure(2 * len(levels), size, len(names), heights=[1.0, _STRIP] * len(levels))
    for row, level in enumerate(levels):
        for column, name in enumerate(names):
            above = panels[2 * row * len(names) + column]
            below = panels[(2 * row + 1) * len(names) + column]
            found = calibration.levels[level].templates.get(name)
            if found is None or found.n == 0:
                above.set_axis_off()
                below.set_axis_off()
                continue
            _draw_diagram(above, found, _COLOURS[level], f"{level.value} answers, {name}")
            _draw_histogram(below, found, _COLOURS[level])
            if column == 0:
                above.set_ylabel("share that is true", color=INK)
                below.set_ylabel("predictions", color=INK)
            if row == len(levels) - 1:
                below.set_xlabel("degree", color=INK)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=2, frameon=False, fontsize=8.5)
    overall = calibration.overall
    title = f"{calibration.model}: reliability of the {BEST} best predictions (ECE {overall.ece:.3f} over all)"
    save_figure(figure, path, title)


def _draw_diagram(panel: Axes, found: Reliability, colour: str, title: str) -> None:
    panel.plot([0, 1], [0, 1], color="#999999", linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    _draw_points(panel, found.widths, ("white", INK, "by tenths of the degree"))
    _draw_points(panel, found.bins, (colour, "white", f"{BINS} bins of equal mass (ECE)"))
    _span(panel)
    panel.set_ylim(-0.03, 1.03)
    panel.set_yticks(_TICKS, _LABELS)
    panel.tick_params(labelbottom=False)
    said = f"ECE {found.ece:.3f}, Brier {found.brier:.3f}, {100 * found.true:.0f}% of {found.n:,} true"
    panel.set_title(f"{title}\n{said}", loc="left", fontsize=8.5, color=INK, linespacing=1.4)


def _draw_points(panel: Axes, bins: Sequence[Bin], look: tuple[str, str, str]) -> None:
    """What is said and what is true, with whiskers: the intervals."""
    fill, edge, label = look
    at = [one.degree for one in bins]
    shares = [one.true for one in bins]
    below = [max(0.0, one.true - one.ci[0]) for one in bins]
    above = [max(0.0, one.ci[1] - one.true) for one in bins]
    panel.errorbar(at, shares, [below, above], fmt="none", ecolor=INK, elinewidth=0.8, capsize=1.5, zorder=2)
    panel.scatter(at, shares, s=22, color=fill, edgecolors=edge, linewidths=0.7, zorder=3, label=label)


def _draw_histogram(panel: Axes, found: Reliability, colour: str) -> None:
    """On a logarithmic axis: most predictions have small degrees."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    at = [(min(int(one.degree * WIDTHS), WIDTHS - 1) + 0.5) / WIDTHS for one in found.widths]
    panel.bar(at, [one.n for one in found.widths], 0.92 / WIDTHS, color=colour, zorder=2)
    panel.set_yscale("log")
    panel.set_ylim(bottom=0.7)
    panel.yaxis.set_major_locator(LogLocator(numticks=4))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    _span(panel)


def _span(panel: Axes) -> None:
    panel.set_xlim(-0.02, 1.02)
    panel.set_xticks(_TICKS, _LABELS)
    panel.grid(color=GRID_COLOUR, linewidth=0.7, zorder=0)
    panel.set_axisbelow(True)
