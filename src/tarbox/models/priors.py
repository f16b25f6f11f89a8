"""How often candidates stand where the answers of a query stand: the prior of counting (docs/benchmarks.md).

The prior of a candidate is its frequency at the end of the query's last relation: in how many assertions of that
relation the candidate, or for a concept an entity that it describes, stands where the answers stand. Over `and` priors
are multiplied, over `or` added; negated branches and data ranges are ignored. It is one more algebra for the one
interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final, final

import numpy as np

from tarbox.core.ids import Level
from tarbox.execution.graph import Index
from tarbox.execution.interpreter import evaluate
from tarbox.execution.rows import EVERYTHING
from tarbox.kb.arrays import Doubles, Ids, Places
from tarbox.query.algebra import DataRange, Direction, Query, slots

_GREATEST: Final = 1e150
"""The greatest product of frequencies."""


@final
@dataclass(frozen=True, slots=True)
class Priors:
    """The frequencies of candidates of one level, counted when a relation is asked for."""

    level: Level
    index: Index
    width: int
    counted: dict[int, tuple[Ids, Doubles]] = field(default_factory=dict, repr=False, compare=False)
    """The candidates of the directed relations that were asked for, and how often each occurs."""

    @classmethod
    def of(cls, index: Index, level: Level) -> Priors:
        return cls(level, index, index.entities if level is Level.ENTITY else index.concepts)

    def frequencies(self, shape: Query, ids: Ids) -> Doubles | None:
        """[B, N] the priors of all candidates of queries of one shape; None where every branch is negated."""
        columns = {slot.name: ids[:, place] for place, slot in enumerate(slots(shape))}
        prior = evaluate(shape, PriorAlgebra(self, columns))
        return None if prior is None else prior()

    def relative(self, shape: Query, ids: Ids) -> Doubles:
        """[B, N] prior / max(prior); 0 where no candidate has one."""
        found = self.frequencies(shape, ids)
        if found is None or not found.size:
            return np.zeros((len(ids), self.width))
        most = found.max(axis=1, keepdims=True)
        np.divide(found, most, out=found, where=most > 0)
        return found

    def of_relations(self, ids: Ids) -> Doubles:
        found = np.zeros((len(ids), self.width))
        for row, directed in enumerate(ids.tolist()):
            candidates, counts = self._count(directed)
            found[row, candidates] = counts
        return found

    def _count(self, directed: int) -> tuple[Ids, Doubles]:
        """Of one directed relation, once; threads that ask at the same time find the same."""
        if directed not in self.counted:
            facts = self.index.facts
            ends = (facts.heads if directed % 2 == 0 else facts.tails)[facts.relations == directed // 2]
            counts = self._sum(*np.unique(ends, return_counts=True))
            candidates = np.flatnonzero(counts).astype(np.int32)
            self.counted[directed] = candidates, counts[candidates]
        return self.counted[directed]

    def _sum(self, entities: Ids, times: Places) -> Doubles:
        """[N] how often the candidates occur where each of some distinct entities does so often."""
        if self.level is Level.ENTITY:
            return np.bincount(entities, times, self.width).astype(np.float64)
        origin, concepts = self.index.descriptions.concepts_of.gather(entities)
        return np.bincount(concepts, times[origin], self.width).astype(np.float64)

    def of_entities(self, ids: Ids) -> Doubles:
        found = np.zeros((len(ids), self.width))
        if self.level is Level.ENTITY:
            found[np.arange(len(ids)), ids] = 1.0
        else:
            origin, concepts = self.index.descriptions.concepts_of.gather(ids)
            found[origin, concepts] = 1.0
        return found

    def of_concepts(self, ids: Ids) -> Doubles:
        """Everything, which has no row, has every candidate alike."""
        found = np.ones((len(ids), self.width))
        for row, concept in enumerate(ids.tolist()):
            if concept != EVERYTHING:
                members = self.index.instances.entities_of[concept]
                found[row] = self._sum(members, np.ones(len(members), np.int64))
        return found


Prior = Callable[[], Doubles] | None
"""A prior to be computed when it is wanted (an operand of `Exists` never is); none where it is ignored."""


@final
@dataclass(frozen=True, slots=True)
class PriorAlgebra:
    """What a node contributes to the prior of a batch; `columns` gives the ids [B] in the slot of each placeholder."""

    priors: Priors
    columns: dict[str, Ids]

    def entity(self, name: str) -> Prior:
        return lambda: self.priors.of_entities(self.columns[name])

    def concept(self, name: str) -> Prior:
        return lambda: self.priors.of_concepts(self.columns[name])

    def literals(self, wanted: DataRange) -> Prior:  # noqa: ARG002
        return None

    def exists(self, relation: str, direction: Direction, operand: Prior) -> Prior:  # noqa: ARG002
        return self.has_self(relation)

    def at_least(self, count: int, relation: str, direction: Direction, operand: Prior) -> Prior:  # noqa: ARG002
        return self.has_self(relation)

    def has_self(self, relation: str) -> Prior:
        return lambda: self.priors.of_relations(self.columns[relation])

    def intersection(self, operands: Sequence[Prior]) -> Prior:
        return _fold(_product, operands)

    def union(self, operands: Sequence[Prior]) -> Prior:
        return _fold(lambda left, right: np.add(left, right, out=left), operands)

    def complement(self, operand: Prior) -> Prior:  # noqa: ARG002
        return None


def _product(left: Doubles, right: Doubles) -> Doubles:
    """Of frequencies, in place; that of very many is cut off before it is no number any more."""
    return np.minimum(np.multiply(left, right, out=left), _GREATEST, out=left)


def _fold(join: Callable[[Doubles, Doubles], Doubles], operands: Sequence[Prior]) -> Prior:
    """The operands that count, joined; none where all are ignored."""
    counted = [operand for operand in operands if operand is not None]
    if not counted:
        return None
    return lambda: reduce(lambda joined, operand: join(joined, operand()), counted[1:], counted[0]())
