"""Pictures of what sets are rich in. matplotlib is loaded when drawing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import log10
from typing import TYPE_CHECKING, TypeAlias

from tarbox.core.errors import QueryError
from tarbox.evaluation.plots import COLOURS, GRID_COLOUR, INK, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EnrichedBar: TypeAlias = tuple[str, Mapping[str, float | None], str]
"""A concept, its q-values by what they count, where there are any, and what is written beside them."""


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
