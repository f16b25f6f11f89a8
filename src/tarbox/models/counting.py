"""Counting: the baseline that stands beside every number (docs/benchmarks.md).

Score = the number of training-graph answers that are the candidate, or that it describes, plus prior / max(prior)
(`tarbox.models.priors`). At entity level an answer counts 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from tarbox.core.ids import Level
from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.kb.arrays import Doubles, Ids
from tarbox.kb.facts import Facts
from tarbox.models.learning.seam import Learner, RunContext, TrainingData
from tarbox.models.priors import Priors
from tarbox.query.algebra import Query

if TYPE_CHECKING:
    from torch import Tensor


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
        return cls(index, {level: Priors.of(index, level) for level in Level})

    def candidates(self, level: Level) -> int:
        return {Level.ENTITY: self.index.entities, Level.CONCEPT: self.index.concepts}[level]

    def supports(self, shape: Query) -> bool:  # noqa: ARG002 (it can count what any query means)
        return True

    def score(self, shape: Query, ids: Ids, level: Level) -> Doubles:
        """[B, candidates] in double precision: a prior must still tell candidates with equal counts apart."""
        entities, concepts, described = answer_rows(shape, ids, self.index)
        answers, counts = {
            Level.ENTITY: (entities, np.ones(len(entities.columns))),
            Level.CONCEPT: (concepts, described.astype(np.float64)),
        }[level]
        scores = self.priors[level].relative(shape, ids)
        rows, columns = answers.coordinates()
        scores[rows, columns] += counts
        return scores
