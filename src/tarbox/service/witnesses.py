"""The facts that carry one answer, found by walking a query down from it.

::

    interestedIn some (inverse uses value Google)         answer: Yann LeCun
      ∃ interestedIn: of Yann LeCun's interests, one that Google uses    -> neural networks, the witness
        ∃ uses⁻: Google uses neural networks                             -> a fact

Every edge found is an asserted fact: an assertion, a typing, or a step of a chain of subsumptions. Where there is no
fact, since a model predicts the answer, the walk goes on with an edge that is `predicted`: the likeliest, with its
probability (`tarbox.service.proofs`), or to any member of the part where a model only scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias, assert_never, final

import numpy as np

from tarbox.core.ids import Role
from tarbox.execution.graph import Graph, Index
from tarbox.execution.rows import EVERYTHING, directed, name_id
from tarbox.kb.facts import Facts, Ids
from tarbox.query.algebra import And, AtLeast, Concept, DataRange, Direction, Entity, Exists, HasSelf, Not, Or, Query
from tarbox.service.concept_paths import shortest_chain
from tarbox.service.proofs import FactLookup, Traced, contains


@final
@dataclass(frozen=True, slots=True)
class AssertionStep:
    """`<head, relation, tail>`; `choices` is how many other entities could stand in the witness's place.

    As of every step, `known` says whether the knowledge base has it; a step that is not known is predicted. `degree` is
    its probability: 1 for a known fact, None where no model says.
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
    """An entity is an instance of a concept."""

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
    known: bool = True
    degree: float | None = 1.0


@final
@dataclass(frozen=True, slots=True)
class AbsenceStep:
    """An entity is not in a part of the query: no fact says that it is. `degree` is what a model leaves of that."""

    entity: int
    part: Query
    known: bool
    degree: float | None = None


Step: TypeAlias = AssertionStep | TypingStep | SubsumptionStep | AbsenceStep


@final
@dataclass(slots=True)
class Walk:
    """One walk; `steps` are in the order of the walk, each once. `named` are the entities that the query names.

    With a `lookup` the sets are traced with degrees.
    """

    index: Index
    lookup: FactLookup | None = None
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
        predicted = self.lookup.typing(entity, concept) if self.lookup else None
        self._add(TypingStep(entity, chain[0] if chain else concept, bool(chain), 1.0 if chain else predicted))
        for sub, above in pairwise(chain):
            self._add(SubsumptionStep(sub, above))

    def describe(self, entity: int, concept: int) -> None:
        """Adds why a concept describes an entity: its typing, or the annotation that leads to an instance; of several
        what is known, else the likeliest."""
        through = self._annotation(entity, concept)
        if through is not None:
            self._add(through)
            entity = through.tail
        self.type(entity, concept)

    def _annotation(self, entity: int, concept: int) -> AssertionStep | None:
        """The step by an annotation relation to an instance; None where the entity is one, or more likely one."""
        instances, lookup = self.index.instances.entities_of[concept], self.lookup
        if contains(instances, entity):
            return None
        ways = {relation: directed(relation, Direction.INVERSE) for relation in self.index.facts.annotations}
        for relation, way in ways.items():
            fit = np.intersect1d(neighbours(self.index.graph, entity, way), instances)
            if len(fit):
                return AssertionStep(entity, relation, int(fit[0]), True, len(fit) - 1, 1.0)
        if lookup is None or not ways:
            return None
        best, step = lookup.typing(entity, concept) or 0.0, None
        members = lookup.members(concept, self.index.entities)
        for relation, way in ways.items():
            witness, degree = lookup.witness(way, entity, members) or (entity, 0.0)
            if degree * members[witness] > best:
                best, step = degree * members[witness], AssertionStep(entity, relation, witness, False, 0, degree)
        return step

    def _below(self, part: Traced, entity: int) -> Iterator[tuple[Traced, int]]:
        """Adds the step of one part, and gives the parts and entities to visit next."""
        match part.query:
            case Entity() | DataRange():
                self.named.update([entity] if part.has(entity) else [])
            case Concept(name):
                concept = name_id(Role.CONCEPT, name, self.index.facts.vocabulary)
                if concept != EVERYTHING:
                    self.type(entity, concept)
            case Exists():
                yield from self._follow(part, part.query, entity)
            case AtLeast(count):
                yield from self._follow(part, part.query, entity, count)
            case HasSelf(name):
                self._loop(name_id(Role.RELATION, name, self.index.facts.vocabulary), entity)
            case And():
                yield from ((operand, entity) for operand in part.parts)
            case Or():
                yield max(part.parts, key=lambda operand: (operand.has(entity), operand.degree(entity) or 0.0)), entity
            case Not(operand):
                self._add(AbsenceStep(entity, operand, part.has(entity), part.degree(entity)))
            case _:
                assert_never(part.query)

    def _follow(
        self, part: Traced, query: Exists | AtLeast, entity: int, count: int = 1
    ) -> Iterator[tuple[Traced, int]]:
        """The steps to `count` witnesses: known ones, then the likeliest."""
        relation = name_id(Role.RELATION, query.relation, self.index.facts.vocabulary)
        operand, way = part.parts[0], directed(relation, query.direction.opposite)
        near = neighbours(self.index.graph, entity, way)
        fit = [other for other in near.tolist() if operand.has(other)]
        witnesses: list[tuple[int, float | None]] = [(other, None) for other in fit[:count]]
        witnesses += self._predict(operand, way, entity, fit, count - len(witnesses))
        for witness, degree in witnesses or self._stand_in(operand, near):
            head, tail = (entity, witness) if query.direction is Direction.FORWARD else (witness, entity)
            known = contains(near, witness)
            self._add(AssertionStep(head, relation, tail, known, max(len(fit) - count, 0), 1.0 if known else degree))
            yield operand, witness

    def _loop(self, relation: int, entity: int) -> None:
        """The step from an entity to itself."""
        way = directed(relation, Direction.FORWARD)
        known = contains(neighbours(self.index.graph, entity, way), entity)
        degree = None if self.lookup is None else self.lookup.probabilities.link(way, entity, entity)
        self._add(AssertionStep(entity, relation, entity, known, 0, 1.0 if known else degree))

    def _predict(
        self, operand: Traced, way: int, entity: int, known: list[int], count: int
    ) -> list[tuple[int, float | None]]:
        """The likeliest `count` witnesses beside the known ones, with the probabilities of the facts."""
        found: list[tuple[int, float | None]] = []
        if self.lookup is not None and operand.degrees is not None and count > 0:
            left = operand.degrees.copy()
            left[known] = 0.0
            while len(found) < count and (chosen := self.lookup.witness(way, entity, left)) is not None:
                found.append(chosen)
                left[chosen[0]] = 0.0
        return found

    def _stand_in(self, operand: Traced, near: Ids) -> list[tuple[int, float | None]]:
        """A member of the operand where no neighbour is one; else a neighbour, whose membership is then predicted."""
        members = operand.members
        found: list[tuple[int, float | None]] = [(int(ids[0]), None) for ids in (members, near) if len(ids)]
        return found[:1]

    def _add(self, step: Step) -> None:
        self.steps.setdefault(step)


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

    def above(sub: int) -> list[int]:
        start, end = np.searchsorted(facts.subs, [sub, sub + 1])
        found: list[int] = facts.supers[start:end].tolist()
        return found

    first, last = np.searchsorted(facts.typed, [entity, entity + 1])
    return shortest_chain(facts.types[first:last].tolist(), concept, above)
