"""Facts with probabilities, known ones at 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.kb.arrays import Floats, Ids, Keys
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows, TripleKeys, pair_keys

if TYPE_CHECKING:
    from tarbox.models.base import Sizes

LEAST_KEPT: Final = 1e-3
"""The least probability of a fact that is kept. Of a query with m leaves, what is dropped changes no product of facts
by more than m * LEAST_KEPT (ADR 26)."""


@final
@dataclass(frozen=True, slots=True)
class FactProbabilities:
    """The links of directed relation d are `starts[d]` to `starts[d + 1]`: from `near`, increasing, to `far`.

    `concepts` are the concepts of each entity, closed under subsumption.
    """

    starts: NDArray[np.int64]
    near: Ids
    far: Ids
    degrees: Floats
    concepts: Rows

    @classmethod
    def of(
        cls, facts: Facts, sizes: Sizes, links: tuple[Keys, Floats], typings: tuple[Keys, Floats]
    ) -> FactProbabilities:
        """From facts, and what is predicted beyond them: triples by `TripleKeys` over the entities, typings by
        `entity * C + concept`, with probabilities."""
        codec = TripleKeys(max(sizes.entities, 1))
        relation, head, tail = codec.decode(links[0])
        relations = np.concatenate([facts.relations, relation]).astype(np.int64)
        heads, tails = (np.concatenate(both).astype(np.int64) for both in ((facts.heads, head), (facts.tails, tail)))
        degrees = np.concatenate([np.ones(len(facts.heads), np.float32), links[1]])
        keys = np.concatenate(
            [codec.encode(2 * relations, tails, heads), codec.encode(2 * relations + 1, heads, tails)]
        )
        order = np.argsort(keys)
        directed, near, far = codec.decode(keys[order])
        starts = np.searchsorted(directed, np.arange(sizes.directed + 1)).astype(np.int64)
        concepts = _close_typings(facts, sizes, typings)
        strength = np.concatenate([degrees, degrees])[order].astype(np.float32)
        return cls(starts, near.astype(np.int32), far.astype(np.int32), strength, concepts)

    def links(self) -> tuple[NDArray[np.int64], Ids, Ids, Floats]:
        return self.starts, self.near, self.far, self.degrees

    def members(self, concept: int) -> tuple[Ids, Floats]:
        """(entities, increasing, their probabilities) of a concept. Looked for among all typings: that takes less than
        to keep them twice."""
        places = np.flatnonzero(self.concepts.columns == concept)
        rows = np.searchsorted(self.concepts.offsets, places, side="right") - 1
        return rows.astype(np.int32), self.concepts.values[places]

    def loops(self, relation: int) -> tuple[Ids, Floats]:
        """(entities, probabilities) of what a relation leads from itself to."""
        own = slice(self.starts[relation], self.starts[relation + 1])
        places = np.flatnonzero(self.near[own] == self.far[own])
        return self.near[own][places], self.degrees[own][places]

    def link(self, relation: int, near: int, far: int) -> float:
        """The probability that a directed relation leads from one entity to another."""
        first, last = int(self.starts[relation]), int(self.starts[relation + 1])
        low, high = (first + np.searchsorted(self.near[first:last], [near, near + 1])).tolist()
        place = low + int(np.searchsorted(self.far[low:high], far))
        return float(self.degrees[place]) if place < high and self.far[place] == far else 0.0


def _close_typings(facts: Facts, sizes: Sizes, typings: tuple[Keys, Floats]) -> Rows:
    """Known and predicted, such that no concept of an entity has less than a sub-concept."""
    instances = Instances.of(facts)
    width = max(sizes.concepts, 1)
    typed, types = instances.concepts_of.coordinates()
    entities, concepts = np.divmod(typings[0], width)
    origin, above = instances.hierarchy.ancestors.gather(concepts)
    keys = np.concatenate([pair_keys(typed, types, width), pair_keys(entities[origin], above, width)])
    degrees = np.concatenate([np.ones(len(typed), np.float32), typings[1][origin]]).astype(np.float32)
    return Rows.of_values(keys, degrees, sizes.entities, width)
