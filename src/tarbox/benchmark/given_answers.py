"""Query tables of a folder of pickles: answered exactly where its facts are there, and compared with what it says.

Easy answers are those on the smaller graph, as KGReasoning has them: under negation some of them are false on the
larger one, and are filtered all the same. A folder without the facts of validation or test is taken at its word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, final

import numpy as np

from tarbox.benchmark.query_folders import MARKS, Answers, GivenQueries, QueryFolder, leaves
from tarbox.benchmark.tables import NO_TEMPLATE, Lists, QueryTable, render_shape
from tarbox.core.errors import BenchmarkError
from tarbox.core.ids import Level
from tarbox.execution.exact import split_answers
from tarbox.execution.graph import Index
from tarbox.execution.rows import decode, directed
from tarbox.kb.arrays import Ids, Places
from tarbox.kb.facts import SPLITS, Facts
from tarbox.kb.rows import offsets_of
from tarbox.kb.splits import Split, SplitStage
from tarbox.kb.terms import from_cell
from tarbox.kb.vocabulary import Vocabulary
from tarbox.query.algebra import Direction, Query, lift
from tarbox.query.betae import STRUCTURES, TEMPLATE_OF, Dictionary, Grounding, Structure, to_query
from tarbox.query.render import render

_TEMPLATES = {structure: TEMPLATE_OF[name] for name, structure in STRUCTURES.items()}


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
        return cls(vocabulary, np.array([place[iri] for iri in nodes], np.int32), np.array(ways, np.int32))

    def facts(self, triples: Places) -> Facts:
        """The facts of triples [T, 3] of the folder, in either direction."""
        ways = self.relations[triples[:, 1]]
        ends = self.entities[triples[:, [0, 2]]]
        ends = np.where((ways % 2 == 1)[:, None], ends, ends[:, ::-1])
        rows = np.unique(np.stack([ends[:, 0], ways // 2, ends[:, 1]], axis=1), axis=0).astype(np.int32)
        none = np.empty(0, np.int32)
        return Facts.of_columns(self.vocabulary, (*np.ascontiguousarray(rows.T), none, none, none, none))

    def lists(self, answers: Answers) -> Lists:
        """Answers as increasing ids."""
        sizes = np.array([len(own) for own in answers], np.int64)  # type: ignore[arg-type]
        flat = np.fromiter(chain.from_iterable(answers), np.int64, int(sizes.sum()))
        if len(flat) and not 0 <= flat.min() <= flat.max() < len(self.entities):
            raise BenchmarkError(f"{flat.max()} is given as an answer, and there are {len(self.entities):,} entities")
        owners, ids = np.repeat(np.arange(len(sizes)), sizes), self.entities[flat]
        return Lists(offsets_of(sizes), ids[np.lexsort((ids, owners))])


def read_tables(folder: QueryFolder) -> tuple[Split, dict[str, QueryTable], tuple[str, ...]]:
    """The graphs that the folder's facts make, the query table of each split, and what differs from its answers."""
    numbers = _Numbers.of(folder)
    graphs = _graphs(folder, numbers)
    tables, notes = {}, []
    for split, given in folder.queries.items():
        stage = graphs.stages.get(split)
        index = None if stage is None else Index.of(stage.facts, stage.earlier)
        if index is None:
            notes.append(f"{split}: the answers are as given: without {split}.txt they cannot be computed")
        made = [_table(queries, split, numbers, index) for queries in given]
        tables[split] = QueryTable.concatenate(table for table, _ in made)
        notes += [note for _, own in made for note in own]
    return graphs, tables, tuple(notes)


def _graphs(folder: QueryFolder, numbers: _Numbers) -> Split:
    """Train, with valid, with test, as far as there are files; train may be in the answers of 1p instead."""
    triples = dict(folder.triples)
    if "train" not in triples:
        links = [given for given in folder.queries.get("train", ()) if given.structure == STRUCTURES["1p"]]
        found = [_links(given.numbers, given.hard) for given in links if given.hard is not None]
        if not found:
            raise BenchmarkError(
                f"{folder.path} has no training facts: neither train.txt nor training queries of 1p with their answers"
            )
        triples["train"] = np.concatenate(found)
    stages: dict[str, SplitStage] = {}
    earlier: Facts | None = None
    for place, split in enumerate(SPLITS):
        if split not in triples:
            break
        facts = numbers.facts(np.concatenate([triples[part] for part in SPLITS[: place + 1]]))
        stages[split] = SplitStage(facts, earlier)
        earlier = facts
    return Split(stages)


