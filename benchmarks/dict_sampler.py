"""A straightforward sampler over dictionaries of sets: the same protocol as tarbox's, in plain Python.

It stands beside the compiled one for two reasons. `benchmarks/sampling.py` measures how much faster that is, and the
two must agree: they use the same random numbers, so each attempt gives the same query with the same answers. Answers
are found on each graph by itself; missing links by a min-plus evaluation over dictionaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, final

from tarbox.execution.interpreter import Algebra, evaluate
from tarbox.execution.program import CONCEPT, ENTITY, EXISTS, NOT, TYPING, Program, compile_shape
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.splits import SplitStage
from tarbox.query.algebra import Direction, Query, slots

BITS: Final = (1 << 64) - 1
TRIES: Final = 8
ROOT: Final = -1

Row = tuple[int, ...]
Members = set[int]
Costs = dict[int, int]


@final
@dataclass(frozen=True, slots=True)
class Found:
    """A query and its answers: targets, the held-out facts that each needs, and all other answers, at both levels."""

    ids: Row
    targets: Members
    others: Members
    concept_targets: Members
    concept_others: Members
    missing: Costs
    concept_missing: Costs


@final
class SplitMix:
    """The random numbers of one attempt."""

    def __init__(self, seed: int, attempt: int) -> None:
        self._state = seed ^ ((attempt + 1) * 0xD1342543DE82EF95 & BITS)
        self.below(2)

    def below(self, bound: int) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & BITS
        bits = self._state
        bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & BITS
        bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & BITS
        return (((bits ^ (bits >> 31)) >> 32) * bound) >> 32


@final
class DictGraph:
    """`reached[y][d]` is what directed relation d reaches from entity y; closed typings both ways, and descriptions."""

    def __init__(self, facts: Facts) -> None:
        self.entities = len(facts.vocabulary.entities)
        self.reached: dict[int, dict[int, Members]] = {}
        rows = zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True)
        for head, relation, tail in rows:
            self.reached.setdefault(tail, {}).setdefault(2 * relation, set()).add(head)
            self.reached.setdefault(head, {}).setdefault(2 * relation + 1, set()).add(tail)
        self.concepts_of: dict[int, Members] = {}
        self.entities_of: dict[int, Members] = {}
        self.described_by: dict[int, Members] = {}
        instances = Instances.of(facts)
        typed, types = instances.concepts_of.coordinates()
        for entity, concept in zip(typed.tolist(), types.tolist(), strict=True):
            self.concepts_of.setdefault(entity, set()).add(concept)
            self.entities_of.setdefault(concept, set()).add(entity)
        typed, types = instances.describe(facts).concepts_of.coordinates()
        for entity, concept in zip(typed.tolist(), types.tolist(), strict=True):
            self.described_by.setdefault(entity, set()).add(concept)

    def concepts(self, entities: Members) -> Members:
        """The concepts that describe one of the entities."""
        found: Members = set()
        for entity in entities:
            found |= self.described_by.get(entity, set())
        return found


class Others(set[int]):
    """Every entity but these: so that `a and not b` is a difference, not an intersection with nearly everything."""


@final
@dataclass(frozen=True, slots=True)
class SetAlgebra(Algebra[Members]):
    """Answers on one graph; the placeholders of a shape stand for the numbers in `ids`."""

    graph: DictGraph
    ids: dict[str, int]

    def answers(self, shape: Query) -> Members:
        return self._plain(evaluate(shape, self))

    def entity(self, name: str) -> Members:
        return {self.ids[name]}

    def concept(self, name: str) -> Members:
        return self.graph.entities_of.get(self.ids[name], set())

    def exists(self, relation: str, direction: Direction, operand: Members) -> Members:  # noqa: ARG002
        number = self.ids[relation]
        found: Members = set()
        for entity in self._plain(operand):
            found |= self.graph.reached.get(entity, {}).get(number, set())
        return found

    def intersection(self, operands: Sequence[Members]) -> Members:
        plain = [operand for operand in operands if not isinstance(operand, Others)]
        found = set.intersection(*(plain or [set(range(self.graph.entities))]))
        for operand in operands:
            if isinstance(operand, Others):
                found = found - operand
        return found

    def union(self, operands: Sequence[Members]) -> Members:
        return set.union(*map(self._plain, operands))

    def complement(self, operand: Members) -> Members:
        return set(operand) if isinstance(operand, Others) else Others(operand)

    def _plain(self, operand: Members) -> Members:
        return set(range(self.graph.entities)) - operand if isinstance(operand, Others) else operand


@final
@dataclass(frozen=True, slots=True)
class CostAlgebra(Algebra[Costs | Others]):
    """Answers on the larger graph with the fewest held-out facts that a proof of each needs."""

    graph: DictGraph
    earlier: DictGraph
    ids: dict[str, int]

    def costs(self, shape: Query) -> Costs:
        return self._plain(evaluate(shape, self))

    def entity(self, name: str) -> Costs | Others:
        return {self.ids[name]: 0}

    def concept(self, name: str) -> Costs | Others:
        before = self.earlier.entities_of.get(self.ids[name], set())
        return {entity: int(entity not in before) for entity in self.graph.entities_of.get(self.ids[name], set())}

    def exists(self, relation: str, direction: Direction, operand: Costs | Others) -> Costs | Others:  # noqa: ARG002
        number = self.ids[relation]
        found: Costs = {}
        for entity, cost in self._plain(operand).items():
            before = self.earlier.reached.get(entity, {}).get(number, set())
            for member in self.graph.reached.get(entity, {}).get(number, set()):
                total = cost if member in before else cost + 1
                if total < found.get(member, total + 1):
                    found[member] = total
        return found

    def intersection(self, operands: Sequence[Costs | Others]) -> Costs | Others:
        plain = [operand for operand in operands if isinstance(operand, dict)]
        if not plain:
            plain = [self._plain(Others())]
        common = set(plain[0]).intersection(*plain[1:])
        common.difference_update(*(operand for operand in operands if isinstance(operand, Others)))
        return {x: sum(operand[x] for operand in plain) for x in common}

    def union(self, operands: Sequence[Costs | Others]) -> Costs | Others:
        found: Costs = {}
        for operand in operands:
            for x, cost in self._plain(operand).items():
                found[x] = min(cost, found.get(x, cost))
        return found

    def complement(self, operand: Costs | Others) -> Costs | Others:
        return dict.fromkeys(operand, 0) if isinstance(operand, Others) else Others(operand)

    def _plain(self, operand: Costs | Others) -> Costs:
        if isinstance(operand, Others):
            return dict.fromkeys(set(range(self.graph.entities)) - operand, 0)
        return operand

    def concepts(self, entities: Costs) -> Costs:
        found: Costs = {}
        for entity, cost in entities.items():
            before = self.earlier.described_by.get(entity, set())
            for concept in self.graph.described_by.get(entity, ()):
                total = cost if concept in before else cost + 1
                if total < found.get(concept, total + 1):
                    found[concept] = total
        return found


@final
class DictSampler:
    """Draws queries for one part of a benchmark; `never` are the concepts that are no targets."""

    def __init__(self, stage: SplitStage, never: Members, most: int, both_directions: bool = True) -> None:
        self.graph = DictGraph(stage.facts)
        self.earlier = DictGraph(stage.earlier) if stage.earlier is not None else None
        self.never, self.most, self.both_directions = never, most, both_directions
        self._moves = {node: self._sorted_moves(node) for node in self.graph.reached}
        self._concepts = {entity: self._sorted_concepts(entity) for entity in self.graph.concepts_of}

    def _sorted_moves(self, node: int) -> list[tuple[int, list[int]]]:
        """The directed relations of a node, increasing, each with its members: earlier ones first."""
        before = (self.earlier or self.graph).reached.get(node, {})
        groups = sorted(self.graph.reached[node].items())
        return [(d, earlier_first(members, before.get(d, set()))) for d, members in groups]

    def _sorted_concepts(self, entity: int) -> list[int]:
        before = (self.earlier or self.graph).concepts_of.get(entity, set())
        return earlier_first(self.graph.concepts_of[entity], before)

    def attempt(self, shape: Query, seed: int, number: int, missing: bool = True) -> Found | None:
        """The query of one attempt, or None where it comes to nothing."""
        program = compile_shape(shape)
        drawn = self._draw(program, SplitMix(seed, number))
        ids = arrange(program, drawn) if drawn is not None else None
        if ids is None:
            return None
        names = {slot.name: value for slot, value in zip(slots(shape), ids, strict=True)}
        return self._judge(shape, ids, names, missing)

    def _draw(self, program: Program, random: SplitMix) -> list[int] | None:
        ids = [0] * program.width
        stack = [(random.below(self.graph.entities), -1, ROOT)]
        moves: set[tuple[int, int, int]] = set()
        for step in range(len(program.operations) - 1, -1, -1):
            operation, slot = int(program.operations[step]), int(program.slots[step])
            node, back, fork = stack.pop()
            if operation in (ENTITY, CONCEPT):
                ids[slot] = node
            elif operation in (EXISTS, TYPING):
                moved = self._move(node, back, random) if operation == EXISTS else self._type(node, random)
                if moved is None or (fork, *moved) in moves:
                    return None
                if fork != ROOT:
                    moves.add((fork, *moved))
                if operation == EXISTS:
                    ids[slot] = moved[0] ^ 1
                stack.append((moved[1], moved[0] ^ 1, ROOT))
            elif operation == NOT:
                stack.append((node, back, ROOT))
            else:
                stack += [(node, back, fork if fork != ROOT else step)] * 2
        return ids

    def _move(self, node: int, back: int, random: SplitMix) -> tuple[int, int] | None:
        choices = self._moves.get(node, [])
        for _ in range(TRIES if choices else 0):
            relation, members = choices[random.below(len(choices))]
            if relation != back and (self.both_directions or relation % 2 == 0):
                return relation, members[random.below(len(members))]
        return None

    def _type(self, entity: int, random: SplitMix) -> tuple[int, int] | None:
        concepts = self._concepts.get(entity)
        return None if concepts is None else (-2, concepts[random.below(len(concepts))])

    def _judge(self, shape: Query, ids: Row, names: dict[str, int], missing: bool) -> Found | None:
        answers = SetAlgebra(self.graph, names).answers(shape)
        before = SetAlgebra(self.earlier, names).answers(shape) if self.earlier is not None else set()
        targets = answers - before
        if len(targets) > self.most or not answers:
            return None
        concepts = self.graph.concepts(answers)
        concepts_before = self.earlier.concepts(before) if self.earlier is not None else set()
        concept_targets = concepts - concepts_before - self.never
        if not targets and not concept_targets:
            return None
        if self.earlier is not None and len(concept_targets) > self.most:
            return None
        costs, concept_costs = self._missing(shape, names) if missing else ({}, {})
        others = (answers - targets, concepts - concept_targets)
        return Found(ids, targets, others[0], concept_targets, others[1], costs, concept_costs)

    def _missing(self, shape: Query, names: dict[str, int]) -> tuple[Costs, Costs]:
        algebra = CostAlgebra(self.graph, self.earlier or self.graph, names)
        entities = algebra.costs(shape)
        return entities, algebra.concepts(entities)


def earlier_first(members: Members, before: Members) -> list[int]:
    """The members in order, those of the earlier graph before the others."""
    return [*sorted(members & before), *sorted(members - before)]


def arrange(program: Program, ids: list[int]) -> Row | None:
    """The ids with branches of one structure in order; None where two are equal."""
    runs, at = program.siblings.tolist(), 0
    while at < len(runs):
        count, width = runs[at : at + 2]
        places = [runs[at + 2 + branch * width :][:width] for branch in range(count)]
        branches = sorted([ids[place] for place in branch] for branch in places)
        if any(one == other for one, other in pairwise(branches)):
            return None
        for branch, values in zip(places, branches, strict=True):
            for place, value in zip(branch, values, strict=True):
                ids[place] = value
        at += 2 + count * width
    return tuple(ids)
