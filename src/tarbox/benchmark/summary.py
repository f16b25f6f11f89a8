"""What a benchmark holds, in numbers: what `tarbox bench info` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, final

import numpy as np

from tarbox.benchmark.folder import Benchmark
from tarbox.benchmark.options import CALIBRATION
from tarbox.benchmark.tables import NO_TEMPLATE, OUTSIDE, QueryTable, parse_shape
from tarbox.core.ids import Level, Role
from tarbox.execution.rows import decode
from tarbox.kb.arrays import Places
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.query.english import describe
from tarbox.query.templates import TEMPLATES

ATOMIC: Final = "1p"


@final
@dataclass(frozen=True, slots=True)
class Partition:
    """One row of the paper's statistics table: numbers of training or evaluation instances.

    `con_other` and `ent_other` are per template other than 1p, (fewest, most). `sub` are the subsumptions and `ins`
    the closed typings, training only. `nlr_1p` and `nlr_other` are what the entity-level baselines train on: with
    typings as one more relation.
    """

    split: str
    con_1p: int
    con_other: tuple[int, int]
    ent_1p: int
    ent_other: tuple[int, int]
    sub: int | None
    ins: int | None
    nlr_1p: int
    nlr_other: tuple[int, int]


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
    partitions: tuple[Partition, ...]
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
    groups = tuple(group for split, table in shown.items() for group in _groups(split, table))
    last = tables[benchmark.splits[-1]] if tables else QueryTable.concatenate([])
    return BenchmarkSummary(
        benchmark.protocol,
        facts.counts(),
        tuple(_partition(split, groups, facts) for split in tables),
        groups,
        {split: share for split in tables if (share := _hard_share(split, groups)) is not None},
        {level.value: len(ids) for level, ids in benchmark.excluded().items()},
        tuple(_examples(last, facts.vocabulary)),
    )


def _groups(split: str, table: QueryTable) -> list[Group]:
    levels = np.array(table.texts("level"), dtype=object)
    names = np.array([name or NO_TEMPLATE for name in table.texts("template")], dtype=object)
    known_order = [*TEMPLATES, *sorted(set(names.tolist()) - set(TEMPLATES))]
    groups = []
    for level in Level:
        for template in known_order:
            rows = np.flatnonzero((levels == level.value) & (names == template))
            if len(rows):
                groups.append(_group(table, rows, (split, level.value, template)))
    return groups


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


def _partition(split: str, groups: tuple[Group, ...], facts: Facts) -> Partition:
    sizes = {(group.level, group.template): group.queries for group in groups if group.split == split}
    training = split == "train"
    typings = len(Instances.of(facts).concepts_of.columns) if training else None
    entity_1p, entity_other = _sizes(sizes, Level.ENTITY)
    concept_1p, concept_other = _sizes(sizes, Level.CONCEPT)
    return Partition(
        split,
        con_1p=concept_1p,
        con_other=concept_other,
        ent_1p=entity_1p,
        ent_other=entity_other,
        sub=len(facts.subs) if training else None,
        ins=typings,
        nlr_1p=entity_1p + (typings or 0),
        nlr_other=entity_other,
    )


def _sizes(sizes: Mapping[tuple[str, str], int], level: Level) -> tuple[int, tuple[int, int]]:
    """Queries of 1p, and the fewest and the most of another template."""
    others = [size for (of, template), size in sizes.items() if of == level.value and template != ATOMIC]
    return sizes.get((level.value, ATOMIC), 0), (min(others, default=0), max(others, default=0))


def _hard_share(split: str, groups: tuple[Group, ...]) -> float | None:
    chosen = [group for group in groups if group.split == split and group.level == Level.CONCEPT.value]
    easy, hard = sum(group.easy for group in chosen), sum(group.hard for group in chosen)
    return hard / (easy + hard) if easy + hard else None


def _examples(table: QueryTable, vocabulary: Vocabulary) -> list[ExampleQuery]:
    """The first query of every template and level."""
    names = [name or NO_TEMPLATE for name in table.texts("template")]
    first: dict[tuple[str, str], int] = {}

    def naming(role: Role, name: str) -> str:
        found = vocabulary.names(role).find(name)
        return name if found is None else vocabulary.names(role).show(found)

    for row, key in enumerate(zip(names, table.texts("level"), strict=True)):
        first.setdefault((key[0], str(key[1])), row)
    examples = []
    for (template, level), row in first.items():
        shape = parse_shape(str(table.columns["shape"][row].as_py()))
        query = decode(shape, table.lists("slots")[row], vocabulary)
        target = int(table.lists("target")[row][0])
        shown = vocabulary.names(Level(level).role).show(target) if target != OUTSIDE else "(outside the vocabulary)"
        examples.append(ExampleQuery(template, level, describe(query, naming), shown))
    return examples
