"""The exact algebra over sorted arrays, in plain numpy: a set for every node of a query, for explanations.

A complement keeps the members of what it complements and a mark; it is written out only where someone asks for it.
The compiled path of `tarbox.execution.exact` is faster where only the answers are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import final

import numpy as np

from tarbox.core.ids import Role
from tarbox.execution.graph import Index
from tarbox.execution.literals import find_literals
from tarbox.execution.rows import EVERYTHING, directed, name_id
from tarbox.kb.arrays import Ids
from tarbox.query.algebra import DataRange, Direction


@final
@dataclass(frozen=True, slots=True)
class ArraySet:
    """The entities `members` (increasing), or all others where `complemented`."""

    members: Ids
    complemented: bool = False

    def materialise(self, entities: int) -> Ids:
        """The members written out, of that many entities in all."""
        if not self.complemented:
            return self.members
        inside = np.ones(entities, np.bool_)
        inside[self.members] = False
        return np.flatnonzero(inside).astype(np.int32)


@final
@dataclass(frozen=True, slots=True)
class ArrayAlgebra:
    """An `Algebra` of array sets; names in queries are terms of the vocabulary.

    >>> from tarbox.execution.interpreter import evaluate
    >>> from tarbox.kb.facts import Facts
    >>> from tarbox.kb.vocabulary import Vocabulary
    >>> from tarbox.query.algebra import Entity, Exists
    >>> index = Index.of(Facts.of(Vocabulary.of(["a", "b"], relations=["p"]), [(0, 0, 1)]))
    >>> evaluate(Exists("p", Direction.INVERSE, Entity("a")), ArrayAlgebra(index)).members
    array([1], dtype=int32)
    """

    index: Index

    def entity(self, name: str) -> ArraySet:
        return ArraySet(np.array([self._id(Role.ENTITY, name)], np.int32))

    def concept(self, name: str) -> ArraySet:
        concept = self._id(Role.CONCEPT, name)
        if concept == EVERYTHING:
            return ArraySet(np.empty(0, np.int32), complemented=True)
        return ArraySet(self.index.instances.entities_of[concept])

    def literals(self, wanted: DataRange) -> ArraySet:
        return ArraySet(find_literals(wanted, self.index))

    def exists(self, relation: str, direction: Direction, operand: ArraySet) -> ArraySet:
        return self.at_least(1, relation, direction, operand)

    def at_least(self, count: int, relation: str, direction: Direction, operand: ArraySet) -> ArraySet:
        near, far = self._links(relation, direction)
        inside = np.isin(near, operand.members, invert=operand.complemented)
        reached, times = np.unique(far[inside], return_counts=True)
        return ArraySet(reached[times >= count])

    def has_self(self, relation: str) -> ArraySet:
        near, far = self._links(relation, Direction.FORWARD)
        return ArraySet(near[near == far])

    def _links(self, relation: str, direction: Direction) -> tuple[Ids, Ids]:
        """(from, to) of every link of a directed relation, by where it comes from."""
        graph = self.index.graph
        number = directed(self._id(Role.RELATION, relation), direction)
        first, last = graph.relation_groups[number], graph.relation_groups[number + 1]
        starts = graph.starts[first : last + 1]
        return np.repeat(graph.group_nodes[first:last], np.diff(starts)), graph.members[starts[0] : starts[-1]]

    def intersection(self, operands: Sequence[ArraySet]) -> ArraySet:
        return reduce(_both, operands)

    def union(self, operands: Sequence[ArraySet]) -> ArraySet:
        return self.complement(reduce(_both, [self.complement(operand) for operand in operands]))

    def complement(self, operand: ArraySet) -> ArraySet:
        return ArraySet(operand.members, not operand.complemented)

    def _id(self, role: Role, name: str) -> int:
        return name_id(role, name, self.index.facts.vocabulary)


def _both(first: ArraySet, second: ArraySet) -> ArraySet:
    match first.complemented, second.complemented:
        case False, False:
            return ArraySet(np.intersect1d(first.members, second.members, assume_unique=True))
        case False, True:
            return ArraySet(np.setdiff1d(first.members, second.members, assume_unique=True))
        case True, False:
            return ArraySet(np.setdiff1d(second.members, first.members, assume_unique=True))
        case _:
            return ArraySet(np.union1d(first.members, second.members), complemented=True)
