"""Pictures: per-template bars of several runs, and the shape of a knowledge base. matplotlib is loaded when drawing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tarbox.core.errors import BenchmarkError, ConfigError
from tarbox.core.ids import Level
from tarbox.evaluation.metrics import MetricSummary, Results, Scoreboard
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
_LABELLED_BARS: Final = 24

Histogram = Mapping[int, int]
"""How many things have each number."""


def draw_templates(runs: Sequence[Results], path: str | os.PathLike[str], metric: str = "mrr") -> None:
    """Bars of `metric` per template, one colour per run and one panel per level; whiskers are the MRR's intervals."""
    levels = [level for level in Level if any(level in run.levels for run in runs)]
    if not levels:
        raise BenchmarkError("there are no results to plot")
    widest = max(len(_groups(runs, level)) for level in levels)
    width = max(6.5, 1.6 + widest * max(0.55, 0.24 * len(runs)))
    figure, panels = new_figure(len(levels), (width, 2.9 * len(levels) + 0.5))
    for panel, level in zip(panels, levels, strict=True):
        _draw_level(panel, [run for run in runs if level in run.levels], level, metric)
    if len(runs) > 1:
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=4, frameon=False)
    figure.suptitle(_title(runs, metric), x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK)
    save_figure(figure, path)


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


def _groups(runs: Sequence[Results], level: Level) -> list[str]:
    """The names on the axis: every template of any run, then the average."""
    boards = [run.levels[level].overall for run in runs if level in run.levels]
    return [*dict.fromkeys(name for board in boards for name in board.templates), AVERAGE]


def _draw_level(panel: Axes, runs: Sequence[Results], level: Level, metric: str) -> None:
    names = _groups(runs, level)
    size = BAR_SHARE / len(runs)
    gap = 0.35  # sets the average apart
    places = {name: place + (gap if name == AVERAGE else 0.0) for place, name in enumerate(names)}
    for number, run in enumerate(runs):
        board = run.levels[level].overall
        found = [(places[name], summary) for name in names if (summary := _summary(board, name)) is not None]
        shift = (number - (len(runs) - 1) / 2) * size
        at = [place + shift for place, _ in found]
        heights = [100 * summary.values[metric] for _, summary in found]
        colour = COLOURS[number % len(COLOURS)]
        panel.bar(at, heights, size * 0.92, color=colour, label=run.model, zorder=2)
        reach = _whiskers([summary for _, summary in found]) if metric == "mrr" else [[0.0] * len(at)] * 2
        panel.errorbar(at, heights, reach, fmt="none", ecolor=INK, elinewidth=0.8, capsize=1.5, zorder=3)
        if len(names) * len(runs) <= _LABELLED_BARS:
            _label(panel, at, heights, reach[1])
    panel.set_xticks(list(places.values()), names)
    panel.set_ylabel(f"{HEADINGS[metric]} x 100", color=INK)
    panel.set_title(f"{level.value} answers", loc="left", fontsize=9.5, color=INK)
    panel.margins(x=0.01, y=0.12)
    panel.grid(axis="y", color=GRID_COLOUR, linewidth=0.7, zorder=0)


def _summary(board: Scoreboard, name: str) -> MetricSummary | None:
    return board.average if name == AVERAGE else board.templates.get(name)


def _whiskers(summaries: Sequence[MetricSummary]) -> list[list[float]]:
    """How far the intervals reach below and above the bars."""
    below = [max(0.0, 100 * (summary.values["mrr"] - summary.ci[0])) for summary in summaries]
    above = [max(0.0, 100 * (summary.ci[1] - summary.values["mrr"])) for summary in summaries]
    return [below, above]


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


def _title(runs: Sequence[Results], metric: str) -> str:
    protocols = ", ".join(dict.fromkeys(run.protocol for run in runs))
    who = f"{runs[0].model}: " if len(runs) == 1 else ""
    return f"{who}{HEADINGS[metric]} per template ({protocols} protocol)"


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


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    check_format(path)
    try:
        figure.savefig(path, dpi=160)
    except OSError as error:
        raise ConfigError(f"cannot write {os.fspath(path)}: {error.strerror}") from None
