"""Pictures of what sets are rich in. matplotlib is loaded when drawing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import TYPE_CHECKING, Final, final

from tarbox.core.errors import QueryError
from tarbox.evaluation.plots import COLOURS, GRID_COLOUR, INK, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST: Final = 48
"""The characters of a name that is drawn."""


@final
@dataclass(frozen=True, slots=True)
class EnrichedBar:
    """A concept, its q-values by what they count, and what is written beside them."""

    label: str
    q_values: Mapping[str, float]
    note: str


def draw_enrichment(panels: Mapping[str, Sequence[EnrichedBar]], level: float, path: str | os.PathLike[str]) -> None:
    """Bars of -log10 q, the best above, one panel for each set; a line marks the `level` of significance."""
    drawn = {title: bars for title, bars in panels.items() if bars}
    if not drawn:
        raise QueryError("there is nothing to plot: no concept describes the set")
    heights = [1.1 + 0.3 * len(bars) * max(1.0, 0.75 * len(bars[0].q_values)) for bars in drawn.values()]
    figure, axes = new_figure(len(drawn), (8.5, sum(heights)), heights=heights)
    for panel, (title, bars) in zip(axes, drawn.items(), strict=True):
        _draw_panel(panel, title, bars, level)
    save_figure(figure, path)


def _draw_panel(panel: Axes, title: str, bars: Sequence[EnrichedBar], level: float) -> None:
    kinds = list(bars[0].q_values)
    width = 0.8 / len(kinds)
    lengths = [{kind: -log10(max(q, 1e-300)) for kind, q in bar.q_values.items()} for bar in bars]
    for number, kind in enumerate(kinds):
        at = [place - 0.4 + width * (number + 0.5) for place in range(len(bars))]
        panel.barh(at, [each[kind] for each in lengths], width * 0.92, color=COLOURS[number], label=kind, zorder=2)
    for place, (bar, length) in enumerate(zip(bars, lengths, strict=True)):
        end = (max(length.values()), place)
        panel.annotate(bar.note, end, (4, 0), textcoords="offset points", va="center", fontsize=7.5, color=INK)
    panel.axvline(-log10(level), color=INK, linewidth=0.8, linestyle="--", zorder=3)
    panel.set_yticks(range(len(bars)), [_short(bar.label) for bar in bars])
    panel.invert_yaxis()
    panel.margins(x=0.16, y=0.02)
    panel.set_xlim(left=0)
    panel.set_xlabel(f"-log10 q (dashed: q = {level:g})", color=INK, fontsize=8.5)
    panel.set_title(title, loc="left", fontsize=9.5, color=INK)
    panel.grid(axis="x", color=GRID_COLOUR, linewidth=0.7, zorder=0)
    if len(kinds) > 1:
        panel.legend(frameon=False, fontsize=8, loc="lower right")


def _short(text: str) -> str:
    """
    >>> _short("a" * 60)[-3:]
    'aa…'
    """
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
