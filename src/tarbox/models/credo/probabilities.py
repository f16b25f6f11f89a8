"""Facts with probabilities, known ones at 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.kb.arrays import Floats, Ids, Keys
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows, TripleKeys, offsets_of, pair_keys

if TYPE_CHECKING:
    from tarbox.models.base import Sizes

LEAST_KEPT: Final = 1e-3
"""The least probability of a fact that is kept. Of a query with m leaves, what is dropped changes no product of facts
by more than m * LEAST_KEPT (ADR 21)."""
LEAST_DESCRIBED: Final = 1e-2
"""The least probability of a description through annotations that is kept: they are many times the links."""


@final
@dataclass(frozen=True, slots=True)
class FactProbabilities:
    """The links of directed relation d are `starts[d]` to `starts[d + 1]`: from `near`, increasing, to `far`.

    `concepts` are the concepts of each entity, closed under subsumption; `descriptions`, what the concept level is
    about, are the same, unless there are annotation relations (ADR 39).
    """

    starts: NDArray[np.int64]
    near: Ids
    far: Ids
    degrees: Floats
    concepts: Rows
    descriptions: Rows

    @classmethod
    def described(
        cls, annotations: Sequence[int], links: tuple[NDArray[np.int64], Ids, Ids, Floats], concepts: Rows
    ) -> FactProbabilities:
        """With the descriptions that follow from links and concepts, where these relations annotate."""
        return cls(*links, concepts, _describe(annotations, links, concepts) if annotations else concepts)

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
        return cls.described(
            facts.annotations, (starts, near.astype(np.int32), far.astype(np.int32), strength), concepts
        )

    def links(self) -> tuple[NDArray[np.int64], Ids, Ids, Floats]:
        return self.starts, self.near, self.far, self.degrees

    def members(self, concept: int) -> tuple[Ids, Floats]:
        """(entities, increasing, their probabilities) of a concept."""
        return _find_column(self.concepts, concept)

    def described_by(self, concept: int) -> tuple[Ids, Floats]:
        """(entities, increasing, the probabilities that the concept describes them)"""
        return _find_column(self.descriptions, concept)

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


def _find_column(rows: Rows, column: int) -> tuple[Ids, Floats]:
    """(rows, increasing, their values) of a column: looked for among all entries, which takes less than to keep them
    twice."""
    places = np.flatnonzero(rows.columns == column)
    found = np.searchsorted(rows.offsets, places, side="right") - 1
    return found.astype(np.int32), rows.values[places]


def _describe(annotations: Sequence[int], links: tuple[NDArray[np.int64], Ids, Ids, Floats], concepts: Rows) -> Rows:
    """The noisy-or of an entity's own concepts and of those of what annotation relations lead it to. What is known
    has 1, nothing else does, and no concept has less than a sub-concept."""
    from tarbox.models.credo.concept_kernels import describe
    from tarbox.models.credo.kernels import share_out

    entities, width = len(concepts), int(concepts.columns.max(initial=0)) + 1
    ways = np.array([2 * relation + 1 for relation in annotations], np.int64)
    typings = concepts.offsets, concepts.columns, concepts.values
    parts: dict[int, tuple[NDArray[np.int64], Ids, Floats]] = {}

    def work(rows: slice) -> None:
        parts[rows.start] = describe(links, ways, typings, (rows.start, rows.stop), (width, LEAST_DESCRIBED))

    share_out(work, entities, max(1 << 12, entities // 32))
    sizes, columns, values = (np.concatenate(part) for part in zip(*(parts[at] for at in sorted(parts)), strict=True))
    return Rows(offsets_of(sizes), columns, values)


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
