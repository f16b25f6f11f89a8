"""Small knowledge bases whose facts have probabilities, queries over their names, and slow, plain evaluations."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tarbox.execution.graph import Index
from tarbox.execution.rows import encode
from tarbox.kb.facts import Facts
from tarbox.kb.rows import TripleKeys, pair_keys
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.credo.composition import ProbabilityAlgebra, compose
from tarbox.models.credo.probabilities import LEAST_DESCRIBED, FactProbabilities
from tarbox.models.saved import sizes_of
from tarbox.query.algebra import And, AtLeast, Concept, Direction, Entity, Exists, HasSelf, Not, Or, Query, slots
from tarbox.query.names import ANYTHING

Links = dict[tuple[int, int, int], float]
"""Probabilities of (relation, head, tail)."""
Typings = dict[tuple[int, int], float]
"""Probabilities of (entity, concept)."""


@dataclass(frozen=True)
class World:
    """Facts, and what is predicted beyond them."""

    facts: Facts
    links: Links
    typings: Typings

    @cached_property
    def probabilities(self) -> FactProbabilities:
        sizes, width = sizes_of(self.facts), max(len(self.facts.vocabulary.entities), 1)
        triples = np.array(sorted(self.links), np.int64).reshape(-1, 3)
        pairs = np.array(sorted(self.typings), np.int64).reshape(-1, 2)
        return FactProbabilities.of(
            self.facts,
            sizes,
            (TripleKeys(width).encode(*triples.T), _degrees(self.links)),
            (pair_keys(pairs[:, 0], pairs[:, 1], sizes.concepts), _degrees(self.typings)),
        )

    @cached_property
    def index(self) -> Index:
        return Index.of(self.facts)

    @property
    def entities(self) -> int:
        return len(self.facts.vocabulary.entities)

    def all_links(self) -> Links:
        """The known ones, too."""
        known = zip(self.facts.relations.tolist(), self.facts.heads.tolist(), self.facts.tails.tolist(), strict=True)
        return self.links | dict.fromkeys(known, 1.0)

    def all_typings(self) -> Typings:
        """Known and predicted ones with everything that follows, each with the greatest of what it follows from."""
        known = zip(self.facts.typed.tolist(), self.facts.types.tolist(), strict=True)
        found: Typings = {}
        for (entity, concept), degree in (self.typings | dict.fromkeys(known, 1.0)).items():
            for above in self.above(concept):
                found[entity, above] = max(found.get((entity, above), 0.0), degree)
        return found

    def all_descriptions(self) -> Typings:
        """The noisy-or of an entity's typings and of those of what annotation relations lead it to."""
        typings = self.all_typings()
        if not self.facts.annotations:
            return typings
        proofs = [(entity, concept, degree) for (entity, concept), degree in typings.items()]
        for (relation, head, tail), degree in self.all_links().items():
            if relation in self.facts.annotations:
                proofs += [(head, c, degree * likely) for (entity, c), likely in typings.items() if entity == tail]
        absent: Typings = {}
        for entity, concept, degree in proofs:
            absent[entity, concept] = absent.get((entity, concept), 1.0) * (1 - degree)
        return {pair: 1 - none for pair, none in absent.items() if 1 - none >= LEAST_DESCRIBED}

    def above(self, concept: int) -> set[int]:
        """The concept and everything above it."""
        reached, open_ = {concept}, [concept]
        while open_:
            below = open_.pop()
            for sub, over in zip(self.facts.subs.tolist(), self.facts.supers.tolist(), strict=True):
                if sub == below and over not in reached:
                    reached.add(over)
                    open_.append(over)
        return reached

    def value(self, query: Query) -> np.ndarray:
        """[E] the probabilities of one query."""
        shape, ids = encode(query, self.facts.vocabulary)
        return self.values(shape, ids[None])[0]

    def values(self, shape: Query, ids: np.ndarray) -> np.ndarray:
        """[B, E] of queries of one shape."""
        columns = {slot.name: ids[:, place] for place, slot in enumerate(slots(shape))}
        return compose(shape, ProbabilityAlgebra(self.probabilities, columns, (len(ids), self.entities)))


def _degrees(found: Links | Typings) -> np.ndarray:
    return np.array([found[key] for key in sorted(found)], np.float32)


class Maker:
    """Draws knowledge bases and queries from one seed."""

    def __init__(self, seed: int, entities: int = 7, concepts: int = 4, relations: int = 3) -> None:
        self.random = random.Random(seed)
        self.sizes = entities, concepts, relations
        self.annotations = [relation for relation in range(relations) if seed >> relation & 1]
        self.vocabulary = Vocabulary.of(
            [f"urn:e{i:02}" for i in range(entities)],
            [f"urn:c{i:02}" for i in range(concepts)],
            [f"urn:r{i}" for i in range(relations)],
        )

    def world(self, uncertain: bool = True, dense: float = 2.0) -> World:
        """About `dense` links for each entity and relation, half of them known; without uncertainty all are."""
        entities, concepts, relations = self.sizes
        draw = self.random.randrange
        count = round(dense * entities * relations)
        links = [(draw(relations), draw(entities), draw(entities)) for _ in range(count)]
        typings = [(draw(entities), draw(concepts)) for _ in range(2 * entities)]
        known, typed = (set(part[:: 2 if uncertain else 1]) for part in (links, typings))
        tree = [(low, draw(low)) for low in range(1, concepts) if self.random.random() < 0.6]
        assertions = [(head, relation, tail) for relation, head, tail in known]
        facts = Facts.of(self.vocabulary, assertions, typed, tree, self.annotations)
        open_links = {link: self.degree() for link in links if link not in known}
        implied = set(World(facts, {}, {}).all_typings())
        return World(facts, open_links, {pair: self.degree() for pair in typings if pair not in implied})

    def degree(self) -> float:
        return float(np.float32(self.random.choice([0.5, self.random.random(), 0.99, 0.01])))

    def leaf(self) -> Query:
        entities, concepts, _ = self.sizes
        draw = self.random.random()
        if draw < 0.05:
            return Concept(ANYTHING)
        if draw < 0.1:
            return HasSelf(f"urn:r{self.random.randrange(self.sizes[2])}")
        if draw < 0.5 and concepts:
            return Concept(f"urn:c{self.random.randrange(concepts):02}")
        return Entity(f"urn:e{self.random.randrange(entities):02}")

    def query(self, depth: int = 4) -> Query:
        draw = self.random.random()
        if depth <= 1 or draw < 0.15:
            return self.leaf()
        if draw < 0.5:
            return self.step(self.query(depth - 1))
        if draw < 0.85:
            parts = tuple(self.query(depth - 1) for _ in range(self.random.choice([2, 2, 3])))
            return And(parts) if draw < 0.68 else Or(parts)
        return Not(self.query(depth - 1))

    def step(self, operand: Query) -> Query:
        relation, way = f"urn:r{self.random.randrange(self.sizes[2])}", self.random.choice(list(Direction))
        count = self.random.choice([1, 1, 1, 2, 3])
        return Exists(relation, way, operand) if count == 1 else AtLeast(count, relation, way, operand)
