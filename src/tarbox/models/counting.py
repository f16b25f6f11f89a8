"""Counting: the baseline that stands beside every number (PROTOCOL.md, point 6).

Score = the number of training-graph answers that are (instances of) the candidate, plus prior / max(prior). At entity
level an answer counts 1. The prior of a candidate is its frequency at the end of the query's last relation: in how
many assertions of that relation the candidate, or for a concept an instance of it under closure, stands where the
answers stand. Over `and` priors are multiplied, over `or` added; negated branches are ignored. The prior is thus one
more algebra for the one interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.core.ids import Level
from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.execution.interpreter import evaluate
from tarbox.execution.rows import EVERYTHING
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts, Ids
from tarbox.kb.rows import Rows
from tarbox.models.learning.seam import Learner, RunContext, TrainingData
from tarbox.query.algebra import Direction, Query, slots

if TYPE_CHECKING:
    from torch import Tensor

Scores = NDArray[np.float64]
DENSE: Final = 1 << 24
"""The most cells of a matrix of counts that is summed in its full size."""
GREATEST: Final = 1e150
"""The greatest product of frequencies."""


@final
@dataclass(frozen=True, slots=True)
class Frequencies:
    """A sparse matrix of counts by rows: `counts[k]` stands in column `columns.columns[k]`."""

    columns: Rows
    counts: NDArray[np.float64]
    width: int

    @classmethod
    def of(
        cls, rows: NDArray[np.int64], columns: Ids, counts: NDArray[np.float64], size: tuple[int, int]
    ) -> Frequencies:
        """The sum of the counts at every place, from coordinates in any order."""
        height, width = size
        if 0 < height * width <= DENSE:  # quicker than sorting
            sums = np.bincount(rows * width + columns, counts, height * width).astype(np.float64)
            filled = np.flatnonzero(sums)
            return cls(Rows.of_keys(filled, height, width), sums[filled], width)
        keys, places = np.unique(rows * max(width, 1) + columns, return_inverse=True)
        return cls(Rows.of_keys(keys, height, width), np.bincount(places, counts, len(keys)).astype(np.float64), width)

    @classmethod
    def of_rows(cls, rows: Rows, width: int) -> Frequencies:
        """Ones where `rows` has its columns."""
        return cls(rows, np.ones(len(rows.columns)), width)

    def dense(self, rows: Ids) -> Scores:
        """[B, width] the given rows written out."""
        sizes = self.columns.sizes()[rows]
        origin = np.repeat(np.arange(len(rows)), sizes)
        places = np.arange(len(origin)) + np.repeat(self.columns.offsets[rows] - (np.cumsum(sizes) - sizes), sizes)
        out = np.zeros((len(rows), self.width))
        out[origin, self.columns.columns[places]] = self.counts[places]
        return out

    def join(self, other: Rows, width: int) -> Frequencies:
        """The product with a 0/1 matrix of that width: counts of what this one's columns lead to."""
        rows, columns = self.columns.coordinates()
        origin, reached = other.gather(columns)
        return Frequencies.of(rows[origin].astype(np.int64), reached, self.counts[origin], (len(self.columns), width))


@final
@dataclass(frozen=True, slots=True)
class Priors:
    """The frequencies of candidates of one level: by directed relation, by entity leaf and by concept leaf."""

    relations: Frequencies
    entities: Frequencies
    concepts: Frequencies

    @classmethod
    def of_entities(cls, facts: Facts, instances: Instances) -> Priors:
        size = len(facts.vocabulary.entities)
        single = Rows(np.arange(size + 1), np.arange(size, dtype=np.int32))
        return cls(_ends(facts), Frequencies.of_rows(single, size), Frequencies.of_rows(instances.entities_of, size))

    def of_concepts(self, instances: Instances) -> Priors:
        """The same, counted by the concepts of the entities."""
        closed, width = instances.concepts_of, len(instances.hierarchy)
        return Priors(*(part.join(closed, width) for part in (self.relations, self.entities, self.concepts)))


Prior = Callable[[], Scores] | None
"""A prior to be computed when it is wanted (an operand of `Exists` never is); none where it is ignored."""


@final
@dataclass(frozen=True, slots=True)
class PriorAlgebra:
    """What a node contributes to the prior of a batch; `columns` gives the ids [B] in the slot of each placeholder."""

    priors: Priors
    columns: dict[str, Ids]

    def entity(self, name: str) -> Prior:
        return lambda: self.priors.entities.dense(self.columns[name])

    def concept(self, name: str) -> Prior:
        return lambda: self._of_concepts(self.columns[name])

    def _of_concepts(self, ids: Ids) -> Scores:
        """Everything, which has no row, has every candidate alike."""
        named = ids != EVERYTHING
        found = self.priors.concepts.dense(ids[named])
        out = np.ones((len(ids), found.shape[1]), found.dtype)
        out[named] = found
        return out

    def exists(self, relation: str, direction: Direction, operand: Prior) -> Prior:  # noqa: ARG002
        return lambda: self.priors.relations.dense(self.columns[relation])

    def intersection(self, operands: Sequence[Prior]) -> Prior:
        return _fold(_product, operands)

    def union(self, operands: Sequence[Prior]) -> Prior:
        return _fold(_sum, operands)

    def complement(self, operand: Prior) -> Prior:  # noqa: ARG002
        return None


