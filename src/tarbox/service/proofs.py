"""What a proof of an answer is made of: the set of every part of a query, and the probabilities of single facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from tarbox.execution.arrays import ArrayAlgebra, ArraySet
from tarbox.execution.graph import Index
from tarbox.execution.interpreter import Algebra, evaluate
from tarbox.execution.rows import encode
from tarbox.kb.facts import Ids
from tarbox.models.scorer import Predictor
from tarbox.query.algebra import DataRange, Direction, Query, operands

if TYPE_CHECKING:
    from tarbox.models.credo.probabilities import FactProbabilities

S = TypeVar("S")
Floats = NDArray[np.float32]


@final
@dataclass(frozen=True, slots=True)
class Traced:
    """A set, the query it is the meaning of, and the sets it was made from; `degrees` [E] where a model predicts."""

    query: Query
    value: ArraySet
    parts: tuple[Traced, ...] = ()
    degrees: Floats | None = None

    def has(self, entity: int) -> bool:
        return contains(self.value.members, entity) is not self.value.complemented

    def degree(self, entity: int) -> float | None:
        """What the model gives to an entity; None where none predicts."""
        return None if self.degrees is None else float(self.degrees[entity])


@final
@dataclass(frozen=True, slots=True)
class FactLookup:
    """The facts that a model predicts, one at a time, with their probabilities."""

    probabilities: FactProbabilities

    def witness(self, way: int, entity: int, operand: Floats) -> tuple[int, float] | None:
        """The entity of a fuzzy set [E] that a directed relation from `entity` reaches most likely, with the
        probability of that fact; None where it reaches none."""
        found = self.probabilities
        start, end = int(found.starts[way]), int(found.starts[way + 1])
        first, last = (start + np.searchsorted(found.near[start:end], [entity, entity + 1])).tolist()
        others, degrees = found.far[first:last], found.degrees[first:last]
        best = _strongest(operand[others] * degrees)
        return None if best is None else (int(others[best]), float(degrees[best]))

    def typing(self, entity: int, concept: int) -> float | None:
        """The probability that an entity is an instance; None where that is not predicted at all."""
        return self.probabilities.concepts.value(entity, concept) or None

    def member(self, concept: int, degrees: Floats) -> int | None:
        """The instance that is most likely an answer, given the fuzzy set [E] of the answers."""
        instances, likely = self.probabilities.members(concept)
        best = _strongest(degrees[instances] * likely)
        return None if best is None else int(instances[best])


def trace(query: Query, index: Index, predictor: Predictor | None = None) -> Traced:
    """The query with the set of each of its parts, and their degrees where a model predicts: those that it gives to a
    part when it is asked for that alone."""

    def degrees(part: Query) -> Floats | None:
        if predictor is None:
            return None
        shape, ids = encode(part, index.facts.vocabulary)
        found: Floats = predictor.fuzzy_sets(shape, ids[None])[0]
        return found

    return _join(query, evaluate(query, _Keeping(ArrayAlgebra(index))), degrees)


def contains(members: Ids, entity: int) -> bool:
    """Whether increasing ids hold one."""
    place = int(np.searchsorted(members, entity))
    return place < len(members) and int(members[place]) == entity


@final
@dataclass(frozen=True, slots=True)
class _Kept(Generic[S]):
    value: S
    parts: tuple[_Kept[S], ...] = ()


@final
@dataclass(frozen=True, slots=True)
class _Keeping(Generic[S]):
    """An algebra that keeps every set on the way."""

    inner: Algebra[S]

    def entity(self, name: str) -> _Kept[S]:
        return _Kept(self.inner.entity(name))

    def concept(self, name: str) -> _Kept[S]:
        return _Kept(self.inner.concept(name))

    def literals(self, wanted: DataRange) -> _Kept[S]:
        return _Kept(self.inner.literals(wanted))

    def exists(self, relation: str, direction: Direction, operand: _Kept[S]) -> _Kept[S]:
        return _Kept(self.inner.exists(relation, direction, operand.value), (operand,))

    def at_least(self, count: int, relation: str, direction: Direction, operand: _Kept[S]) -> _Kept[S]:
        return _Kept(self.inner.at_least(count, relation, direction, operand.value), (operand,))

    def has_self(self, relation: str) -> _Kept[S]:
        return _Kept(self.inner.has_self(relation))

    def intersection(self, operands: Sequence[_Kept[S]]) -> _Kept[S]:
        return _Kept(self.inner.intersection([operand.value for operand in operands]), tuple(operands))

    def union(self, operands: Sequence[_Kept[S]]) -> _Kept[S]:
        return _Kept(self.inner.union([operand.value for operand in operands]), tuple(operands))

    def complement(self, operand: _Kept[S]) -> _Kept[S]:
        return _Kept(self.inner.complement(operand.value), (operand,))


def _join(query: Query, exact: _Kept[ArraySet], degrees: Callable[[Query], Floats | None]) -> Traced:
    parts = tuple(_join(part, own, degrees) for part, own in zip(operands(query), exact.parts, strict=True))
    return Traced(query, exact.value, parts, degrees(query))


def _strongest(strengths: Floats) -> int | None:
    """The place of the greatest, unless all are 0."""
    return int(strengths.argmax()) if strengths.max(initial=0.0) > 0 else None
