"""What a proof of an answer is made of: the set of every part of a query, and the probabilities of single facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from tarbox.execution.exact import answer_query
from tarbox.execution.graph import Index
from tarbox.execution.rows import encode
from tarbox.kb.arrays import Floats, Ids
from tarbox.models.scorer import Predictor
from tarbox.query.algebra import Query, fold

if TYPE_CHECKING:
    from tarbox.models.credo.probabilities import FactProbabilities


@final
@dataclass(frozen=True, slots=True)
class Traced:
    """A query, the entities that answer it (increasing), and its parts; `degrees` [E] where a model predicts."""

    query: Query
    members: Ids
    parts: tuple[Traced, ...] = ()
    degrees: Floats | None = None

    def has(self, entity: int) -> bool:
        return contains(self.members, entity)

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
        """The entity that a concept describes and that is most likely an answer, given the fuzzy set [E] of these."""
        described, likely = self.probabilities.described_by(concept)
        best = _strongest(degrees[described] * likely)
        return None if best is None else int(described[best])

    def members(self, concept: int, entities: int) -> Floats:
        """[E] the probabilities of the instances of a concept."""
        found = np.zeros(entities, np.float32)
        instances, likely = self.probabilities.members(concept)
        found[instances] = likely
        return found


def trace(query: Query, index: Index, predictor: Predictor | None = None) -> Traced:
    """The query with the set of each of its parts, and their degrees where a model predicts: those that it gives to a
    part when it is asked for that alone."""

    def traced(part: Query, parts: list[Traced]) -> Traced:
        degrees: Floats | None = None
        if predictor is not None:
            shape, ids = encode(part, index.facts.vocabulary)
            degrees = predictor.fuzzy_sets(shape, ids[None])[0]
        return Traced(part, answer_query(part, index).entities, tuple(parts), degrees)

    return fold(query, traced)


def contains(members: Ids, entity: int) -> bool:
    """Whether increasing ids hold one."""
    place = int(np.searchsorted(members, entity))
    return place < len(members) and int(members[place]) == entity


def _strongest(strengths: Floats) -> int | None:
    """The place of the greatest, unless all are 0."""
    return int(strengths.argmax()) if strengths.max(initial=0.0) > 0 else None
