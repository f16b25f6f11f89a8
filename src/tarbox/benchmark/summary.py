"""What a benchmark holds, in numbers: what `tarbox bench info` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np

from tarbox.benchmark.folder import Benchmark
from tarbox.benchmark.options import CALIBRATION
from tarbox.benchmark.tables import OUTSIDE, QueryTable, in_order, parse_shape
from tarbox.core.ids import Level, Role
from tarbox.execution.rows import decode
from tarbox.kb.arrays import Places
from tarbox.kb.vocabulary import Vocabulary
from tarbox.query.english import describe


@final
@dataclass(frozen=True, slots=True)
class Group:
    """The queries of one table, level and template: `split` is train, valid, test or calibration.

    `easy` and `hard` count targets, where the table says which they are; `missing` counts targets by missing links;
    `outside` the targets that are not in the vocabulary.
    """

    split: str
    level: str
    template: str
    queries: int
    targets: int
    known: int
    easy: int
    hard: int
    missing: Mapping[str, int]
    outside: int


@final
@dataclass(frozen=True, slots=True)
class ExampleQuery:
    """A query in English, with the first of its targets."""

    template: str
    level: str
    text: str
    target: str


@final
@dataclass(frozen=True, slots=True)
class BenchmarkSummary:
    """Everything that `bench info` shows."""

    protocol: str
    counts: Mapping[str, int]
    groups: tuple[Group, ...]
    hard_concepts: Mapping[str, float]
    excluded: Mapping[str, int]
    examples: tuple[ExampleQuery, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def summarise(benchmark: Benchmark) -> BenchmarkSummary:
    """The numbers of a benchmark, with an example of each template and level from its last split.

    `hard_concepts` is by split the share of concept targets that do not follow from the smaller graph.
    """
    facts = benchmark.store.facts
    tables = {split: benchmark.table(split) for split in benchmark.splits}
    calibration = benchmark.calibration()
    shown = tables if calibration is None else {**tables, CALIBRATION: calibration}
    groups = tuple(group for split, table in shown.items() for group in _summarise_groups(split, table))
    last = tables[benchmark.splits[-1]] if tables else QueryTable.concatenate([])
    return BenchmarkSummary(
        benchmark.protocol,
        facts.counts(),
        groups,
        {split: share for split in tables if (share := _hard_share(split, groups)) is not None},
        {level.value: len(ids) for level, ids in benchmark.excluded().items()},
        tuple(_examples(last, facts.vocabulary)),
    )


def _summarise_groups(split: str, table: QueryTable) -> list[Group]:
    found = table.groups()
    return [
        _group(table, found[level, name], (split, level.value, name))
        for level in Level
        for name in in_order({own for at, own in found if at is level})
    ]


def _group(table: QueryTable, rows: Places, key: tuple[str, str, str]) -> Group:
    targets = table.lists("target").take(rows)
    derivable = table.derivable()[rows]
    links, counts = np.unique(table.lists("missing").take(rows).values, return_counts=True)
    return Group(
        *key,
        queries=len(rows),
        targets=len(targets.values),
        known=len(table.lists("known").take(rows).values),
        easy=int(targets.sizes()[derivable == 1].sum()),
        hard=int(targets.sizes()[derivable == 0].sum()),
        missing={str(link): count for link, count in zip(links.tolist(), counts.tolist(), strict=True)},
        outside=int((targets.values == OUTSIDE).sum()),
    )


def _hard_share(split: str, groups: tuple[Group, ...]) -> float | None:
    chosen = [group for group in groups if group.split == split and group.level == Level.CONCEPT.value]
    easy, hard = sum(group.easy for group in chosen), sum(group.hard for group in chosen)
    return hard / (easy + hard) if easy + hard else None


def _examples(table: QueryTable, vocabulary: Vocabulary) -> list[ExampleQuery]:
    """The first query of every template and level."""

    def naming(role: Role, name: str) -> str:
        found = vocabulary.names(role).find(name)
        return name if found is None else vocabulary.names(role).show(found)

    examples = []
    for (level, template), places in table.groups().items():
        row = int(places[0])
        shape = parse_shape(str(table.columns["shape"][row].as_py()))
        query = decode(shape, table.lists("slots")[row], vocabulary)
        target = int(table.lists("target")[row][0])
        shown = vocabulary.names(level.role).show(target) if target != OUTSIDE else "(outside the vocabulary)"
        examples.append(ExampleQuery(template, level.value, describe(query, naming), shown))
    return examples
