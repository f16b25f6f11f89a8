"""Pictures: per-template bars, the shape of a knowledge base, what sets are rich in; matplotlib is loaded to draw."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import log10
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tarbox.core.errors import BenchmarkError, ConfigError, QueryError
from tarbox.core.ids import Level
from tarbox.evaluation.metrics import Results, Scoreboard
from tarbox.evaluation.reports import AVERAGE, HEADINGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8A8A8A", "#F0E442")
"""Okabe and Ito's palette: told apart by people with any colour vision."""

PLOT_FORMATS: Final = ("png", "svg", "pdf")
INK: Final = "#333333"
GRID_COLOUR: Final = "#DDDDDD"
BAR_SHARE: Final = 0.82
AVERAGE_GAP: Final = 0.35
"""Sets the average apart."""
_LABELLED_BARS: Final = 24

Histogram = Mapping[int, int]
"""How many things have each number."""
EnrichedBar: TypeAlias = tuple[str, Mapping[str, float | None], str]
"""A concept, its q-values by what they count, where there are any, and what is written beside them."""


def draw_templates(results: Results, path: str | os.PathLike[str]) -> None:
    """Bars of the MRR per template and their average, with their 95% intervals; one panel per level."""
    levels = [level for level in Level if level in results.levels]
    if not levels:
        raise BenchmarkError("there are no results to plot")
    widest = max(len(found.overall.templates) for found in results.levels.values()) + 1
    figure, panels = new_figure(len(levels), (max(6.5, 1.6 + 0.55 * widest), 2.9 * len(levels) + 0.5))
    for panel, level in zip(panels, levels, strict=True):
        _draw_level(panel, results.levels[level].overall, level)
    title = f"{results.model}: {HEADINGS['mrr']} per template ({results.protocol} protocol)"
    save_figure(figure, path, title)


def draw_degrees(histograms: Mapping[str, Histogram], path: str | os.PathLike[str]) -> None:
    """One panel per histogram, titled by its key; long-tailed ones as points on logarithmic axes, others as bars.

    >>> draw_degrees({"entity degree": {1: 500, 2: 260}, "concept depth": {0: 1, 1: 4}}, "kb.png")  # doctest: +SKIP
    """
    drawn = {name: histogram for name, histogram in histograms.items() if histogram}
    if not drawn:
        raise BenchmarkError("there is nothing to plot: the knowledge base is empty")
    figure, panels = new_figure(1, (3.6 * len(drawn), 3.2), columns=len(drawn))
    for number, (panel, (name, histogram)) in enumerate(zip(panels, drawn.items(), strict=True)):
        _draw_histogram(panel, name, histogram, COLOURS[number % len(COLOURS)])
    panels[0].set_ylabel("how many", color=INK)
    save_figure(figure, path)


def draw_enrichment(panels: Mapping[str, Sequence[EnrichedBar]], level: float, path: str | os.PathLike[str]) -> None:
    """Bars of -log10 q, the best above, one panel for each set; a line marks the `level` of significance."""
    drawn = {title: bars for title, bars in panels.items() if bars}
    if not drawn:
        raise QueryError("there is nothing to plot: no concept describes the set")
    heights = [1.1 + 0.35 * len(bars) for bars in drawn.values()]
    figure, axes = new_figure(len(drawn), (8.5, sum(heights)), heights=heights)
    for panel, (title, bars) in zip(axes, drawn.items(), strict=True):
        panel.set_title(title, loc="left", fontsize=9.5, color=INK)
        _draw_bars(panel, bars, level)
    save_figure(figure, path)


def _draw_level(panel: Axes, board: Scoreboard, level: Level) -> None:
    shown = {**board.templates, AVERAGE: board.average}
    at = [place + (AVERAGE_GAP if name == AVERAGE else 0.0) for place, name in enumerate(shown)]
    heights = [100 * summary.values["mrr"] for summary in shown.values()]
    below = [max(0.0, height - 100 * summary.ci[0]) for height, summary in zip(heights, shown.values(), strict=True)]
    above = [max(0.0, 100 * summary.ci[1] - height) for height, summary in zip(heights, shown.values(), strict=True)]
    panel.bar(at, heights, BAR_SHARE * 0.92, color=COLOURS[0], zorder=2)
    panel.errorbar(at, heights, [below, above], fmt="none", ecolor=INK, elinewidth=0.8, capsize=1.5, zorder=3)
    if len(shown) <= _LABELLED_BARS:
        _label(panel, at, heights, above)
    panel.set_xticks(at, list(shown))
    panel.set_ylabel(f"{HEADINGS['mrr']} x 100", color=INK)
    panel.set_title(f"{level.value} answers", loc="left", fontsize=9.5, color=INK)
    panel.margins(x=0.01, y=0.12)
    panel.grid(axis="y", color=GRID_COLOUR, linewidth=0.7, zorder=0)


