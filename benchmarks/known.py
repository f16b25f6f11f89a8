"""Does a run know exactly what follows from its facts? Random queries of any form, answered by both.

    PYTHONPATH=src python3 benchmarks/known.py scratch/kb-codex-m scratch/kb-yago4=RUN --queries 10000

Each argument is a store, or STORE=RUN with a run that was trained on all of its facts (`tarbox train STORE -o RUN`).
Where none is named one is trained: recipe `credo-small`, one epoch, since what is known does not depend on how well
anything is learnt. Queries have all kinds of nodes (entities, concepts, relations in both directions, `and`, `or`,
`not`), to a depth of 4; every second one is drawn so that it has an answer. Compared are the known entities and
concepts of `Reasoner.answer` and of the model itself with the exact answers of the store, each query by itself. Where
no `not` is in the query, known answers must have degree 1, too. The exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from tarbox.execution.exact import Answer, answer_query
from tarbox.execution.graph import Index
from tarbox.execution.rows import encode, undirected
from tarbox.kb.store import open_store
from tarbox.models.saved import open_run
from tarbox.models.scorer import Predictor
from tarbox.query.algebra import And, Concept, Entity, Exists, Not, Or, Query, walk
from tarbox.query.rewrites import plain
from tarbox.service.answers import KNOWN, Answers
from tarbox.service.reasoner import Reasoner
from tarbox.training.session import start
from tarbox.training.settings import read_recipe, resolve

DEPTH: Final = 4
LISTED: Final = 1000
"""Answers that are listed by name; more are compared by their ids and their number."""
TRIES: Final = 50
AT_ONCE: Final = 50


class Drawer:
    """Random queries over the facts of an index."""

    def __init__(self, index: Index, seed: int) -> None:
        facts, self._index = index.facts, index
        self._names = facts.vocabulary
        near = np.concatenate([facts.heads, facts.tails])
        order = np.argsort(near, kind="stable")
        # directed relation d leads to `near` from `other`: 2 r to the head of r, 2 r + 1 to its tail
        self._directed = np.concatenate([2 * facts.relations, 2 * facts.relations + 1])[order]
        self._others = np.concatenate([facts.tails, facts.heads])[order]
        self._starts = np.searchsorted(near[order], np.arange(index.entities + 1))
        self._random = np.random.default_rng(seed)

    def any(self, depth: int) -> Query:
        """Any query, mostly without an answer."""
        kind = self._below(2 if depth <= 1 else 7)
        if kind == 0:
            return Entity(self._names.entities.iri(self._below(self._index.entities)))
        if kind == 1 and self._index.concepts:
            return Concept(self._names.concepts.iri(self._below(self._index.concepts)))
        if kind <= 3:
            return self._exists(self._below(2 * len(self._names.relations)), self.any(depth - 1))
        if kind == 6:
            return Not(self.any(depth - 1))
        parts = tuple(self.any(depth - 1) for _ in range(2 + self._below(2)))
        return And(parts) if kind == 4 else Or(parts)

    def answered(self, depth: int) -> tuple[Query, Answer]:
        """A query with an answer."""
        for _ in range(TRIES):
            query = self._of(self._below(self._index.entities), depth)
            found = answer_query(query, self._index)
            if len(found.entities):
                return query, found
        query = Entity(self._names.entities.iri(0))
        return query, answer_query(query, self._index)

    def _of(self, entity: int, depth: int) -> Query:
        """A query that this entity answers, unless something under a `not` takes it away."""
        kind = self._below(2 if depth <= 1 else 7)
        concepts = self._index.instances.concepts_of[entity]
        first, last = int(self._starts[entity]), int(self._starts[entity + 1])
        if kind == 1 and len(concepts):
            return Concept(self._names.concepts.iri(int(concepts[self._below(len(concepts))])))
        if kind in (2, 3) and last > first:
            place = first + self._below(last - first)
            return self._exists(int(self._directed[place]), self._of(int(self._others[place]), depth - 1))
        if kind == 4:
            return And(tuple(self._of(entity, depth - 1) for _ in range(2 + self._below(2))))
        if kind == 5:
            parts = [self._of(entity, depth - 1), *(self.any(depth - 1) for _ in range(1 + self._below(2)))]
            return Or(tuple(parts[place] for place in self._random.permutation(len(parts))))
        if kind == 6:
            return Not(self.any(depth - 1))
        return Entity(self._names.entities.iri(entity))

    def _exists(self, directed: int, operand: Query) -> Query:
        relation, direction = undirected(directed)
        return Exists(self._names.relations.iri(relation), direction, operand)

    def _below(self, size: int) -> int:
        return int(self._random.integers(size))


@dataclass(slots=True)
class Row:
    """What was found with one store."""

    name: str
    queries: int = 0
    answered: int = 0
    negated: int = 0
    entities: int = 0
    concepts: int = 0
    degrees: int = 0
    seconds: float = 0.0

    def differences(self) -> int:
        return self.entities + self.concepts + self.degrees


def check(store: Path, run: Path, count: int, seed: int) -> Row:
    """The differences between a run and the exact answers of its store."""
    saved = open_run(run)
    opened = open_store(store)
    saved.check_facts(opened, store)
    index, reasoner, scorer = Index.of(opened.facts), Reasoner.load(run), saved.scorer()
    assert isinstance(scorer, Predictor)
    row, drawer, began = Row(store.name), Drawer(index, seed), time.monotonic()
    for first in range(0, count, AT_ONCE):
        asked: list[tuple[Query, Answer]] = []
        for number in range(first, min(first + AT_ONCE, count)):
            depth = 1 + number // 2 % DEPTH
            if number % 2:
                asked.append(drawer.answered(depth))
            else:
                query = drawer.any(depth)
                asked.append((query, answer_query(query, index)))
        few = [pair for pair in asked if max(len(pair[1].entities), len(pair[1].concepts)) <= LISTED]
        given = reasoner.answer_many([query for query, _ in few], k=None, min_degree=1.0)
        for (query, exact), answers in zip(few, given, strict=True):
            compare_lists(row, query, exact, answers, index)
        for query, exact in asked:
            compare_ids(row, query, exact, scorer)
    row.seconds = time.monotonic() - began
    return row


def compare_lists(row: Row, query: Query, exact: Answer, answers: Answers, index: Index) -> None:
    """What `Reasoner.answer` lists as known, by name."""
    names = index.facts.vocabulary
    known = {item.iri for item in answers.entities if item.status == KNOWN}
    row.entities += known != {term(names.entities.iri(number)) for number in exact.entities.tolist()}
    known = {item.iri for item in answers.concepts if item.status == KNOWN}
    row.concepts += known != {term(names.concepts.iri(number)) for number in exact.concepts.tolist()}
    if not any(isinstance(node, Not) for node in walk(query)):
        degrees = [(item.degree, item.status) for item in answers.entities]
        degrees += [(item.degree, item.status) for item in answers.concepts]
        row.degrees += any(degree < 1 for degree, status in degrees if status == KNOWN)


def compare_ids(row: Row, query: Query, exact: Answer, scorer: Predictor) -> None:
    """What the model says is known, by number."""
    shape, ids = encode(plain(query), scorer.index.facts.vocabulary)
    found = scorer.predict(shape, ids[None])
    row.queries += 1
    row.answered += len(exact.entities) > 0
    row.negated += any(isinstance(node, Not) for node in walk(query))
    row.entities += not np.array_equal(found.known_entities[0], exact.entities)
    row.concepts += not np.array_equal(found.known_concepts[0], exact.concepts)


def term(name: str) -> str:
    """N-Triples form: an IRI in brackets, a literal as it is."""
    return name if name.startswith('"') else f"<{name}>"


def trained(store: Path, folder: Path) -> Path:
    """A small run on all facts of a store."""
    run = folder / store.name
    start(store, run, resolve([read_recipe("credo-small"), {"stopping": {"epochs": 1}}], "credo"))
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs="+", metavar="STORE[=RUN]")
    parser.add_argument("--queries", type=int, default=10_000, help="of each store")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for text in options.stores:
            store, _, run = text.partition("=")
            rows.append(
                check(
                    Path(store),
                    Path(run) if run else trained(Path(store), Path(scratch)),
                    options.queries,
                    options.seed,
                )
            )
            print(f"{store}: {rows[-1].differences()} differences", flush=True)
    print(f"\n{'':20}{'queries':>9}{'answered':>10}{'with not':>10}{'different: entities':>21}", end="")
    print(f"{'concepts':>10}{'degrees':>9}{'s':>7}")
    for row in rows:
        print(
            f"{row.name:20}{row.queries:9,}{row.answered:10,}{row.negated:10,}"
            f"{row.entities:21,}{row.concepts:10,}{row.degrees:9,}{row.seconds:7.0f}"
        )
    sys.exit(any(row.differences() for row in rows))


if __name__ == "__main__":
    main()
