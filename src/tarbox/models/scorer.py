"""What evaluation and the service ask of a model.

A model answers a *batch*: one shape and a table of ids, one column per slot (relations directed). It gives the nodes
of the shape a meaning by an algebra of its own, run by `tarbox.execution.interpreter.evaluate`, and turns the result
into scores. Nothing is kept on the model during a call, so requests can share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, final, runtime_checkable

import numpy as np

from tarbox.core.ids import Level
from tarbox.kb.arrays import Floats, Ids
from tarbox.kb.rows import Rows
from tarbox.query.algebra import Query

if TYPE_CHECKING:
    from tarbox.execution.graph import Index
    from tarbox.models.credo.probabilities import FactProbabilities

LEAST_MEMBER: Final = 1e-5
"""Members of a fuzzy set below this degree count for nothing where concepts are described by it."""


class Scorer(Protocol):
    """Scores candidates; greater is better."""

    def candidates(self, level: Level) -> int:
        """How many there are: the entities or the concepts of the vocabulary."""
        ...

    def supports(self, shape: Query) -> bool:
        """Whether the model has a meaning for every node of the query; where not, `score` raises `QueryError`."""
        ...

    def score(self, shape: Query, ids: Ids, level: Level) -> Any:
        """[B, candidates] of floats, as a numpy array or a torch tensor on any device.

        `ids` [B, S] fills the slots of `shape` in slot order; a relation slot holds
        `tarbox.execution.rows.directed(relation, direction)`.
        """
        ...


@final
@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model predicts for the queries of one shape.

    `entities` [B, E] are the probabilities of all entities. `concepts` has, by query, the concepts with any evidence
    and their probabilities; all others have 0. A concept's is never below a sub-concept's. `expected`, at the same
    places, is how many answers, each counted by its probability, the concept describes. What is known stands
    beside: the entities and the concepts by query, and for each concept how many of the entities it has.

    An answer that is known has probability 1, unless it follows from a `not` that the model doubts: then it has what
    the model leaves of it.
    """

    entities: Floats
    concepts: Rows
    expected: Floats
    known_entities: Rows
    known_concepts: Rows
    counts: Ids

    def concept(self, row: int, concept: int) -> float:
        """The probability of one concept."""
        return self.concepts.value(row, concept)

    def dense_concepts(self, row: int, size: int) -> tuple[Floats, Floats]:
        """([C] probabilities, [C] expected numbers) of one query."""
        degrees, expected = np.zeros(size, np.float32), np.zeros(size, np.float32)
        own = slice(self.concepts.offsets[row], self.concepts.offsets[row + 1])
        degrees[self.concepts.columns[own]] = self.concepts.values[own]
        expected[self.concepts.columns[own]] = self.expected[own]
        return degrees, expected


@runtime_checkable
class SubsumptionPredictor(Protocol):
    """A model that says how probably direct subsumptions are missing."""

    @property
    def subsumptions(self) -> Rows | None:
        """[C, C] the probabilities that the column is directly above the row; None where it says nothing."""
        ...


@runtime_checkable
class Predictor(Scorer, Protocol):
    """A scorer whose degrees are probabilities, and that can say how likely it takes each fact to be."""

    @property
    def index(self) -> Index:
        """The facts that are known."""
        ...

    @property
    def probabilities(self) -> FactProbabilities:
        """The facts with their probabilities; what is known has 1."""
        ...

    def predict(self, shape: Query, ids: Ids) -> Prediction:
        """Both levels at once, for the price of one evaluation."""
        ...

    def fuzzy_sets(self, shape: Query, ids: Ids) -> Floats:
        """[B, E] the probabilities of all entities as answers, as `predict` has them."""
        ...
