"""The facts that carry one answer, found by walking a query down from it.

::

    interestedIn some (inverse uses value Google)         answer: Yann LeCun
      ∃ interestedIn: of Yann LeCun's interests, one that Google uses    -> neural networks, the witness
        ∃ uses⁻: Google uses neural networks                             -> a fact

Every edge found is an asserted fact: an assertion, a typing, or a step of a chain of subsumptions. Where there is no
fact, since a model predicts the answer, the walk goes on with an edge that is `predicted`: the strongest that the model
believes, with its degree (`tarbox.service.convictions`), or to any member of the part where a model only scores.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias, assert_never, final

import numpy as np
from numpy.typing import NDArray

from tarbox.core.ids import Role
from tarbox.execution.arrays import ArraySet
from tarbox.execution.graph import Graph, Index
from tarbox.execution.rows import EVERYTHING, directed, name_id
from tarbox.kb.facts import Facts, Ids
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not, Or, Query
from tarbox.service.convictions import Convictions


@final
@dataclass(frozen=True, slots=True)
class Traced:
    """A set, the query it is the meaning of, and the sets it was made from; `degrees` [E] as a model believes."""

    query: Query
    value: ArraySet
    parts: tuple[Traced, ...] = ()
    degrees: NDArray[np.float32] | None = None

    def has(self, entity: int) -> bool:
        return contains(self.value.members, entity) is not self.value.complemented

    def degree(self, entity: int) -> float:
        """1 for a member, else the degree that the model gives it, where one does."""
        return 1.0 if self.has(entity) else 0.0 if self.degrees is None else float(self.degrees[entity])


@final
@dataclass(frozen=True, slots=True)
class AssertionStep:
    """`<head, relation, tail>`; `choices` is how many other entities could stand in the witness's place.

    `degree` is how far a fact that is not known is predicted; None where the model does not say.
    """

    head: int
    relation: int
    tail: int
    known: bool
    choices: int = 0
    degree: float | None = None


@final
@dataclass(frozen=True, slots=True)
class TypingStep:
    """An entity is an instance of a concept; `degree` as of `AssertionStep`."""

    entity: int
    concept: int
    known: bool
    degree: float | None = None


@final
@dataclass(frozen=True, slots=True)
class SubsumptionStep:
    """A concept is a sub-concept of another, as asserted."""

    sub: int
    super: int


@final
@dataclass(frozen=True, slots=True)
class AbsenceStep:
    """An entity is not in a part of the query: no fact says that it is."""

    entity: int
    part: Query
    known: bool


Step: TypeAlias = AssertionStep | TypingStep | SubsumptionStep | AbsenceStep


def is_known(step: Step) -> bool:
    """Whether the knowledge base says so; a step that is not known is predicted."""
    return isinstance(step, SubsumptionStep) or step.known


def degree_of(step: Step) -> float | None:
    """How far a step is predicted: 1 where it is known; None where no model says."""
    return 1.0 if is_known(step) else step.degree if isinstance(step, AssertionStep | TypingStep) else None


@final
@dataclass(slots=True)
class Walk:
    """One walk; `steps` are in the order of the walk, each once. `named` are the entities that the query names.

    With `convictions` the sets are traced with degrees.
    """

    index: Index
    convictions: Convictions | None = None
    steps: dict[Step, None] = field(default_factory=dict)
    named: set[int] = field(default_factory=set)

    def visit(self, part: Traced, entity: int) -> None:
        """Adds what carries `entity` as a member of `part`."""
        waiting = [(part, entity)]
        while waiting:
            waiting.extend(reversed(list(self._below(*waiting.pop()))))

    def type(self, entity: int, concept: int) -> None:
        """Adds the typing of an entity and the chain of subsumptions that leads to the concept."""
        chain = typing_chain(self.index.facts, entity, concept)
        degree = self.convictions.typing(entity, concept) if self.convictions and not chain else None
        self._add(TypingStep(entity, chain[0] if chain else concept, bool(chain), degree))
        for sub, above in pairwise(chain):
            self._add(SubsumptionStep(sub, above))

    def _below(self, part: Traced, entity: int) -> Iterator[tuple[Traced, int]]:
        """Adds the step of one part, and gives the parts and entities to visit next."""
        match part.query:
            case Entity():
                self.named.update([entity] if part.has(entity) else [])
            case Concept(name):
                concept = name_id(Role.CONCEPT, name, self.index.facts.vocabulary)
                if concept != EVERYTHING:
                    self.type(entity, concept)
            case Exists():
                yield from self._follow(part, part.query, entity)
            case And():
                yield from ((operand, entity) for operand in part.parts)
            case Or():
                yield max(part.parts, key=lambda operand: (operand.has(entity), operand.degree(entity))), entity
            case Not(operand):
                self._add(AbsenceStep(entity, operand, part.has(entity)))
            case _:
                assert_never(part.query)

    def _follow(self, part: Traced, query: Exists, entity: int) -> Iterator[tuple[Traced, int]]:
        relation = name_id(Role.RELATION, query.relation, self.index.facts.vocabulary)
        operand = part.parts[0]
        near = neighbours(self.index.graph, entity, directed(relation, query.direction.opposite))
        fit = [other for other in near.tolist() if operand.has(other)]
        predicted = None if fit else self._believed(operand, query.direction, (relation, entity))
        witness = fit[0] if fit else self._stand_in(operand, near) if predicted is None else predicted
        if witness is None:
            return
        head, tail = (entity, witness) if query.direction is Direction.FORWARD else (witness, entity)
        known, degree = bool(fit) or contains(near, witness), None
        if self.convictions is not None and predicted is not None and not known:
            degree = self.convictions.link(relation, query.direction, entity, witness)
        self._add(AssertionStep(head, relation, tail, known, max(len(fit) - 1, 0), degree))
        yield operand, witness

    def _believed(self, operand: Traced, direction: Direction, edge: tuple[int, int]) -> int | None:
        """The witness that the model believes most; None where it believes none."""
        if self.convictions is None or operand.degrees is None:
            return None
        relation, entity = edge
        return self.convictions.witness(relation, direction, entity, operand.degrees)

    def _stand_in(self, operand: Traced, near: Ids) -> int | None:
        """A member of the operand where no neighbour is one; else a neighbour, whose membership is then predicted."""
        members = operand.value.materialise(self.index.entities)
        for found in (members, near):
            if len(found):
                return int(found[0])
        return None

    def _add(self, step: Step) -> None:
        self.steps.setdefault(step)


def contains(members: Ids, entity: int) -> bool:
    """Whether increasing ids hold one."""
    place = int(np.searchsorted(members, entity))
    return place < len(members) and int(members[place]) == entity


def neighbours(graph: Graph, node: int, directed_relation: int) -> Ids:
    """What a directed relation reaches from a node, increasing (see `tarbox.execution.graph`)."""
    first, last = int(graph.node_starts[node]), int(graph.node_starts[node + 1])
    place = first + int(np.searchsorted(graph.node_relations[first:last], directed_relation))
    if place >= last or int(graph.node_relations[place]) != directed_relation:
        return np.empty(0, np.int32)
    group = int(graph.node_groups[place])
    return np.sort(graph.members[graph.starts[group] : graph.starts[group + 1]])


def typing_chain(facts: Facts, entity: int, concept: int) -> list[int]:
    """The shortest chain of concepts from an asserted type of the entity up to `concept`; empty where there is none."""
    first, last = np.searchsorted(facts.typed, [entity, entity + 1])
    before: dict[int, int | None] = dict.fromkeys(facts.types[first:last].tolist())
    waiting = deque(before)
    while waiting and concept not in before:
        sub = waiting.popleft()
        start, end = np.searchsorted(facts.subs, [sub, sub + 1])
        for above in facts.supers[start:end].tolist():
            if above not in before:
                before[above] = sub
                waiting.append(above)
    if concept not in before:
        return []
    chain = [concept]
    while (sub_concept := before[chain[-1]]) is not None:
        chain.append(sub_concept)
    return chain[::-1]
