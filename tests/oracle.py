"""The slow, obviously right answers over Python sets: what the fast algebra is tested against.

A concept means its instances under closure; it describes these, and the subjects of annotation relations to these. A
complement is taken over all entities of the knowledge base.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from tarbox.core.ids import Role
from tarbox.execution.interpreter import evaluate
from tarbox.execution.rows import EVERYTHING, name_id
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.query.algebra import DataRange, Direction, Query
from tarbox.query.ranges import holds

Members = frozenset[int]


@final
@dataclass(frozen=True, slots=True)
class Oracle:
    """An algebra over frozen sets of entity ids; names in queries are terms of the vocabulary.

    >>> from tarbox.query.algebra import Entity, Exists
    >>> vocabulary = Vocabulary.of(["a", "b"], relations=["p"])
    >>> oracle = Oracle.of(Facts.of(vocabulary, [(0, 0, 1)]))
    >>> oracle.entities(Exists("p", Direction.INVERSE, Entity("a")))
    frozenset({1})
    """

    vocabulary: Vocabulary
    assertions: frozenset[tuple[int, int, int]]
    concepts_of: dict[int, set[int]]
    described_by: dict[int, set[int]]

    @classmethod
    def of(cls, facts: Facts) -> Oracle:
        supers: dict[int, set[int]] = {}
        for sub, above in zip(facts.subs.tolist(), facts.supers.tolist(), strict=True):
            supers.setdefault(sub, set()).add(above)
        concepts_of: dict[int, set[int]] = {}
        for entity, concept in zip(facts.typed.tolist(), facts.types.tolist(), strict=True):
            concepts_of.setdefault(entity, set()).update(_above(concept, supers))
        triples = frozenset(zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True))
        described_by = {entity: set(concepts) for entity, concepts in concepts_of.items()}
        for head, relation, tail in triples:
            if relation in facts.annotations:
                described_by.setdefault(head, set()).update(concepts_of.get(tail, ()))
        return cls(facts.vocabulary, triples, concepts_of, described_by)

    def entities(self, query: Query) -> Members:
        """The ids of the entities in the answer."""
        return evaluate(query, self)

    def concepts(self, query: Query) -> dict[int, int]:
        """Every concept that describes an answer entity, with the number of those."""
        counts: dict[int, int] = {}
        for entity in self.entities(query):
            for concept in self.described_by.get(entity, ()):
                counts[concept] = counts.get(concept, 0) + 1
        return counts

    def entity(self, name: str) -> Members:
        return frozenset([name_id(Role.ENTITY, name, self.vocabulary)])

    def concept(self, name: str) -> Members:
        concept = name_id(Role.CONCEPT, name, self.vocabulary)
        if concept == EVERYTHING:
            return self.complement(frozenset())
        return frozenset(e for e, concepts in self.concepts_of.items() if concept in concepts)

    def literals(self, wanted: DataRange) -> Members:
        return frozenset(row for row, term in enumerate(self.vocabulary.entities) if holds(wanted, term))

    def exists(self, relation: str, direction: Direction, operand: Members) -> Members:
        return self.at_least(1, relation, direction, operand)

    def at_least(self, count: int, relation: str, direction: Direction, operand: Members) -> Members:
        wanted = name_id(Role.RELATION, relation, self.vocabulary)
        pairs = [(h, t) if direction is Direction.FORWARD else (t, h) for h, r, t in self.assertions if r == wanted]
        reached = [x for x, y in pairs if y in operand]
        return frozenset(x for x in reached if reached.count(x) >= count)

    def has_self(self, relation: str) -> Members:
        wanted = name_id(Role.RELATION, relation, self.vocabulary)
        return frozenset(h for h, r, t in self.assertions if r == wanted and h == t)

    def intersection(self, operands: Sequence[Members]) -> Members:
        return operands[0].intersection(*operands[1:])

    def union(self, operands: Sequence[Members]) -> Members:
        return operands[0].union(*operands[1:])

    def complement(self, operand: Members) -> Members:
        return frozenset(range(len(self.vocabulary.entities))) - operand


def _above(concept: int, supers: dict[int, set[int]]) -> set[int]:
    """The concept and everything above it."""
    reached, frontier = {concept}, [concept]
    while frontier:
        fresh = supers.get(frontier.pop(), set()) - reached
        reached |= fresh
        frontier += fresh
    return reached


@dataclass(frozen=True)
class Costs:
    """Min-plus over dictionaries: the answers on the larger graph with the fewest held-out facts of a proof."""

    larger: Oracle
    smaller: Oracle

    def entity(self, name):
        return dict.fromkeys(self.larger.entity(name), 0)

    def concept(self, name):
        before = self.smaller.concept(name)
        return {entity: int(entity not in before) for entity in self.larger.concept(name)}

    def exists(self, relation, direction, operand):
        wanted = name_id(Role.RELATION, relation, self.larger.vocabulary)
        result = {}
        for head, number, tail in self.larger.assertions:
            x, y = (head, tail) if direction is Direction.FORWARD else (tail, head)
            if number == wanted and y in operand:
                cost = operand[y] + ((head, number, tail) not in self.smaller.assertions)
                result[x] = min(cost, result.get(x, cost))
        return result

    def at_least(self, count, relation, direction, operand):
        wanted = name_id(Role.RELATION, relation, self.larger.vocabulary)
        costs = {}
        for head, number, tail in self.larger.assertions:
            x, y = (head, tail) if direction is Direction.FORWARD else (tail, head)
            if number == wanted and y in operand:
                cost = operand[y] + ((head, number, tail) not in self.smaller.assertions)
                costs.setdefault(x, []).append(cost)
        return {x: sum(sorted(own)[:count]) for x, own in costs.items() if len(own) >= count}

    def has_self(self, relation):
        before = self.smaller.has_self(relation)
        return {entity: int(entity not in before) for entity in self.larger.has_self(relation)}

    def literals(self, wanted):
        return dict.fromkeys(self.larger.literals(wanted), 0)

    def intersection(self, operands):
        common = set.intersection(*map(set, operands))
        return {x: sum(operand[x] for operand in operands) for x in common}

    def union(self, operands):
        everything = set().union(*operands)
        return {x: min(operand[x] for operand in operands if x in operand) for x in everything}

    def complement(self, operand):
        return dict.fromkeys(set(range(len(self.larger.vocabulary.entities))) - set(operand), 0)

    def concepts(self, entities):
        result = {}
        for entity, cost in entities.items():
            for concept in self.larger.described_by.get(entity, ()):
                total = cost + (concept not in self.smaller.described_by.get(entity, ()))
                result[concept] = min(total, result.get(concept, total))
        return result
