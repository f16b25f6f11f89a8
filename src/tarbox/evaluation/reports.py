"""Results as tables: for the terminal, Markdown, LaTeX and JSON. Figures in tables are times 100, in JSON fractions."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, final

import numpy as np

from tarbox.benchmark.tables import OUTSIDE
from tarbox.core.ids import Level, Role
from tarbox.evaluation.evaluator import Ranked
from tarbox.evaluation.metrics import METRICS, NO_TEMPLATE, LevelResults, Results, Scoreboard, Summary
from tarbox.kb.terms import to_ntriples
from tarbox.kb.vocabulary import Vocabulary

AVERAGE: Final = "average"
HEADINGS: Final = MappingProxyType({"mrr": "MRR", "hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10"})
_PART_TITLES: Final = MappingProxyType(
    {"answers": "easy and hard answers", "missing": "answers by missing links"},
)
_ROLES: Final = {Level.ENTITY: Role.ENTITY, Level.CONCEPT: Role.CONCEPT}
_LATEX: Final = str.maketrans({c: f"\\{c}" for c in "&%$#_{}"})


@final
@dataclass(frozen=True, slots=True)
class Table:
    """A title, a header and rows of text, the first column to the left and the rest to the right.

    `bold` are cells (row, column) that stand out; `rules` are rows with a line above them.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bold: frozenset[tuple[int, int]] = frozenset()
    rules: frozenset[int] = frozenset()


def tabulate(results: Results) -> list[Table]:
    """The tables of one model: per level the templates, then each way of telling answers apart."""
    tables = []
    for level, found in results.levels.items():
        title = f"{results.model}, {level.value} level ({results.protocol} protocol)"
        tables.append(_template_table(title, found.overall))
        for part, boards in found.parts.items():
            tables.append(_part_table(f"{title}: {_PART_TITLES[part]}", part, boards))
    return tables


def compare(runs: Sequence[Results], level: Level, metric: str = "mrr") -> Table:
    """One row per run and one column per template, as in the paper; the best of a column is bold."""
    found = [(run.model, run.levels[level].overall) for run in runs if level in run.levels]
    templates = list(dict.fromkeys(name for _, board in found for name in board.templates))
    rows = [
        [board.templates[name].values[metric] if name in board.templates else None for name in templates]
        + [board.average.values[metric]]
        for _, board in found
    ]
    shown = tuple((model, *map(_percent, row)) for (model, _), row in zip(found, rows, strict=True))
    return Table(
        f"{HEADINGS[metric]}, {level.value} level",
        ("model", *templates, AVERAGE),
        shown,
        _best(rows),
    )


def to_json(results: Results) -> dict[str, Any]:
    """The contract of `eval --json` in DESIGN.md, and more: the averages' intervals and the parts."""
    levels = {level.value: _level_json(found) for level, found in results.levels.items()}
    return {"model": results.model, "protocol": results.protocol, "outside": results.outside, "levels": levels}


def to_markdown(tables: Sequence[Table]) -> str:
    """Tables in Markdown, each under its title."""
    return "\n\n".join(map(_markdown, tables)) + "\n"


def to_latex(tables: Sequence[Table]) -> str:
    """Tables in LaTeX; they need the package booktabs."""
    return "\n\n".join(map(_latex, tables)) + "\n"


def to_terminal(tables: Sequence[Table], width: int | None = None) -> str:
    """Tables for a terminal, without colour."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    for table in tables:
        console.print(to_rich(table))
    shown = console.file
    assert isinstance(shown, io.StringIO)
    return shown.getvalue()


def to_rich(table: Table) -> Any:
    """The table as a `rich.table.Table`."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    made = RichTable(title=table.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for place, name in enumerate(table.header):
        made.add_column(name, justify="right" if place else "left", no_wrap=True)
    for number, row in enumerate(table.rows):
        if number in table.rules:
            made.add_section()
        made.add_row(*(Text(cell, "bold" if (number, at) in table.bold else "") for at, cell in enumerate(row)))
    return made


RENDERERS: Final[Mapping[str, Callable[[Sequence[Table]], str]]] = MappingProxyType(
    {"terminal": to_terminal, "markdown": to_markdown, "latex": to_latex}
)


