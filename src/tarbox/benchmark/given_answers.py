"""Query tables of a folder of pickles: answered exactly where its facts are there, and compared with what it says.

Easy answers are those on the smaller graph, as KGReasoning has them: under negation some of them are false on the
larger one, and are filtered all the same. A folder without the facts of validation or test is taken at its word.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from tarbox.benchmark.query_folders import AnswerIds, GivenQueries, QueryFolder
from tarbox.benchmark.tables import NO_TEMPLATE, Lists, QueryTable, render_shape
from tarbox.core.errors import BenchmarkError
from tarbox.core.ids import Level, Role
from tarbox.execution.exact import split_answers
from tarbox.execution.graph import Index
from tarbox.execution.rows import decode, directed
from tarbox.kb.arrays import Ids, Places
from tarbox.kb.facts import SPLITS, Facts
from tarbox.kb.rows import contains, offsets_of, pair_keys
from tarbox.kb.splits import Split, SplitStage
from tarbox.kb.terms import from_cell
from tarbox.kb.vocabulary import Vocabulary
from tarbox.query.algebra import Query, lift
from tarbox.query.betae import STRUCTURES, to_query
from tarbox.query.render import render

_TEMPLATES: Final = {structure: name for name, structure in STRUCTURES.items()}


@final
@dataclass(frozen=True, slots=True)
class _Numbers:
    """What the folder's numbers are here: [E] entities, [R] directed relations."""

    vocabulary: Vocabulary
    entities: Ids
    relations: Ids

    @classmethod
    def of(cls, folder: QueryFolder) -> _Numbers:
        nodes, edges = [from_cell(name) for name in folder.entities], [from_cell(name) for name, _ in folder.relations]
        vocabulary = Vocabulary.of(nodes, (), edges)
        place = {iri: row for row, iri in enumerate(vocabulary.entities)}
        number = {iri: row for row, iri in enumerate(vocabulary.relations)}
        ways = [directed(number[iri], way) for iri, (_, way) in zip(edges, folder.relations, strict=True)]
        _require_distinct(folder, "entities", nodes)
        _require_distinct(folder, "relations", ways)
        return cls(vocabulary, np.array([place[iri] for iri in nodes], np.int32), np.array(ways, np.int32))

    def facts(self, triples: Places) -> Facts:
        """The facts of triples [T, 3] of the folder, in either direction."""
        ways, ends = self.relations[triples[:, 1]], self.entities[triples[:, [0, 2]]]
        ends = np.where((ways % 2 == 1)[:, None], ends, ends[:, ::-1])
        rows = np.unique(np.stack([ends[:, 0], ways // 2, ends[:, 1]], axis=1), axis=0).astype(np.int32)
        none = np.empty(0, np.int32)
        return Facts.of_columns(self.vocabulary, (*np.ascontiguousarray(rows.T), none, none, none, none))

    def lists(self, answers: AnswerIds | None, file: Path) -> Lists | None:
        """The answers to the queries of `file` as increasing ids."""
        if answers is None:
            return None
        try:
            flat = np.asarray(array("q", chain.from_iterable(answers)))
        except (TypeError, OverflowError) as error:
            raise BenchmarkError(f"{file}: among the answers is what is no number of an entity: {error}") from None
        wrong = flat[(flat < 0) | (flat >= len(self.entities))]
        if len(wrong):
            raise BenchmarkError(
                f"{file}: {wrong[0]} is given as an answer; entities are 0 to {len(self.entities) - 1:,}"
            )
        found = Lists(offsets_of(np.array([len(own) for own in answers], np.int64)), self.entities[flat])
        return Lists(found.offsets, found.values[np.lexsort((found.values, found.owners()))])


def _require_distinct(folder: QueryFolder, kind: str, meanings: Sequence[object]) -> None:
    """Two numbers with one meaning would join what the folder tells apart."""
    first: dict[object, int] = {}
    for number, meaning in enumerate(meanings):
        if first.setdefault(meaning, number) != number:
            raise BenchmarkError(f"{folder.path}: the {kind} {first[meaning]} and {number} have the same name")


def read_tables(folder: QueryFolder, as_given: bool) -> tuple[Split, dict[str, QueryTable], tuple[str, ...]]:
    """The graphs that the folder's facts make, the query table of each split, and what differs from its answers.

    Where `as_given`, its answers are kept all the same: a set may ask for some of them only.
    """
    numbers = _Numbers.of(folder)
    graphs = _graphs(folder, numbers)
    tables, notes = {}, list(folder.notes)
    for split in SPLITS:
        given = [queries for queries in folder.queries if queries.split == split]
        stage = graphs.stages.get(split)
        index = None if stage is None else Index.of(stage.facts, stage.earlier)
        if given and index is None:
            notes.append(f"{split}: the answers are as given: without {split}.txt they cannot be computed")
        if given:
            counters = defaultdict[str, Iterator[int]](count)
            parts = [_table(own, numbers, index, notes, as_given, counters) for own in given]
            tables[split] = _distinct(split, QueryTable.concatenate(parts), notes)
    return graphs, tables, tuple(notes)


def _distinct(split: str, table: QueryTable, notes: list[str]) -> QueryTable:
    """Each query once: BetaE's folders have every union twice, the second time by De Morgan's law."""
    first = [batch.rows[np.unique(batch.ids, axis=0, return_index=True)[1]] for batch in table.batches()]
    kept = np.sort(np.concatenate([np.empty(0, np.int64), *first]))
    if len(kept) == len(table):
        return table
    notes.append(f"{split}: {len(table) - len(kept):,} queries are there twice, and are kept once")
    return table.take(kept)


def _graphs(folder: QueryFolder, numbers: _Numbers) -> Split:
    """Train, with valid, with test, as far as there are files; train may be in the answers of 1p instead."""
    triples = dict(folder.triples)
    if "train" not in triples:
        links = [own for own in folder.queries if own.split == "train" and own.structure == STRUCTURES["1p"]]
        asked = ((*row, answers) for own in links for row, answers in zip(own.numbers, own.hard or (), strict=False))
        triples["train"] = np.array([(h, r, t) for h, r, tails in asked for t in tails], np.int64).reshape(-1, 3)
    if not len(triples["train"]):
        raise BenchmarkError(
            f"{folder.path} has no training facts: neither train.txt nor training queries of 1p with their answers"
        )
    stages: dict[str, SplitStage] = {}
    earlier: Facts | None = None
    for place, split in enumerate(SPLITS):
        if split not in triples:
            break
        facts = numbers.facts(np.concatenate([triples[part] for part in SPLITS[: place + 1]]))
        stages[split] = SplitStage(facts, earlier)
        earlier = facts
    return Split(stages)


def _table(
    given: GivenQueries,
    numbers: _Numbers,
    index: Index | None,
    notes: list[str],
    as_given: bool,
    counters: Mapping[str, Iterator[int]],
) -> QueryTable:
    """The queries that have an answer to find; ids count those of a template, whichever structure has them."""
    shape, ids = _encode(given, numbers)
    template, missing, train = _TEMPLATES.get(given.structure), None, given.split == "train"
    name = template or NO_TEMPLATE
    title = f"{given.split} {name}"
    easy, hard = (numbers.lists(answers, given.file) for answers in (given.easy, given.hard))
    if index is not None:
        rows, more, links = split_answers(shape, ids, index)
        found = Lists(rows.offsets, rows.columns), Lists(more.offsets, more.columns)
        found = found[::-1] if train else found  # where nothing is held out all answers are to be found
        missing = None if train else Lists(more.offsets, links.astype(np.int8))
        told = {"easy": (easy, found[0]), "hard": (hard, found[1])}
        notes += _compare(title, told, lambda row: render(decode(shape, ids[row], numbers.vocabulary)))
        if as_given and hard is not None and (train or easy is not None):
            easy = found[0] if easy is None else easy
            missing = None if missing is None else _links_of(hard, found[1], missing)
        else:
            easy, hard = found
    if easy is None or hard is None:
        lacking = "easy" if easy is None else "hard"
        raise BenchmarkError(
            f"{given.file}: its {lacking} answers are not there, nor {given.split}.txt to compute them from"
        )
    asked = np.flatnonzero(hard.sizes())
    if len(asked) < len(ids):
        notes.append(f"{title}: {len(ids) - len(asked):,} queries have no answer to find and are left out")
    columns: dict[str, Any] = {
        "id": [f"{name}-{next(counters[name])}" for _ in asked],
        "template": [template] * len(asked),
        "level": [Level.ENTITY.value] * len(asked),
        "shape": [render_shape(shape)] * len(asked),
        "slots": Lists(np.arange(len(asked) + 1) * ids.shape[1], ids[asked].ravel()),
        "target": hard.take(asked),
        "known": easy.take(asked),
        "derivable": None if train else [False] * len(asked),
        "missing": None if missing is None else missing.take(asked),
    }
    return QueryTable.of(columns)


def _encode(given: GivenQueries, numbers: _Numbers) -> tuple[Query, Ids]:
    """The shape of a structure, and the ids [Q, slots] of its groundings."""
    shape, taken = lift(to_query(given.structure, [str(place) for place in range(given.numbers.shape[1])]))
    meanings = [numbers.entities if slot.role is Role.ENTITY else numbers.relations for slot in taken]
    columns = [own[given.numbers[:, int(slot.name)]] for own, slot in zip(meanings, taken, strict=True)]
    return shape, np.stack(columns, axis=1)


def _compare(
    title: str, answers: Mapping[str, tuple[Lists | None, Lists]], show: Callable[[int], str]
) -> Iterable[str]:
    """A sentence for each kind of answers that are not as given."""
    for kind, (given, found) in answers.items():
        if given is None:
            continue
        other = given.sizes() != found.sizes()
        alike = np.flatnonzero(~other)
        one, two = given.take(alike), found.take(alike)
        other[alike[np.unique(one.owners()[one.values != two.values])]] = True
        if rows := np.flatnonzero(other).tolist():
            yield (
                f"{title}: of {len(rows):,} of {len(other):,} queries the {kind} answers that are given are not those "
                f"of the facts; the first: {show(rows[0])} ({len(given[rows[0]])} given, {len(found[rows[0]])} found)"
            )


def _links_of(wanted: Lists, found: Lists, links: Lists) -> Lists | None:
    """The missing links of some of the answers found; None where others are wanted."""
    width = 1 + int(max(wanted.values.max(initial=0), found.values.max(initial=0)))
    keys, own = (pair_keys(lists.owners(), lists.values, width) for lists in (found, wanted))
    if not contains(keys, own).all():
        return None
    return Lists(wanted.offsets, links.values[np.searchsorted(keys, own)])
