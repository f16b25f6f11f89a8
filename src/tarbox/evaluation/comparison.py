"""Several models on the same queries: figures with mean and deviation, and which averages may be compared.

A row holds one figure per run, template, metric and level. The mean is over runs; the deviation is the sample's
(n - 1). A model need not answer every template. Its average is then over its own templates and cannot be compared, so
that a second average is over the templates that all rows have. Only measured rows compete: a published row comes from
other data (docs/adr/0020).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, final

import numpy as np

from tarbox.benchmark.tables import QueryTable, in_order
from tarbox.core.errors import BenchmarkError
from tarbox.core.ids import Level
from tarbox.evaluation.metrics import METRICS, Results
from tarbox.evaluation.reports import to_json

SHOWN_METRICS: Final = ("mrr", "hits@3")
"""What the paper's tables show."""

Figures = Mapping[str, tuple[float, ...]]
"""The figure of every run, by template: fractions."""

Counts = Mapping[str, Mapping[str, int]]
"""How many queries there are, by level and template."""


@final
@dataclass(frozen=True, slots=True)
class Selection:
    """Which queries are evaluated: a split, some templates (none named: all), at most `queries` of each and level."""

    split: str
    templates: tuple[str, ...] = ()
    queries: int = 0

    def of(self, table: QueryTable) -> QueryTable:
        """The chosen queries, those of a template evenly spaced."""
        groups = table.groups()
        self._check({name for _, name in groups})
        kept = [places for (_, name), places in groups.items() if not self.templates or name in self.templates]
        return table.take(np.sort(np.concatenate(kept))).thinned(self.queries)

    def _check(self, there: set[str]) -> None:
        if not there:
            raise BenchmarkError(f"there are no {self.split} queries to compare on")
        for name in self.templates:
            if name not in there:
                raise BenchmarkError(
                    f"no {self.split} queries of template {name!r}; there are {', '.join(in_order(there))}"
                )


