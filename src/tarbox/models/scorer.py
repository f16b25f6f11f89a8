"""What evaluation and the service ask of a model.

A model answers a *batch*: one shape and a table of ids, one column per slot (relations directed). It gives the nodes
of the shape a meaning by an algebra of its own, run by `tarbox.execution.interpreter.evaluate`, and turns the result
into scores. Nothing is kept on the model during a call, so requests can share it.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tarbox.core.ids import Level
from tarbox.kb.closure import Rows
from tarbox.kb.facts import Facts, Ids
from tarbox.query.algebra import Query

if TYPE_CHECKING:
    from tarbox.execution.graph import Index
    from tarbox.models.beliefs import BeliefAlgebra, Beliefs

Floats = NDArray[np.float32]


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
class Believed:
    """What a model believes of the queries of one shape.

    `entities` [B, E] and `concepts` [B, C] are probabilities, 1 for what is known; a concept's is never above a
    super-concept's. `expected` [B, C] is how many answers, each counted by its degree, are instances of the concept.
    What is known stands beside: the entities and the concepts by query, and for each concept how many of the entities
    it has.
    """

    entities: Floats
    concepts: Floats
    expected: Floats
    known_entities: Rows
    known_concepts: Rows
    counts: Ids


@runtime_checkable
class Believer(Scorer, Protocol):
    """A scorer whose degrees are probabilities, and that can say which facts it believes."""

    @property
    def index(self) -> Index:
        """The facts that are known."""
        ...

    @property
    def beliefs(self) -> Beliefs:
        """The facts with their degrees; what is known has 1."""
        ...

    def believe(self, shape: Query, ids: Ids) -> Believed:
        """Both levels at once, for the price of one evaluation."""
        ...

    def algebra(self, columns: dict[str, Ids], rows: int) -> BeliefAlgebra:
        """The meaning of nodes over fuzzy sets [rows, E]; `columns` gives the ids [rows] of each name."""
        ...


class Untrained(Protocol):
    """A class of models that need no training: the facts are all they know."""

    def from_facts(self, facts: Facts) -> Scorer:
        """The model of these (training) facts."""
        ...


class Rehearsed(abc.ABC):
    """A model that is put together from trained parts (`tarbox.training.reasoning`): facts, and arrays of its own.

    `recipe` names the settings that `tarbox train` takes where none are named.
    """

    Config: ClassVar[type[Any]]
    tasks: ClassVar[frozenset[Any]] = frozenset()
    recipe: ClassVar[str | None] = None

    @classmethod
    @abc.abstractmethod
    def of_arrays(cls, facts: Facts, arrays: Mapping[str, NDArray[Any]], config: Any) -> Scorer:
        """The model of a run."""
