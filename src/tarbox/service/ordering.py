"""The order of the concepts that describe an answer: by what they tell, by probability, or by similarity.

*Similarity* is the paper's S_Con (Eq. 12 and 13, p = 1): the negative Jensen-Shannon divergence of the answers and the
members of a concept, both normalised fuzzy sets over entities. Sets without a common member have -ln 2, the least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, assert_never, final

import numpy as np
from numpy.typing import NDArray

from tarbox.core.errors import QueryError
from tarbox.kb.arrays import Doubles, Ids, Places
from tarbox.models.scorer import LEAST_MEMBER

if TYPE_CHECKING:
    from tarbox.kb.rows import Rows


class Order(StrEnum):
    """How concepts are ordered, known ones and predicted ones each.

    `descriptive`: by coverage times specificity (`ConceptAnswer.score`), for people.
    `probability`: by degree, then by coverage. `similarity`: by the paper's Jensen-Shannon similarity.
    """

    DESCRIPTIVE = "descriptive"
    PROBABILITY = "probability"
    SIMILARITY = "similarity"

    @classmethod
    def of(cls, name: str) -> Order:
        """The order of this name.

        >>> Order.of("descriptive")
        <Order.DESCRIPTIVE: 'descriptive'>
        """
        if name not in cls.__members__.values():
            raise QueryError(f"order = {name!r}: choose one of {', '.join(cls)}")
        return cls(name)


@final
@dataclass(frozen=True, slots=True)
class Descriptions:
    """What orders concepts, [C] each; `similarity` is computed where it is wanted."""

    degrees: Doubles
    coverage: Doubles
    specificity: Doubles
    similarity: Callable[[], Doubles]

    def keys(self, order: Order) -> Doubles:
        """[C] greater is better."""
        match order:
            case Order.DESCRIPTIVE:
                return self.coverage * self.specificity
            case Order.PROBABILITY:
                return self.degrees
            case Order.SIMILARITY:
                return self.similarity()
            case _:
                assert_never(order)

    def sort(self, order: Order, concepts: Places) -> Places:
        """Some concepts, best first; then by coverage; then as they stand."""
        return concepts[np.lexsort((-self.coverage[concepts], -self.keys(order)[concepts]))]


def crisp_similarity(counts: Ids, answers: int, instances: NDArray[np.int64]) -> Doubles:
    """[C] the similarity of a set of entities with concepts, from the sizes: `counts` [C] are what both have.

    >>> crisp_similarity(np.array([2, 1, 0]), 2, np.array([2, 2, 9])).round(3).tolist()
    [0.0, -0.347, -0.693]
    """
    p, q = 1.0 / max(answers, 1), 1.0 / np.maximum(instances, 1)
    return _similarity(counts * _shared(np.float64(p), q))


def fuzzy_similarity(degrees: NDArray[np.float32], typings: Rows, totals: Doubles) -> Doubles:
    """[C] the similarity of a fuzzy set with the fuzzy sets of concepts.

    `typings` has the concepts of each entity, `totals` [C] the sums of the degrees of each concept's members.
    """
    members = np.flatnonzero(degrees >= LEAST_MEMBER)
    origin, places = typings.places(members)
    concepts = typings.columns[places]
    p = degrees[members[origin]].astype(np.float64) / max(float(degrees[members].sum(dtype=np.float64)), 1e-12)
    q = typings.values[places] / totals[concepts]
    return _similarity(np.bincount(concepts, _shared(p, q), len(totals)).astype(np.float64))


def _shared(p: Doubles | np.float64, q: Doubles) -> Doubles:
    """What an entity with weights p and q takes off the divergence of two sets that have nothing in common:
    (p ln p + q ln q) / 2 - m ln m - m ln 2, where m is the mean of p and q."""
    mean = (p + q) / 2
    found: Doubles = (p * np.log(p) + q * np.log(q)) / 2 - mean * np.log(2 * mean)
    return found


def _similarity(taken_off: Doubles) -> Doubles:
    found: Doubles = np.minimum(-(np.log(2.0) + taken_off), 0.0)
    return found
