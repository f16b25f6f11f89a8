"""Small random graphs, and random queries of all node kinds over their names."""

from __future__ import annotations

import random

import pytest

from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.query.algebra import And, AtLeast, Concept, DataRange, Direction, Entity, Exists, HasSelf, Not, Or, Query
from tarbox.query.names import ANYTHING, XSD

ENTITIES, CONCEPTS, RELATIONS = 12, 5, 3


class Maker:
    """Draws graphs and queries from one seed; some of the entities are `literals`, the numbers from 0 on."""

    def __init__(self, seed: int, literals: int = 3) -> None:
        self.random = random.Random(seed)
        self.vocabulary = Vocabulary.of(
            [
                *(f'"{i}"^^<{XSD}integer>' for i in range(literals)),
                *(f"urn:e{i:02}" for i in range(literals, ENTITIES)),
            ],
            [f"urn:c{i}" for i in range(CONCEPTS)],
            [f"urn:r{i}" for i in range(RELATIONS)],
        )

    def facts(self, assertions: int = 30, typings: int = 8, subsumptions: int = 3) -> Facts:
        draw = self.random.randrange
        return Facts.of(
            self.vocabulary,
            [(draw(ENTITIES), draw(RELATIONS), draw(ENTITIES)) for _ in range(assertions)],
            [(draw(ENTITIES), draw(CONCEPTS)) for _ in range(typings)],
            [(draw(CONCEPTS), draw(CONCEPTS)) for _ in range(subsumptions)],
            self.random.sample(range(RELATIONS), draw(RELATIONS)),
        )

    def query(self, depth: int = 4) -> Query:
        draw = self.random.random()
        if depth == 0 or draw < 0.1:
            return self._leaf()
        if draw < 0.55:
            relation, way = f"urn:r{self.random.randrange(RELATIONS)}", self.random.choice(list(Direction))
            count = self.random.choice([1, 1, 1, 2, 2, 3])
            inner = self.query(depth - 1)
            return Exists(relation, way, inner) if count == 1 else AtLeast(count, relation, way, inner)
        if draw < 0.85:
            parts = tuple(self.query(depth - 1) for _ in range(self.random.choice([2, 3])))
            return And(parts) if draw < 0.7 else Or(parts)
        return Not(self.query(depth - 1))

    def _leaf(self) -> Query:
        draw = self.random.random()
        if draw < 0.03:
            return Concept(ANYTHING)
        if draw < 0.08:
            return HasSelf(f"urn:r{self.random.randrange(RELATIONS)}")
        if draw < 0.13:
            bound = self.random.choice([((">=", f'"1"^^<{XSD}integer>'),), ()])
            return DataRange(XSD + "integer", bound)
        if draw < 0.3:
            return Concept(f"urn:c{self.random.randrange(CONCEPTS)}")
        return Entity(self.vocabulary.entities.iri(self.random.randrange(ENTITIES)))


@pytest.fixture
def maker() -> Maker:
    return Maker(0, literals=0)


@pytest.fixture
def make_maker() -> type[Maker]:
    return Maker
