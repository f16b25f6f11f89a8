"""Results as tables: for the terminal, Markdown, LaTeX and JSON. Figures in tables are times 100, in JSON fractions."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, final

import numpy as np

from tarbox.benchmark.tables import NO_TEMPLATE, OUTSIDE
from tarbox.core.ids import Level
from tarbox.evaluation.calibration import BEST, Calibration, Reliability
from tarbox.evaluation.evaluator import Ranked
from tarbox.evaluation.metrics import METRICS, LevelResults, MetricSummary, Results, Scoreboard
from tarbox.kb.terms import to_ntriples
from tarbox.kb.vocabulary import Vocabulary

AVERAGE: Final = "average"
ALL: Final = "all"
DEVIATION: Final = " ± "
"""What stands between a mean and its deviation."""
HEADINGS: Final = MappingProxyType({"mrr": "MRR", "hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10"})
_PART_TITLES: Final = MappingProxyType({"answers": "easy and hard answers", "missing": "answers by missing links"})
_LATEX: Final = str.maketrans({c: f"\\{c}" for c in "&%$#_{}"})


@final
@dataclass(frozen=True, slots=True)
class ReportTable:
    """A title, a header and rows of text, the first column to the left and the rest to the right.

    `bold` are cells (row, column) that stand out; `rules` are rows with a line above them. A cell such as `34.9 ± 0.4`
    is broken before its deviation where columns must be narrow: on a terminal and in LaTeX.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bold: frozenset[tuple[int, int]] = frozenset()
    rules: frozenset[int] = frozenset()


def tabulate(results: Results) -> list[ReportTable]:
    """The tables of one model: per level the templates, then each way of telling answers apart."""
    tables = []
    for level, found in results.levels.items():
        title = f"{results.model}, {level.value} level ({results.protocol} protocol)"
        tables.append(_template_table(title, found.overall))
        for part, boards in found.parts.items():
            tables.append(_part_table(f"{title}: {_PART_TITLES[part]}", part, boards))
        if links := found.parts.get("missing"):
            tables.append(_links_table(f"{title}: MRR by missing links", links, tuple(found.overall.templates)))
    return tables


def tabulate_calibration(calibration: Calibration) -> ReportTable:
    """Per level and template, then all together: what degrees say and what is true. Unlike ranks, not times 100."""
    named = [
        (f"{level.value} {name}", found)
        for level, of_level in calibration.levels.items()
        for name, found in of_level.templates.items()
    ]
    rows = tuple(_reliability_cells(name, found) for name, found in (*named, (ALL, calibration.overall)))
    header = ("template", "queries", "predictions", "degree", "true", "ECE", "Brier")
    title = f"{calibration.model}, calibration of the {BEST} best predictions"
    return ReportTable(title, header, rows, rules=frozenset([len(named)]))


def to_json(results: Results) -> dict[str, Any]:
    """The contract of `eval --json` in DESIGN.md, and more: the averages' intervals and the parts."""
    levels = {level.value: _level_json(found) for level, found in results.levels.items()}
    return {"model": results.model, "protocol": results.protocol, "outside": results.outside, "levels": levels}


def from_json(record: Mapping[str, Any]) -> Results:
    """The inverse of `to_json`."""
    levels = {Level(name): _level_of(found) for name, found in record["levels"].items()}
    return Results(record["model"], record["protocol"], levels, record["outside"])


def to_markdown(tables: Sequence[ReportTable]) -> str:
    """Tables in Markdown, each under its title."""
    return "\n\n".join(map(_markdown, tables)) + "\n"


def to_latex(tables: Sequence[ReportTable]) -> str:
    """Tables in LaTeX; they need the package booktabs."""
    return "\n\n".join(map(_latex, tables)) + "\n"


