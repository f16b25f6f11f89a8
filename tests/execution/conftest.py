"""Small random graphs, and random queries of all node kinds over their names."""

from __future__ import annotations

import random

import pytest

from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not, Or, Query
from tarbox.query.names import ANYTHING

ENTITIES, CONCEPTS, RELATIONS = 12, 5, 3


class Maker:
    """Draws graphs and queries from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.vocabulary = Vocabulary.of(
            [f"urn:e{i:02}" for i in range(ENTITIES)],
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
        )

    def query(self, depth: int = 4) -> Query:
        draw = self.random.random()
        if depth == 0 or draw < 0.1:
            return self._leaf()
        if draw < 0.55:
            relation = f"urn:r{self.random.randrange(RELATIONS)}"
            return Exists(relation, self.random.choice(list(Direction)), self.query(depth - 1))
        if draw < 0.85:
            parts = tuple(self.query(depth - 1) for _ in range(self.random.choice([2, 3])))
            return And(parts) if draw < 0.7 else Or(parts)
        return Not(self.query(depth - 1))

    def _leaf(self) -> Query:
        draw = self.random.random()
        if draw < 0.03:
            return Concept(ANYTHING)
        if draw < 0.3:
            return Concept(f"urn:c{self.random.randrange(CONCEPTS)}")
        return Entity(f"urn:e{self.random.randrange(ENTITIES):02}")


@pytest.fixture
def maker() -> Maker:
    return Maker(0)


@pytest.fixture
def make_maker() -> type[Maker]:
    return Maker