@final
@dataclass(frozen=True, slots=True)
class CountingConfig:
    """Counting has no settings."""


@final
@dataclass(frozen=True, slots=True)
class Counting(Learner):
    """The counting model of a graph.

    >>> from tarbox.kb.vocabulary import Vocabulary
    >>> from tarbox.query.templates import TEMPLATES
    >>> facts = Facts.of(Vocabulary.of(["a", "b", "c"], relations=["p"]), [(0, 0, 1), (2, 0, 1), (2, 0, 2)])
    >>> what_a_leads_to = np.array([[1, 0]], np.int32)  # inverse p value a
    >>> Counting.from_facts(facts).score(TEMPLATES["1p"].shape, what_a_leads_to, Level.ENTITY)
    array([[0. , 2. , 0.5]])
    """

    Config: ClassVar[type[CountingConfig]] = CountingConfig
    trained: ClassVar[bool] = False

    index: Index
    priors: dict[Level, Priors]

    @classmethod
    def learn(cls, config: Any, data: TrainingData, context: RunContext) -> Mapping[str, Tensor]:  # noqa: ARG003
        """Nothing: the facts are all it knows."""
        return {}

    @classmethod
    def of_arrays(cls, facts: Facts, arrays: Mapping[str, NDArray[Any]], config: Any, device: str) -> Counting:  # noqa: ARG003
        return cls.from_facts(facts)

    @classmethod
    def from_facts(cls, facts: Facts) -> Counting:
        index = Index.of(facts)
        entities = Priors.of_entities(facts, index.instances)
        return cls(index, {Level.ENTITY: entities, Level.CONCEPT: entities.of_concepts(index.instances)})

    def candidates(self, level: Level) -> int:
        return {Level.ENTITY: self.index.entities, Level.CONCEPT: self.index.concepts}[level]

    def supports(self, shape: Query) -> bool:  # noqa: ARG002 (it can count what any query means)
        return True

    def score(self, shape: Query, ids: Ids, level: Level) -> Scores:
        """[B, candidates] in double precision: a prior must still tell candidates with equal counts apart."""
        entities, concepts, instances = answer_rows(shape, ids, self.index)
        answers, counts = {
            Level.ENTITY: (entities, np.ones(len(entities.columns))),
            Level.CONCEPT: (concepts, instances.astype(np.float64)),
        }[level]
        scores = self._prior(shape, ids, level)
        rows, columns = answers.coordinates()
        scores[rows, columns] += counts
        return scores

    def _prior(self, shape: Query, ids: Ids, level: Level) -> Scores:
        """[B, candidates] prior / max(prior); 0 where no candidate has one."""
        columns = {slot.name: ids[:, place] for place, slot in enumerate(slots(shape))}
        prior = evaluate(shape, PriorAlgebra(self.priors[level], columns))
        if prior is None or self.candidates(level) == 0:
            return np.zeros((len(ids), self.candidates(level)))
        frequency = prior()
        most = frequency.max(axis=1, keepdims=True)
        np.divide(frequency, most, out=frequency, where=most > 0)
        return frequency


def _ends(facts: Facts) -> Frequencies:
    """How often each entity stands where the answers of a directed relation stand: heads forward, tails inverse."""
    relations = facts.relations.astype(np.int64)
    rows = np.concatenate([2 * relations, 2 * relations + 1])
    size = (2 * len(facts.vocabulary.relations), len(facts.vocabulary.entities))
    return Frequencies.of(rows, np.concatenate([facts.heads, facts.tails]), np.ones(len(rows)), size)


def _product(left: Scores, right: Scores) -> Scores:
    """Of frequencies, in place; that of very many is cut off before it is no number any more."""
    return np.minimum(np.multiply(left, right, out=left), GREATEST, out=left)


def _sum(left: Scores, right: Scores) -> Scores:
    return np.add(left, right, out=left)


def _fold(join: Callable[[Scores, Scores], Scores], operands: Sequence[Prior]) -> Prior:
    """The operands that count, joined; none where all are ignored."""
    counted = [operand for operand in operands if operand is not None]
    if not counted:
        return None
    return lambda: reduce(lambda joined, operand: join(joined, operand()), counted[1:], counted[0]())