def _label(panel: Axes, at: Sequence[float], heights: Sequence[float], reach: Sequence[float]) -> None:
    """The figure of each bar, above its whisker."""
    for place, height, above in zip(at, heights, reach, strict=True):
        top = (place, height + above)
        panel.annotate(
            f"{height:.0f}", top, (0, 2), textcoords="offset points", ha="center", va="bottom", fontsize=7.5, color=INK
        )


def _draw_histogram(panel: Axes, name: str, histogram: Histogram, colour: str) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    numbers = sorted(histogram)
    counts = [histogram[number] for number in numbers]
    panel.set_title(name, loc="left", fontsize=9.5, color=INK)
    panel.grid(color=GRID_COLOUR, linewidth=0.7, zorder=0)
    if numbers[-1] <= 30:
        panel.bar(numbers, counts, 0.85, color=colour, zorder=2)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        return
    panel.set_xscale("symlog" if numbers[0] <= 0 else "log")
    panel.set_yscale("log")
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panel.scatter(numbers, counts, s=9, color=colour, alpha=0.75, linewidths=0, zorder=2)


def _draw_bars(panel: Axes, bars: Sequence[EnrichedBar], level: float) -> None:
    kinds = [kind for kind, q in bars[0][1].items() if q is not None]
    width = 0.8 / len(kinds)
    lengths = [[-log10(max(values[kind] or 0.0, 1e-300)) for kind in kinds] for _, values, _ in bars]
    for number, kind in enumerate(kinds):
        at = [place - 0.4 + width * (number + 0.5) for place in range(len(bars))]
        own = [length[number] for length in lengths]
        panel.barh(at, own, width * 0.92, color=COLOURS[number], label=kind, zorder=2)
    panel.axvline(-log10(level), color=INK, linewidth=0.8, linestyle="--", zorder=3)
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    for place, (length, (_, _, note)) in enumerate(zip(lengths, bars, strict=True)):
        end = (max(length), place)
        panel.annotate(note, end, (5, 0), textcoords="offset points", va="center", fontsize=7.5, bbox=paper, zorder=4)
    panel.set_yticks(range(len(bars)), [label if len(label) < 50 else f"{label[:48]}…" for label, _, _ in bars])
    panel.invert_yaxis()
    panel.margins(x=0.3, y=0.02)
    panel.set_xlim(left=0)
    panel.set_xlabel(f"-log10 q (dashed: q = {level:g})", color=INK, fontsize=8.5)
    panel.grid(axis="x", color=GRID_COLOUR, linewidth=0.7, zorder=0)
    if len(kinds) > 1:
        panel.legend(frameon=False, fontsize=8, loc="lower right")


def new_figure(
    rows: int, size: tuple[float, float], columns: int = 1, heights: Sequence[float] | None = None
) -> tuple[Figure, list[Any]]:
    """A figure without a window, and its panels row by row, all of the same height unless `heights` are given."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False, height_ratios=heights).ravel().tolist()
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        panel.spines[["left", "bottom"]].set_color("#999999")
        panel.tick_params(colors=INK, labelsize=8.5)
    return figure, panels


def check_format(path: str | os.PathLike[str]) -> None:
    """Refuse a name that does not end in one of `PLOT_FORMATS`."""
    if Path(path).suffix.lower().removeprefix(".") not in PLOT_FORMATS:
        raise ConfigError(f"cannot plot to {os.fspath(path)!r}: the name must end in .{', .'.join(PLOT_FORMATS)}")


def save_figure(figure: Figure, path: str | os.PathLike[str], title: str = "") -> None:
    check_format(path)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK)
    try:
        figure.savefig(path, dpi=160)
    except OSError as error:
        raise ConfigError(f"cannot write {os.fspath(path)}: {error.strerror}") from None
