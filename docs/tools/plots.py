"""The plots of the documentation, drawn from the records in docs/results/ (ADR 62).

    python docs/tools/plots.py            draws them
    python docs/tools/plots.py --check    fails where a picture is not as it would be drawn

A page asks for one as it asks for a table (docs/tools/results.py), with the picture below the comment:

    <!-- plot: from credo, counting-honest; where set=codex-m; rows system; entity = mrr.1% level=entity -->
    ![MRR of each system](plots/quality.svg)

A plot is that table as bars: a panel for each column, and in it a bar for each line with its figure beside it, all on
one scale from 0; what a line lacks has no bar, and deviations stay in the table. Pictures are SVG written here, letter
by letter the same on every machine, so that a record that changes shows in --check.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

import results

PLOT = re.compile(r"<!-- (plot: [^>]*?) -->\n!\[[^\]]*\]\(([^)\s]+\.svg)\)")
INK, BAR, OWN = "#7a7a7a", "#8fb3d9", "#1f5f99"
"""Seen on white and on black; the default reasoner is darker."""
WIDTH, LINE, HEAD, GAP, FIGURES, LETTER = 800, 18, 22, 16, 40, 6.5
"""In pixels: a picture is so wide, a line and the headers so high, so much is between panels, a figure and a letter so
wide."""


def draw(lines: Sequence[str]) -> str:
    """A table in Markdown as bars."""
    header, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    panels = header[1:]
    height = HEAD + LINE * len(body) + 4
    names = LETTER * max(len(name) for name, *_ in body) + 6
    room = (WIDTH - names) / len(panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="12" fill="{INK}">'
    ]
    for row, (name, *_) in enumerate(body):
        parts.append(f'<text x="{names - 6:.0f}" y="{baseline(row)}" text-anchor="end">{escape(name)}</text>')
    values = [[float(mean_of(cell)) if cell else 0.0 for cell in line] for _, *line in body]
    scale = (room - GAP - FIGURES) / (max(map(max, values)) or 1)
    for place, title in enumerate(panels):
        left = names + place * room
        parts.append(f'<text x="{left:.0f}" y="14" font-weight="bold">{escape(title)}</text>')
        parts.append(f'<path d="M{left:.0f} {HEAD}V{height - 4}" stroke="{INK}"/>')
        for row, (name, *cells) in enumerate(body):
            if cells[place]:
                long, colour = scale * values[row][place], OWN if name == "credo" else BAR
                place_of = f'x="{left:.0f}" y="{HEAD + LINE * row + 2}"'
                parts.append(f'<rect {place_of} width="{long:.1f}" height="{LINE - 5}" fill="{colour}"/>')
                figure = cells[place].partition(" ±")[0]
                parts.append(f'<text x="{left + long + 4:.0f}" y="{baseline(row)}">{figure}</text>')
    return "\n".join([*parts, "</svg>", ""])


def mean_of(cell: str) -> str:
    return cell.partition(" ±")[0].replace(",", "")


def baseline(row: int) -> int:
    return HEAD + LINE * row + 13


def main() -> None:
    records, check, stale = results.read_records(), "--check" in sys.argv[1:], list[str]()
    for page in results.read_pages():
        for comment, name in PLOT.findall(page.read_text(encoding="utf-8")):
            file: Path = page.parent / name
            drawn = draw(results.make_table(results.split_clauses(comment), records))
            if not file.exists() or file.read_text(encoding="utf-8") != drawn:
                stale.append(str(file.relative_to(results.ROOT)))
                if not check:
                    file.parent.mkdir(exist_ok=True)
                    file.write_text(drawn, encoding="utf-8")
    if stale and check:
        raise SystemExit(f"not as their records say: {', '.join(stale)}. `make results` draws them")


if __name__ == "__main__":
    main()