def rank_records(ranked: Ranked, vocabulary: Vocabulary) -> Iterator[dict[str, Any]]:
    """Every single rank, in the order of the table; that of a target outside the vocabulary is null."""
    table, targets = ranked.table, ranked.table.lists("target").values.tolist()
    ids, templates, levels = table.texts("id"), table.texts("template"), table.texts("level")
    outside = iter(table.outside())
    for row, target, rank in zip(ranked.rows().tolist(), targets, ranked.ranks.tolist(), strict=True):
        names = vocabulary.names(_ROLES[Level(levels[row])])
        yield {
            "id": ids[row],
            "template": templates[row] or NO_TEMPLATE,
            "level": levels[row],
            "target": next(outside) if target == OUTSIDE else to_ntriples(names.iri(target)),
            "rank": rank if np.isfinite(rank) else None,
        }


def ranks_text(ranked: Ranked, vocabulary: Vocabulary, lines_of_json: bool) -> str:
    """Every single rank as JSON lines, or as a table with tabs and a header."""
    records = rank_records(ranked, vocabulary)
    if lines_of_json:
        return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    rows = [["" if value is None else str(value) for value in record.values()] for record in records]
    header = ["id", "template", "level", "target", "rank"]
    return "".join("\t".join(cell.replace("\t", r"\t") for cell in row) + "\n" for row in (header, *rows))


def _template_table(title: str, board: Scoreboard) -> Table:
    rows = [_cells(name, summary) for name, summary in board.templates.items()]
    header = ("template", "queries", "MRR", "95% interval", *(HEADINGS[name] for name in METRICS if name != "mrr"))
    return Table(title, header, (*rows, _cells(AVERAGE, board.average)), rules=frozenset([len(rows)]))


def _part_table(title: str, part: str, boards: Mapping[str, Scoreboard]) -> Table:
    rows = tuple(_cells(name, board.average) for name, board in boards.items())
    header = (part, "queries", "MRR", "95% interval", *(HEADINGS[name] for name in METRICS if name != "mrr"))
    return Table(title, header, rows)


def _cells(name: str, summary: Summary) -> tuple[str, ...]:
    low, high = summary.ci
    rest = (_percent(value) for metric, value in summary.values.items() if metric != "mrr")
    return (name, f"{summary.n:,}", _percent(summary.values["mrr"]), f"{100 * low:.1f} - {100 * high:.1f}", *rest)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _best(rows: Sequence[Sequence[float | None]]) -> frozenset[tuple[int, int]]:
    """The cells that show the greatest figure of their column, where there is more than one row."""
    if len(rows) < 2:
        return frozenset()
    found = set()
    for column, values in enumerate(zip(*rows, strict=True), 1):
        shown = [_percent(value) for value in values]
        most = _percent(max((value for value in values if value is not None), default=None))
        found |= {(row, column) for row, text in enumerate(shown) if text and text == most}
    return frozenset(found)


def _level_json(found: LevelResults) -> dict[str, Any]:
    parts = {part: {name: _board_json(board) for name, board in boards.items()} for part, boards in found.parts.items()}
    return _board_json(found.overall) | {"parts": parts}


def _board_json(board: Scoreboard) -> dict[str, Any]:
    return _summary_json(board.average) | {
        "templates": {name: _summary_json(summary) for name, summary in board.templates.items()}
    }


def _summary_json(summary: Summary) -> dict[str, Any]:
    return {**summary.values, "n": summary.n, "ci": list(summary.ci)}


def _markdown(table: Table) -> str:
    rules = ["---", *["---:"] * (len(table.header) - 1)]
    rows = [
        [f"**{cell}**" if (number, at) in table.bold else cell for at, cell in enumerate(row)]
        for number, row in enumerate(table.rows)
    ]
    lines = [
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in (table.header, rules, *rows)
    ]
    return f"**{table.title}**\n\n" + "\n".join(lines)


def _latex(table: Table) -> str:
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{table.title.translate(_LATEX)}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}",
        r"\toprule",
        " & ".join(name.translate(_LATEX) for name in table.header) + r" \\",
        r"\midrule",
    ]
    for number, row in enumerate(table.rows):
        if number in table.rules:
            lines.append(r"\midrule")
        cells = [cell.translate(_LATEX).replace(" - ", "--") for cell in row]
        lines.append(
            " & ".join(rf"\textbf{{{cell}}}" if (number, at) in table.bold else cell for at, cell in enumerate(cells))
            + r" \\"
        )
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"])