def _links(numbers: Places, answers: Answers) -> Places:
    rows = [(head, way, tail) for (head, way), tails in zip(numbers.tolist(), answers, strict=True) for tail in tails]
    return np.array(rows, np.int64).reshape(-1, 3)


def _table(given: GivenQueries, split: str, numbers: _Numbers, index: Index | None) -> tuple[QueryTable, list[str]]:
    shape, ids = _encode(given, numbers)
    template = _TEMPLATES.get(given.structure)
    name, notes, missing = template or NO_TEMPLATE, list[str](), None
    easy, hard = (None if own is None else numbers.lists(own) for own in (given.easy, given.hard))
    if index is not None:
        rows, more, links = split_answers(shape, ids, index)
        found = Lists(rows.offsets, rows.columns), Lists(more.offsets, more.columns)
        if split == "train":  # nothing is held out: all answers are to be found
            found = found[1], found[0]
        else:
            missing = Lists(more.offsets, links.astype(np.int8))
        texts = (render(decode(shape, row, numbers.vocabulary)) for row in ids)
        notes = _compare(f"{split} {name}", {"easy": (easy, found[0]), "hard": (hard, found[1])}, texts)
        easy, hard = found
    if easy is None or hard is None:
        lacking = "easy" if easy is None else "hard"
        raise BenchmarkError(f"{given.file}: its {lacking} answers are not there, nor {split}.txt to compute them from")
    asked = np.flatnonzero(hard.sizes())
    if len(asked) < len(ids):
        notes.append(f"{split} {name}: {len(ids) - len(asked):,} queries have no answer to find and are left out")
    columns: dict[str, Any] = {
        "id": [f"{name}-{row}" for row in asked.tolist()],
        "template": [template] * len(asked),
        "level": [Level.ENTITY.value] * len(asked),
        "shape": [render_shape(shape)] * len(asked),
        "slots": Lists(np.arange(len(asked) + 1) * ids.shape[1], ids[asked].ravel()),
        "target": hard.take(asked),
        "known": easy.take(asked),
        "derivable": None if split == "train" else [False] * len(asked),
        "missing": None if missing is None else missing.take(asked),
    }
    return QueryTable.of(columns), notes


def _encode(given: GivenQueries, numbers: _Numbers) -> tuple[Query, Ids]:
    """The shape of a structure, and the ids [Q, slots] of its groundings."""
    marks = [mark for mark in leaves(given.structure) if mark not in MARKS]
    named = Dictionary(
        tuple(str(place) for place in range(len(marks))),
        tuple((str(place), Direction.FORWARD) for place in range(len(marks))),
    )
    shape, taken = lift(to_query(given.structure, _numbered(given.structure, iter(range(len(marks)))), named))
    places = [int(slot.name) for slot in taken]
    maps = [numbers.entities if marks[place] == "e" else numbers.relations for place in places]
    columns = [own[given.numbers[:, place]] for own, place in zip(maps, places, strict=True)]
    return shape, np.stack(columns, axis=1).astype(np.int32)


def _numbered(structure: Structure, count: Iterator[int]) -> Grounding:
    """The structure with its leaves counted through."""
    if isinstance(structure, tuple):
        return tuple(_numbered(part, count) for part in structure)
    return MARKS[structure] if structure in MARKS else next(count)


def _compare(title: str, answers: Mapping[str, tuple[Lists | None, Lists]], texts: Iterable[str]) -> list[str]:
    """A sentence for each kind of answers that are not as given."""
    notes = []
    for kind, (given, found) in answers.items():
        if given is None:
            continue
        other = given.sizes() != found.sizes()
        alike = np.flatnonzero(~other)
        one, two = given.take(alike), found.take(alike)
        other[alike[np.unique(one.owners()[one.values != two.values])]] = True
        if rows := np.flatnonzero(other).tolist():
            first, counts = next(islice(texts, rows[0], None)), (len(given[rows[0]]), len(found[rows[0]]))
            notes.append(
                f"{title}: of {len(rows):,} of {len(other):,} queries the {kind} answers are not as given, but as the "
                f"facts have it; the first: {first} ({counts[0]} given, {counts[1]} found)"
            )
            break
    return notes
