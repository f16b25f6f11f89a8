"""A model of the small academia with probabilities that compose: a slow, plain `Predictor`.

`and` multiplies, `or` is its dual, `not p` is 1 - p. An entity that several others lead to is reached by the
`strongest` of these ways, or with `independent` ways by any. A concept is as likely as the likeliest answer that is an
instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from tarbox.core.ids import Level, Role
from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.execution.interpreter import evaluate
from tarbox.execution.rows import EVERYTHING, directed
from tarbox.kb.facts import Facts, Ids
from tarbox.kb.rows import Rows
from tarbox.models.credo.probabilities import FactProbabilities
from tarbox.models.scorer import Prediction
from tarbox.query.algebra import Direction, Query, slots

LINKS = {
    ("YannLeCun", "worksAt", "MIT"): 0.6,
    ("YannLeCun", "worksAt", "Toronto"): 0.3,
    ("MIT", "locatedIn", "Canada"): 0.25,
    ("Google", "interestedIn", "Search"): 0.5,
    ("GeoffreyHinton", "investigates", "Search"): 0.4,
    ("Toronto", "uses", "Search"): 0.05,
    ("Canada", "uses", "Search"): 0.0005,
}
TYPINGS = {("Google", "University"): 0.2, ("Canada", "Organisation"): 0.7}
Floats = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class SmallAlgebra:
    """Fuzzy sets [rows, E] over dense tables: `links` [2R, near, far], `typings` [E, C]."""

    links: Floats
    typings: Floats
    columns: dict[str, Ids]
    rows: int
    independent: bool

    def entity(self, name: str) -> Floats:
        return np.eye(len(self.typings), dtype=np.float32)[self.columns[name]]

    def concept(self, name: str) -> Floats:
        own = self.typings.T[self.columns[name]]
        own[self.columns[name] == EVERYTHING] = 1.0
        return own

    def exists(self, relation: str, direction: Direction, operand: Floats) -> Floats:  # noqa: ARG002
        ways = operand[:, :, None] * self.links[self.columns[relation]]
        found: Floats = 1 - (1 - ways).prod(1) if self.independent else ways.max(1)
        return found

    def intersection(self, operands: Sequence[Floats]) -> Floats:
        return reduce(np.multiply, operands)

    def union(self, operands: Sequence[Floats]) -> Floats:
        found: Floats = 1 - reduce(np.multiply, [1 - operand for operand in operands])
        return found

    def complement(self, operand: Floats) -> Floats:
        found: Floats = 1 - operand
        return found


class SmallPredictor:
    """Knows the facts, and predicts `LINKS` and `TYPINGS`. `asked` are the sizes of the batches it was asked for."""

    def __init__(self, facts: Facts, independent: bool = False) -> None:
        self.index = Index.of(facts)
        self.independent = independent
        self.asked: list[int] = []
        self._links, self._typings = _dense(facts, self.index)
        way, near, far = np.nonzero(self._links)
        entity, concept = np.nonzero(self._typings)
        concepts = Rows.of_values(
            entity * self.index.concepts + concept,
            self._typings[entity, concept],
            self.index.entities,
            self.index.concepts,
        )
        self.probabilities = FactProbabilities(
            np.searchsorted(way, np.arange(len(self._links) + 1)),
            near.astype(np.int32),
            far.astype(np.int32),
            self._links[way, near, far],
            concepts,
            concepts,
        )

    def candidates(self, level: Level) -> int:
        return self.index.entities if level is Level.ENTITY else self.index.concepts

    def supports(self, shape: Query) -> bool:  # noqa: ARG002
        return True

    def score(self, shape: Query, ids: Ids, level: Level) -> Floats:
        entities = self.fuzzy_sets(shape, ids)
        return entities if level is Level.ENTITY else self.fuzzy_concepts(entities)

    def fuzzy_sets(self, shape: Query, ids: Ids) -> Floats:
        """[B, E]"""
        columns = {slot.name: ids[:, place] for place, slot in enumerate(slots(shape))}
        return evaluate(shape, SmallAlgebra(self._links, self._typings, columns, len(ids), self.independent))

    def fuzzy_concepts(self, entities: Floats) -> Floats:
        """[B, C]"""
        found: Floats = (entities[:, :, None] * self._typings).max(1)
        return found

    def predict(self, shape: Query, ids: Ids) -> Prediction:
        self.asked.append(len(ids))
        entities = self.fuzzy_sets(shape, ids)
        dense, expected = self.fuzzy_concepts(entities), entities @ self._typings
        row, concept = np.nonzero(dense)  # sparse: what has no evidence is not there
        keys = row * self.index.concepts + concept
        concepts = Rows.of_keys(keys, len(ids), self.index.concepts, dense[row, concept])
        return Prediction(entities, concepts, expected[row, concept], *answer_rows(shape, ids, self.index))


def _dense(facts: Facts, index: Index) -> tuple[Floats, Floats]:
    """([2R, near, far], [E, C]), what is known at 1; no concept has a lesser degree than one below it."""
    names = facts.vocabulary
    number = {
        role: {names.names(role).show(i).replace(" ", ""): i for i in range(len(names.names(role)))} for role in Role
    }
    entity, concept, relation = number[Role.ENTITY], number[Role.CONCEPT], number[Role.RELATION]
    links = np.zeros((2 * len(relation), len(entity), len(entity)), np.float32)
    triples = {(entity[h], relation[r], entity[t]): d for (h, r, t), d in LINKS.items()}
    for h, r, t in zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True):
        triples[h, r, t] = 1.0
    for (h, r, t), degree in triples.items():
        links[directed(r, Direction.FORWARD), t, h] = links[directed(r, Direction.INVERSE), h, t] = degree
    typings = np.zeros((len(entity), len(concept)), np.float32)
    typings[index.instances.concepts_of.coordinates()] = 1.0
    for (e, c), degree in TYPINGS.items():
        above = index.instances.hierarchy.ancestors[concept[c]]
        typings[entity[e], above] = np.maximum(typings[entity[e], above], degree)
    return links, typings