@final
@dataclass(frozen=True, slots=True)
class Statistic:
    """The mean over runs; the sample deviation where there are several."""

    mean: float
    deviation: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Statistic:
        """
        >>> Statistic.of([0.25, 0.5, 0.75])
        Statistic(mean=0.5, deviation=0.25, n=3)
        """
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run ended: what it reached on the queries, or why it has no results; `details` go into the JSON."""

    seed: int | None
    results: Results | None
    failure: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        reached = {} if self.results is None else to_json(self.results)
        return {"seed": self.seed, "failure": self.failure, **self.details, **reached}


@final
@dataclass(frozen=True, slots=True)
class TableRow:
    """One line of a table. `ablation_of` names the row that it is an ablation of; `published` competes with nobody."""

    key: str
    name: str
    figures: Mapping[Level, Mapping[str, Figures]]
    published: bool = False
    ablation_of: str | None = None
    model: str = ""
    outcomes: tuple[Outcome, ...] = ()

    @classmethod
    def of(
        cls,
        names: tuple[str, str, str],
        outcomes: Sequence[Outcome],
        ablation_of: str | None = None,
        asked: Counts | None = None,
    ) -> TableRow:
        """The row of a model's runs; `names` are its key in files, its name in tables, its model.

        A template of which it answered fewer queries than were `asked` is left out.
        """
        reached = [outcome.results for outcome in outcomes if outcome.results is not None]
        figures = {
            level: {metric: _gather(reached, level, metric, (asked or {}).get(level.value, {})) for metric in METRICS}
            for level in Level
            if any(level in results.levels for results in reached)
        }
        key, name, model = names
        return cls(key, name, figures, False, ablation_of, model, tuple(outcomes))

    @property
    def failures(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.failure is not None)

    def templates(self, level: Level) -> list[str]:
        """The templates that the row has figures of."""
        return in_order({name for figures in self.figures.get(level, {}).values() for name in figures})

    def average(self, level: Level, metric: str, templates: Iterable[str]) -> Statistic | None:
        """Over the given templates, run by run, then over runs; none where a template is lacking."""
        figures = self.figures.get(level, {}).get(metric, {})
        wanted = list(templates)
        if not wanted or any(name not in figures for name in wanted):
            return None
        columns = zip(*(figures[name] for name in wanted), strict=True)
        return Statistic.of([statistics.fmean(column) for column in columns])

    def json(self, common: Mapping[Level, Sequence[str]]) -> dict[str, Any]:
        levels = {level.value: self._level_json(level, common[level]) for level in self.figures}
        about = {"key": self.key, "name": self.name, "model": self.model, "ablation_of": self.ablation_of}
        runs = {} if self.published else {"runs": [outcome.json() for outcome in self.outcomes]}
        return {**about, "levels": levels, **runs}

    def _level_json(self, level: Level, common: Sequence[str]) -> dict[str, Any]:
        own = self.templates(level)
        metrics = [metric for metric in METRICS if metric in self.figures[level]]

        def stated(templates: Sequence[str]) -> dict[str, Any]:
            found = {metric: self.average(level, metric, templates) for metric in metrics}
            return {metric: asdict(value) for metric, value in found.items() if value is not None}

        return {"average": stated(own), "common": stated(common), "templates": {name: stated([name]) for name in own}}


def _gather(reached: Sequence[Results], level: Level, metric: str, asked: Mapping[str, int]) -> Figures:
    """The figures of the templates that all runs have in full: those of one model are the same in each."""
    boards = [results.levels[level].overall.templates for results in reached if level in results.levels]
    shared = [
        name
        for name in (boards[0] if boards else ())
        if all(name in board and board[name].n == asked.get(name, board[name].n) for board in boards)
    ]
    return {name: tuple(board[name].values[metric] for board in boards) for name in shared}


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows in the order they were named, those of a paper last; `about` says on what; `notes` what to know."""

    rows: tuple[TableRow, ...]
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    published_from: Mapping[str, Any] = field(default_factory=dict)

    def levels(self) -> list[Level]:
        """Those that any measured row has, in the paper's order: TBox answers first."""
        return [level for level in (Level.CONCEPT, Level.ENTITY) if any(level in row.figures for row in self.measured)]

    @property
    def measured(self) -> tuple[TableRow, ...]:
        return tuple(row for row in self.rows if not row.published)

    @property
    def failed(self) -> tuple[TableRow, ...]:
        """The rows some of whose runs have no results."""
        return tuple(row for row in self.rows if row.failures)

    def main_rows(self) -> tuple[TableRow, ...]:
        """Everything but ablations."""
        return tuple(row for row in self.rows if row.ablation_of is None)

    def ablations(self) -> dict[str, tuple[TableRow, ...]]:
        """By model: its ablations, then itself, as in the paper."""
        found: dict[str, tuple[TableRow, ...]] = {}
        for base in dict.fromkeys(row.ablation_of for row in self.rows if row.ablation_of and not row.published):
            parts = [row for row in self.rows if row.ablation_of == base]
            whole = [row for row in self.rows if row.key == base or (row.published and row.model == base)]
            own = [row for row in (*parts, *whole) if not row.published]
            others = [row for row in (*parts, *whole) if row.published]
            found[base] = (*own, *(others if any(row.ablation_of for row in others) else []))
        return found

    def json(self) -> dict[str, Any]:
        """Everything, as fractions: results.json."""
        common = {level: common_templates(self.rows, level) for level in Level}
        return {
            **self.about,
            "common_templates": {level.value: common[level] for level in self.levels()},
            "models": [row.json(common) for row in self.measured],
            "published": {**self.published_from, "rows": [row.json(common) for row in self.rows if row.published]},
            "notes": list(self.notes),
        }


def count_queries(table: QueryTable) -> dict[str, dict[str, int]]:
    """How many queries a table has, by level and template."""
    counts: dict[str, dict[str, int]] = {}
    for (level, name), places in table.groups().items():
        counts.setdefault(level.value, {})[name] = len(places)
    return counts


def columns(rows: Sequence[TableRow], level: Level) -> list[str]:
    """The templates of any measured row: a published one adds none."""
    return in_order({name for row in rows if not row.published for name in row.templates(level)})


def common_templates(rows: Sequence[TableRow], level: Level) -> list[str]:
    """The templates that all rows with figures have, of those that are shown."""
    having = [set(row.templates(level)) for row in rows if row.templates(level)]
    return [name for name in columns(rows, level) if all(name in own for own in having)]


def best_rows(cells: Sequence[Statistic | None], competing: Sequence[bool]) -> frozenset[int]:
    """The rows with the greatest mean, to the decimal that is shown; none where fewer than two compete."""
    shown = {
        place: f"{100 * cell.mean:.1f}"
        for place, (cell, takes_part) in enumerate(zip(cells, competing, strict=True))
        if cell is not None and takes_part
    }
    if len(shown) < 2:
        return frozenset()
    most = max(shown.values(), key=float)
    return frozenset(place for place, text in shown.items() if text == most)
