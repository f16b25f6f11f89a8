"""Why an answer: the members of every part of a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from tarbox.execution.arrays import ArrayAlgebra, ArraySet
from tarbox.execution.interpreter import evaluate
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not, Or, Query
from tarbox.service.knowledge_base import KnowledgeBase

SHOWN = 5


@final
@dataclass(frozen=True, slots=True)
class Explanation:
    """A part of a query: its text and English, how many entities it holds, the first of them, and its own parts."""

    text: str
    english: str
    count: int
    members: tuple[str, ...]
    parts: tuple[Explanation, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.text,
            "english": self.english,
            "count": self.count,
            "members": list(self.members),
            "parts": [part.to_json() for part in self.parts],
        }


def explain(query: Query, kb: KnowledgeBase) -> Explanation:
    """The query with the members of each of its parts."""
    return _shown(evaluate(query, _Tracer(ArrayAlgebra(kb.index))), kb)


@final
@dataclass(frozen=True, slots=True)
class _Traced:
    """A set, the query it is the meaning of, and the sets it was made from."""

    query: Query
    value: ArraySet
    parts: tuple[_Traced, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class _Tracer:
    """The exact algebra, keeping every set on the way."""

    inner: ArrayAlgebra

    def entity(self, name: str) -> _Traced:
        return _Traced(Entity(name), self.inner.entity(name))

    def concept(self, name: str) -> _Traced:
        return _Traced(Concept(name), self.inner.concept(name))

    def exists(self, relation: str, direction: Direction, operand: _Traced) -> _Traced:
        value = self.inner.exists(relation, direction, operand.value)
        return _Traced(Exists(relation, direction, operand.query), value, (operand,))

    def intersection(self, operands: Sequence[_Traced]) -> _Traced:
        value = self.inner.intersection([operand.value for operand in operands])
        return _Traced(And(tuple(operand.query for operand in operands)), value, tuple(operands))

    def union(self, operands: Sequence[_Traced]) -> _Traced:
        value = self.inner.union([operand.value for operand in operands])
        return _Traced(Or(tuple(operand.query for operand in operands)), value, tuple(operands))

    def complement(self, operand: _Traced) -> _Traced:
        return _Traced(Not(operand.query), self.inner.complement(operand.value), (operand,))


def _shown(traced: _Traced, kb: KnowledgeBase) -> Explanation:
    members = traced.value.materialise(len(kb.entities))
    return Explanation(
        kb.render(traced.query),
        kb.describe(traced.query),
        len(members),
        tuple(kb.entities.at(row).label for row in members[:SHOWN].tolist()),
        tuple(_shown(part, kb) for part in traced.parts),
    )
