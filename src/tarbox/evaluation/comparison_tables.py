"""A comparison as the paper's tables: TBox answers, ABox answers and ablations, MRR and Hit@3, in any form.

The paper sets the best figure of a column in bold and underlines none; so do these. Published rows stand below a rule.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from tarbox.core.ids import Level
from tarbox.evaluation.comparison import (
    SHOWN_METRICS,
    Comparison,
    Statistic,
    TableRow,
    best_rows,
    columns,
    common_templates,
)
from tarbox.evaluation.reports import DEVIATION, ReportTable, fold_columns, to_latex, to_markdown, to_rich

AVERAGE_HEADING: Final = "avg"
"""As the paper writes it: columns are many."""
COMMON: Final = "common"
LACKING: Final = "-"
_NARROW: Final = r"\small\setlength{\tabcolsep}{3pt}"
_WITH_DEVIATION: Final = (
    r"\providecommand{\withdeviation}[2]{\begin{tabular}[t]{@{}r@{}}#1\\[-3pt]{\tiny$\pm$#2}\end{tabular}}"
)
"""A deviation stands small below its mean: fifteen columns must fit a page. A document may define it otherwise."""
NAMES: Final = MappingProxyType({"mrr": "MRR", "hits@3": "Hit@3"})
ANSWERS: Final = MappingProxyType({Level.CONCEPT: "TBox answers (concepts)", Level.ENTITY: "ABox answers (entities)"})


def tabulate_comparison(comparison: Comparison) -> list[ReportTable]:
    """All tables: those of all models, then those of each model that has ablations."""
    ablations = {f"Ablations of {base}: ": rows for base, rows in comparison.ablations().items()}
    return [
        _table(f"{title}{ANSWERS[level]}, {NAMES[metric]}", rows, level, metric)
        for title, rows in {"": comparison.main_rows(), **ablations}.items()
        for level in comparison.levels()
        for metric in SHOWN_METRICS
    ]


def notes_of(comparison: Comparison) -> list[str]:
    """What a reader must know beside the figures."""
    notes = [*comparison.notes]
    rows = comparison.main_rows()
    shared = {level: common_templates(rows, level) for level in comparison.levels() if _differ(rows, level)}
    for templates in dict.fromkeys(map(tuple, shared.values())):
        where = " and ".join(ANSWERS[level] for level, own in shared.items() if tuple(own) == templates)
        notes.append(
            f"{where}: not every model has every template ({LACKING} where not), so '{AVERAGE_HEADING}' cannot be "
            f"compared and nothing in it is bold; '{COMMON}' is over the templates that all have: "
            f"{' '.join(templates) or 'there are none'}."
        )
    for row in comparison.failed:
        notes += [f"{row.name}, {_run(outcome.seed)}: failed. {outcome.failure}" for outcome in row.failures]
    return notes


def comparison_markdown(comparison: Comparison, heading: str) -> str:
    """The content of tables.md."""
    notes = "\n".join(f"- {note}" for note in notes_of(comparison))
    return f"# {heading}\n\n{to_markdown(tabulate_comparison(comparison))}\n{notes}\n"


def comparison_latex(comparison: Comparison, heading: str) -> str:
    r"""The content of tables.tex, for `\input`; notes are comments: nothing is lost, nothing is in the way."""
    comments = [heading, r"needs \usepackage{booktabs}; tables are wide: \small and a small \tabcolsep are set", ""]
    head = [*(f"% {line}".rstrip() for line in [*comments, *notes_of(comparison)]), _WITH_DEVIATION]
    tables = to_latex(tabulate_comparison(comparison)).replace("\\centering\n", f"\\centering{_NARROW}\n")
    return "\n".join(head) + "\n\n" + tables


def comparison_terminal(comparison: Comparison, width: int, colour: bool = False) -> str:
    """For a terminal of that width: a table that is too wide is shown in parts."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=io.StringIO(), width=max(width, 40), force_terminal=colour, highlight=False)
    for table in tabulate_comparison(comparison):
        console.print(Text(table.title, "bold"))
        for part in fold_columns(table, console.width):
            console.print(to_rich(replace(part, title="")))
    for note in notes_of(comparison):
        console.print(note, markup=False)
    shown = console.file
    assert isinstance(shown, io.StringIO)
    return shown.getvalue()


def _table(title: str, rows: Sequence[TableRow], level: Level, metric: str) -> ReportTable:
    ordered = [*(row for row in rows if not row.published), *(row for row in rows if row.published)]
    templates = columns(ordered, level)
    differ = _differ(ordered, level)
    shared = common_templates(ordered, level)
    cells: list[list[Statistic | None]] = []
    for row in ordered:
        own = [name for name in row.templates(level) if name in templates]
        found = [row.average(level, metric, [name]) for name in templates]
        found.append(row.average(level, metric, own))
        cells.append([*found, row.average(level, metric, shared)] if differ else found)
    competing = [not row.published for row in ordered]
    bold = frozenset(
        (place, at)
        for at, column in enumerate(zip(*cells, strict=True), 1)
        if not (differ and at == len(templates) + 1)  # averages over different templates do not compete
        for place in best_rows(column, competing)
    )
    header = ("model", *templates, AVERAGE_HEADING, *([COMMON] if differ else []))
    shown = tuple((_name(row, ordered), *map(_cell, line)) for row, line in zip(ordered, cells, strict=True))
    rules = frozenset([competing.index(False)]) if False in competing else frozenset[int]()
    return ReportTable(title, header, shown, bold, rules)


def _differ(rows: Sequence[TableRow], level: Level) -> bool:
    """Whether rows have figures of different templates, among those shown."""
    shown = columns(rows, level)
    sets = {tuple(name for name in row.templates(level) if name in shown) for row in rows if row.templates(level)}
    return len(sets) > 1


def _cell(value: Statistic | None) -> str:
    if value is None:
        return LACKING
    deviation = "" if value.deviation is None else f"{DEVIATION}{100 * value.deviation:.1f}"
    return f"{100 * value.mean:.1f}{deviation}"


def _name(row: TableRow, rows: Sequence[TableRow]) -> str:
    """A failed row says so; where trained rows have different numbers of runs, each says how many."""
    reached = len(row.outcomes) - len(row.failures)
    if row.failures:
        return f"{row.name} (failed)" if not reached else f"{row.name} ({reached} of {len(row.outcomes)} runs)"
    trained = {len(other.outcomes) for other in rows if other.figures and other.outcomes and _is_trained(other)}
    if len(trained) > 1 and row.outcomes and _is_trained(row):
        return f"{row.name} ({reached} {'run' if reached == 1 else 'runs'})"
    return row.name


def _is_trained(row: TableRow) -> bool:
    return any(outcome.seed is not None for outcome in row.outcomes)


def _run(seed: int | None) -> str:
    return "evaluation" if seed is None else f"seed {seed}"