def to_terminal(tables: Sequence[ReportTable], width: int | None = None) -> str:
    """Tables for a terminal, without colour."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    for table in tables:
        console.print(to_rich(table))
    shown = console.file
    assert isinstance(shown, io.StringIO)
    return shown.getvalue()


def to_rich(table: ReportTable) -> Any:
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
        cells = [cell.replace(DEVIATION, "\n±") if at else cell for at, cell in enumerate(row)]
        made.add_row(*(Text(cell, "bold" if (number, at) in table.bold else "") for at, cell in enumerate(cells)))
    return made


def fold_columns(table: ReportTable, width: int) -> list[ReportTable]:
    """The table in parts of at most `width` characters, as even as can be; each has the first column, none is cut."""
    sizes = [
        3 + max(len(part) for row in (table.header, *table.rows) for part in _lines(row[at], at))
        for at in range(len(table.header))
    ]
    room = max(1, width - sizes[0] - 1)
    count = -(-sum(sizes[1:]) // room)
    each = -(-(len(sizes) - 1) // max(count, 1))
    while each > 1 and any(sum(sizes[at : at + each]) > room for at in range(1, len(sizes), each)):
        each -= 1
    parts = [[0, *range(at, min(at + each, len(sizes)))] for at in range(1, len(sizes), each)]
    return [_only(table, part) for part in parts]


def _lines(cell: str, column: int) -> list[str]:
    return [cell] if column == 0 else cell.replace(DEVIATION, "\n±").split("\n")


def _only(table: ReportTable, columns: Sequence[int]) -> ReportTable:
    """The given columns."""
    bold = frozenset((row, columns.index(at)) for row, at in table.bold if at in columns)
    rows = tuple(tuple(row[at] for at in columns) for row in table.rows)
    return ReportTable(table.title, tuple(table.header[at] for at in columns), rows, bold, table.rules)


RENDERERS: Final[Mapping[str, Callable[[Sequence[ReportTable]], str]]] = MappingProxyType(
    {"terminal": to_terminal, "markdown": to_markdown, "latex": to_latex}
)


def rank_records(ranked: Ranked, vocabulary: Vocabulary) -> Iterator[dict[str, Any]]:
    """Every single rank, in the order of the table; that of a target outside the vocabulary is null."""
    table, targets = ranked.table, ranked.table.lists("target").values.tolist()
    ids, templates, levels = table.texts("id"), table.texts("template"), table.texts("level")
    outside = iter(table.outside())
    for row, target, rank in zip(ranked.rows().tolist(), targets, ranked.ranks.tolist(), strict=True):
        names = vocabulary.names(Level(levels[row]).role)
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


def _template_table(title: str, board: Scoreboard) -> ReportTable:
    rows = [_cells(name, summary) for name, summary in board.templates.items()]
    header = ("template", "queries", "MRR", "95% interval", *(HEADINGS[name] for name in METRICS if name != "mrr"))
    return ReportTable(title, header, (*rows, _cells(AVERAGE, board.average)), rules=frozenset([len(rows)]))


def _reliability_cells(name: str, found: Reliability) -> tuple[str, ...]:
    figures = (found.degree, found.true, found.ece, found.brier)
    shown = (f"{value:.3f}" if found.n else "-" for value in figures)
    return (name, f"{found.queries:,}", f"{found.n:,}", *shown)


def _part_table(title: str, part: str, boards: Mapping[str, Scoreboard]) -> ReportTable:
    rows = tuple(_cells(name, board.average) for name, board in boards.items())
    header = (part, "queries", "MRR", "95% interval", *(HEADINGS[name] for name in METRICS if name != "mrr"))
    return ReportTable(title, header, rows)


def _links_table(title: str, boards: Mapping[str, Scoreboard], templates: tuple[str, ...]) -> ReportTable:
    """Per template and number of missing links the MRR, with the number of queries that have such an answer."""
    rows = [[board.templates.get(name) for board in boards.values()] for name in templates]
    cells = [[f"{_percent(own.values['mrr'])} ({own.n:,})" if own else "-" for own in row] for row in rows]
    table = tuple((name, *row) for name, row in zip(templates, cells, strict=True))
    return ReportTable(title, ("template", *boards), table)


def _cells(name: str, summary: MetricSummary) -> tuple[str, ...]:
    low, high = summary.ci
    rest = (_percent(value) for metric, value in summary.values.items() if metric != "mrr")
    return (name, f"{summary.n:,}", _percent(summary.values["mrr"]), f"{100 * low:.1f} - {100 * high:.1f}", *rest)


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _level_json(found: LevelResults) -> dict[str, Any]:
    parts = {part: {name: _board_json(board) for name, board in boards.items()} for part, boards in found.parts.items()}
    return _board_json(found.overall) | {"parts": parts}


def _board_json(board: Scoreboard) -> dict[str, Any]:
    return _summary_json(board.average) | {
        "templates": {name: _summary_json(summary) for name, summary in board.templates.items()}
    }


def _summary_json(summary: MetricSummary) -> dict[str, Any]:
    return {**summary.values, "n": summary.n, "ci": list(summary.ci)}


def _level_of(record: Mapping[str, Any]) -> LevelResults:
    parts = {
        part: {name: _board_of(board) for name, board in boards.items()} for part, boards in record["parts"].items()
    }
    return LevelResults(_board_of(record), parts)


def _board_of(record: Mapping[str, Any]) -> Scoreboard:
    return Scoreboard(_summary_of(record), {name: _summary_of(found) for name, found in record["templates"].items()})


def _summary_of(record: Mapping[str, Any]) -> MetricSummary:
    low, high = record["ci"]
    return MetricSummary({metric: record[metric] for metric in METRICS}, record["n"], (low, high))


def _markdown(table: ReportTable) -> str:
    rules = ["---", *["---:"] * (len(table.header) - 1)]
    rows = [
        [f"**{cell}**" if (number, at) in table.bold else cell for at, cell in enumerate(row)]
        for number, row in enumerate(table.rows)
    ]
    lines = [
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in (table.header, rules, *rows)
    ]
    return f"**{table.title}**\n\n" + "\n".join(lines)


def _latex(table: ReportTable) -> str:
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
        cells = [_latex_cell(cell, (number, at) in table.bold) for at, cell in enumerate(row)]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"])


def _latex_cell(cell: str, bold: bool) -> str:
    r"""A mean with its deviation is written by the command \withdeviation, which whoever has such cells must define."""
    mean, _, deviation = cell.translate(_LATEX).replace(" - ", "--").partition(DEVIATION)
    shown = rf"\textbf{{{mean}}}" if bold else mean
    return rf"\withdeviation{{{shown}}}{{{deviation}}}" if deviation else shown
