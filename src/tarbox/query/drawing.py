"""A query as a picture, in the manner of the paper's Figure 2.

Circles are entities and variables, squares are concepts and data ranges. The query reads from left to right: named
things stand on the left, the answer, with a double outline, on the right. An arrow points as the assertion does, from
its first to its second entity; a restriction other than `some` is said beside the relation. Intersection, union and
complement are circles with ∧, ∨ and ¬.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final
from unicodedata import east_asian_width
from xml.sax.saxutils import escape

from tarbox.core.ids import Role
from tarbox.query.algebra import And, Concept, DataRange, Direction, Entity, HasSelf, Not, Or, Query, own_slot
from tarbox.query.ranges import write_range
from tarbox.query.render import NameWriter, render
from tarbox.query.restrictions import Restriction, restriction, said_operands

RADIUS: Final = 15
RING: Final = 5
ROW: Final = 64
MARGIN: Final = 22
COLUMN_GAP: Final = 56
LETTER: Final = 7.2
LONGEST_LABEL: Final = 34

STYLE: Final = """
.tb-query{font:13px system-ui,"Segoe UI",Helvetica,Arial,sans-serif}
.tb-query text{fill:#26323d;text-anchor:middle;dominant-baseline:central}
.tb-query text.tb-name{text-anchor:end}
.tb-query text.tb-relation{fill:#4a5a68;font-size:12px}
.tb-query text.tb-sign{font-size:17px}
.tb-query .tb-edge{fill:none;stroke:#8291a0;stroke-width:1.5}
.tb-query .tb-arrow{fill:#8291a0;stroke:none}
.tb-query .tb-entity{fill:#dbe9f8;stroke:#3f74b5;stroke-width:1.5}
.tb-query .tb-concept{fill:#e2f1de;stroke:#5b9350;stroke-width:1.5}
.tb-query .tb-variable{fill:#ffffff;stroke:#6b7a88;stroke-width:1.5}
.tb-query .tb-complement{fill:#fbe4e1;stroke:#b9574a;stroke-width:1.5}
.tb-query .tb-answer{fill:none;stroke:#c98a16;stroke-width:2.5}
@media (prefers-color-scheme:dark){
.tb-query text{fill:#e4e9ee}
.tb-query text.tb-relation{fill:#b3c0cc}
.tb-query .tb-entity{fill:#24405f;stroke:#7fb0e6}
.tb-query .tb-concept{fill:#2b4a27;stroke:#8cc981}
.tb-query .tb-variable{fill:#20262c;stroke:#9aa8b5}
.tb-query .tb-complement{fill:#57302b;stroke:#e29a8f}
}""".strip().replace("\n", "")


_LOOKS: Final[Mapping[type[Query], tuple[str, str]]] = {
    Entity: ("entity", ""),
    Concept: ("concept", ""),
    DataRange: ("concept", ""),
    HasSelf: ("variable", "\N{CLOCKWISE OPEN CIRCLE ARROW}"),
    And: ("variable", "\N{LOGICAL AND}"),
    Or: ("variable", "\N{LOGICAL OR}"),
    Not: ("complement", "\N{NOT SIGN}"),
}
"""(style, sign) of the nodes that are no restriction."""


@final
@dataclass(frozen=True, slots=True)
class _Node:
    """A drawn node; `level` counts from the answer."""

    query: Query
    level: int
    row: float
    children: tuple[_Node, ...]


def draw(query: Query, naming: NameWriter, description: str = "", follow_theme: bool = True) -> str:
    """The picture as one SVG element; `naming` gives each name as people read it.

    `description` is what a screen reader says; by default the query's text. Dark where the reader's screen is, if it is
    to `follow_theme`.
    """
    root, rows = _place(query, 0, 0)
    columns = _columns(root, 1 + max(node.level for node in _all(root)), naming)
    width, height = columns[0] + RADIUS + RING + MARGIN, 2 * (MARGIN + RADIUS + RING) + (rows - 1) * ROW
    said, style = description or render(query, naming), STYLE if follow_theme else STYLE.partition("@media")[0]
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="tb-query" role="img" width="{width:.0f}" '
            f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">',
            f"<title>Query</title><desc>{escape(said)}</desc><style>{style}</style>",
            *_edges(root, columns, naming),
            *_shapes(root, columns, naming),
            "</svg>",
        ]
    )


def _place(query: Query, level: int, row: int) -> tuple[_Node, int]:
    """The node with all below it, and how many rows they take; leaves take one each, from the top."""
    placed: list[_Node] = []
    taken = 0
    for operand in said_operands(query):
        node, rows = _place(operand, level + 1, row + taken)
        placed.append(node)
        taken += rows
    middle = (placed[0].row + placed[-1].row) / 2 if placed else float(row)
    return _Node(query, level, middle, tuple(placed)), max(taken, 1)


def _columns(root: _Node, levels: int, naming: NameWriter) -> list[float]:
    """The x of each level, the answer's first: every gap fits its longest relation, the left its longest name."""
    gaps = [float(COLUMN_GAP)] * levels
    names = [0.0] * levels
    for node in _all(root):
        said = restriction(node.query)
        if said is not None:
            gaps[node.level] = max(gaps[node.level], _width(_relation(said, naming)) + 44)
        elif not node.children:
            names[node.level] = max(names[node.level], _width(_name(node.query, naming)) + RADIUS + RING + 5)
    offsets = [0.0]
    for gap in gaps[:-1]:
        offsets.append(offsets[-1] + gap + 2 * RADIUS)
    right = MARGIN + max(offset + name for offset, name in zip(offsets, [max(n, RADIUS) for n in names], strict=True))
    return [right - offset for offset in offsets]


def _edges(root: _Node, columns: Sequence[float], naming: NameWriter) -> list[str]:
    drawn: list[str] = []
    for node in _all(root):
        for child in node.children:
            start, end, said = _point(child, columns), _point(node, columns), restriction(node.query)
            drawn.append(_line(start, end, node, said))
            if said is not None:
                label = _short(_relation(said, naming))
                x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2 - 11
                drawn.append(f'<text class="tb-relation" x="{x:.1f}" y="{y:.1f}">{escape(label)}</text>')
    return drawn


def _line(start: tuple[float, float], end: tuple[float, float], node: _Node, said: Restriction | None) -> str:
    """A line between the rims of two nodes; a relation has an arrow head at one end."""
    (x1, y1), (x2, y2) = start, end
    length = max(((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5, 1.0)
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    rim = RADIUS + (RING if node.level == 0 else 1)
    x1, y1, x2, y2 = x1 + dx * (RADIUS + 2), y1 + dy * (RADIUS + 2), x2 - dx * rim, y2 - dy * rim
    path = f'<path class="tb-edge" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'
    if said is None:
        return path
    x, y, dx, dy = (x1, y1, -dx, -dy) if said.direction is Direction.FORWARD else (x2, y2, dx, dy)
    left, right = (x - 9 * dx - 4.5 * dy, y - 9 * dy + 4.5 * dx), (x - 9 * dx + 4.5 * dy, y - 9 * dy - 4.5 * dx)
    head = f"M{x:.1f} {y:.1f}L{left[0]:.1f} {left[1]:.1f}L{right[0]:.1f} {right[1]:.1f}Z"
    return path + f'<path class="tb-arrow" d="{head}"/>'


def _shapes(root: _Node, columns: Sequence[float], naming: NameWriter) -> list[str]:
    drawn: list[str] = []
    for node in _all(root):
        x, y = _point(node, columns)
        kind, sign = _look(node)
        drawn.append(_outline(kind, kind == "concept", x, y, RADIUS))
        if node.level == 0:
            drawn.append(_outline("answer", kind == "concept", x, y, RADIUS + RING))
        if sign:
            drawn.append(f'<text class="tb-sign" x="{x:.1f}" y="{y:.1f}">{sign}</text>')
        if not node.children:
            name = escape(_name(node.query, naming))
            drawn.append(f'<text class="tb-name" x="{x - RADIUS - RING - 5:.1f}" y="{y:.1f}">{name}</text>')
    return drawn


def _outline(style: str, square: bool, x: float, y: float, half: int) -> str:
    if square:
        corner = f'x="{x - half:.1f}" y="{y - half:.1f}"'
        return f'<rect class="tb-{style}" {corner} width="{2 * half}" height="{2 * half}" rx="2"/>'
    return f'<circle class="tb-{style}" cx="{x:.1f}" cy="{y:.1f}" r="{half}"/>'


def _look(node: _Node) -> tuple[str, str]:
    """(style, sign) of a node; the answer of a relation is a question mark, other variables are empty."""
    if restriction(node.query) is not None:
        return "variable", "?" if node.level == 0 else ""
    return _LOOKS[type(node.query)]


def _all(root: _Node) -> list[_Node]:
    found = [root]
    for node in found:
        found.extend(node.children)
    return found


def _point(node: _Node, columns: Sequence[float]) -> tuple[float, float]:
    return columns[node.level], MARGIN + RADIUS + RING + node.row * ROW


def _name(leaf: Query, naming: NameWriter) -> str:
    if isinstance(leaf, DataRange):
        return _short(write_range(leaf))
    slot = own_slot(leaf)
    return "" if slot is None else _short(naming(slot.role, slot.name))


def _relation(said: Restriction, naming: NameWriter) -> str:
    relation = naming(Role.RELATION, said.relation)
    return relation if said.word == "some" else f"{relation} ({said.said})"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"


def _width(text: str) -> float:
    """About how many pixels a text takes; wide scripts take two letters."""
    return LETTER * sum(2 if east_asian_width(letter) in "WF" else 1 for letter in _short(text))
