"""What a model believes on the way to an answer, where no fact is known: for each hop the strongest witness.

Which facts are on the way is chosen by the model's probabilities as they are. How likely each fact is, is what the model says
when it is asked for that fact alone: degrees of facts and of answers are probabilities of one kind (ADR 37), and where
a question asks for one fact, they are the same number. A larger question is tempered as what it is, and its answer may
have a greater degree than a fact on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.core.ids import Role
from tarbox.execution.rows import directed, name_id
from tarbox.kb.facts import Ids
from tarbox.models.probabilities import ProbabilityAlgebra
from tarbox.models.scorer import Predictor
from tarbox.query.algebra import Concept, Direction, Entity, Exists, Query

Floats = NDArray[np.float32]
_LINK: Final = Exists("?r1", Direction.FORWARD, Entity("?e1"))
_TYPING: Final = Concept("?c1")


@final
@dataclass(frozen=True, slots=True)
class Convictions:
    """The probabilities of a model, asked entity by entity. Fuzzy sets are [E]."""

    predictor: Predictor

    def entity(self, name: str) -> Floats:
        return self._meaning(Role.ENTITY, name).entity(name).ravel()

    def concept(self, name: str) -> Floats:
        return self._meaning(Role.CONCEPT, name).concept(name).ravel()

    def exists(self, relation: str, direction: Direction, operand: Floats) -> Floats:
        return self._meaning(Role.RELATION, relation, direction).exists(relation, direction, operand[None]).ravel()

    def intersection(self, operands: Sequence[Floats]) -> Floats:
        return self.predictor.algebra({}, 1).intersection(operands)

    def union(self, operands: Sequence[Floats]) -> Floats:
        return self.predictor.algebra({}, 1).union(operands)

    def complement(self, operand: Floats) -> Floats:
        return self.predictor.algebra({}, 1).complement(operand)

    def witness(self, relation: int, direction: Direction, entity: int, operand: Floats) -> int | None:
        """The entity of the fuzzy set that leads most strongly to this one.

        The edges that lead to an entity are those that leave it in the other direction.
        """
        probabilities = self.predictor.probabilities
        way = directed(relation, direction.opposite)
        start, end = int(probabilities.starts[way]), int(probabilities.starts[way + 1])
        first, last = (start + np.searchsorted(probabilities.near[start:end], [entity, entity + 1])).tolist()
        others, degrees = probabilities.far[first:last], probabilities.degrees[first:last]
        strengths = operand[others] * degrees
        if not strengths.max(initial=0.0) > 0:
            return None
        return int(others[strengths.argmax()])

    def link(self, relation: int, direction: Direction, entity: int, witness: int) -> float:
        """The probability of the fact between an entity and its witness."""
        return self._probability(_LINK, [directed(relation, direction), witness], entity)

    def typing(self, entity: int, concept: int) -> float | None:
        """The probability that an entity is an instance; None where that is not predicted at all."""
        typings = self.predictor.probabilities.concepts
        first, last = typings.offsets[entity], typings.offsets[entity + 1]
        place = int(first + np.searchsorted(typings.columns[first:last], concept))
        predicted = place < last and typings.columns[place] == concept
        return self._probability(_TYPING, [concept], entity) if predicted else None

    def member(self, concept: int, degrees: Floats) -> int | None:
        """The entity that makes the concept an answer most strongly, given the fuzzy set of the answers."""
        members = self.predictor.probabilities.members
        own = slice(members.offsets[concept], members.offsets[concept + 1])
        strengths = degrees[members.columns[own]] * members.degrees[own]
        return int(members.columns[own][strengths.argmax()]) if strengths.max(initial=0.0) > 0 else None

    def _probability(self, shape: Query, ids: Sequence[int], entity: int) -> float:
        """That of an entity as the answer to one query."""
        return float(self.predictor.predict(shape, np.array([ids], np.int32)).entities[0, entity])

    def _meaning(self, role: Role, name: str, direction: Direction | None = None) -> ProbabilityAlgebra:
        number = name_id(role, name, self.predictor.index.facts.vocabulary)
        ids: Ids = np.array([number if direction is None else directed(number, direction)], np.int32)
        return self.predictor.algebra({name: ids}, 1)
