"""How well concepts and ends of relations go with large concepts: their lift, how often they meet over how often they
would by chance. Those that never meet, though they should have, exclude each other; a relation that never leads an
entity to itself excludes that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.kb.arrays import Floats, Ids, Keys
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows
from tarbox.models.base import Sizes
from tarbox.models.credo.kernels import count_pairs, find_least

Mask = NDArray[np.bool_]

_LARGE: Final = 256
"""The largest concepts: what tells kinds of entities apart."""
_EXPECTED: Final = 5.0
"""Where so many would be expected by chance and there is none, two concepts exclude each other."""


@final
@dataclass(frozen=True, slots=True)
class Compatibility:
    """The lifts of concepts, and of ends of relations, with the largest concepts; 0 where they exclude each other.

    `large` has the largest concepts of each entity, by their numbers; `concepts` [C, L] and `relations` [2R, L] are the
    lifts. A directed relation has what it leads to. `reflexive` [R] relations lead some entity to itself.
    """

    large: Rows
    concepts: Floats
    relations: Floats
    reflexive: Mask

    @classmethod
    def of(cls, facts: Facts, sizes: Sizes, instances: Instances) -> Compatibility:
        members = instances.entities_of.sizes()
        typed_entities = max(instances.typed_entities(), 1)
        order = np.argsort(-members, kind="stable")
        chosen = order[(members[order] > 0) & (2 * members[order] <= typed_entities)][:_LARGE]
        number = np.full(sizes.concepts, -1, np.int64)
        number[chosen] = np.arange(len(chosen))
        entities, concepts = instances.concepts_of.coordinates()
        inside = number[concepts] >= 0
        large = Rows.of(
            entities[inside], number[concepts[inside]].astype(np.int32), sizes.entities, max(len(chosen), 1)
        )
        rates = members[chosen] / typed_entities
        relations = facts.relations.astype(np.int64)
        ends = np.concatenate([2 * relations, 2 * relations + 1])
        reached = np.concatenate([facts.heads, facts.tails])
        typed = instances.concepts_of.sizes()[reached] > 0
        return cls(
            large,
            _lifts(large, concepts, entities, (sizes.concepts, rates)),
            _lifts(large, ends[typed], reached[typed], (sizes.directed, rates)),
            np.bincount(relations[facts.heads == facts.tails], minlength=sizes.relations) > 0,
        )

    def of_typings(self, entities: Keys, concepts: Keys) -> Floats:
        """[N] the least lift of a concept with one that the entity has, at most 1; 0 where one excludes it."""
        return self._least(self.concepts, concepts, entities)

    def of_links(self, relations: Keys, heads: Keys, tails: Keys) -> Floats:
        """[N, 2] the least lift of the end of a relation with a concept of the head, and of the tail; 0 where one
        excludes it, or where both are one entity and the relation never leads one to itself."""
        parts = ((2 * relations, heads), (2 * relations + 1, tails))
        found = np.stack([self._least(self.relations, directed, ends) for directed, ends in parts], axis=1)
        found[(heads == tails) & ~self.reflexive[relations]] = 0
        return found

    def _least(self, lifts: Floats, rows: Keys, entities: Keys) -> Floats:
        found = np.ones(len(entities), np.float32)
        find_least(lifts, rows, entities, (self.large.offsets, self.large.columns), found)
        return found


def _lifts(large: Rows, rows: Keys | Ids, entities: Ids, sizes: tuple[int, NDArray[np.float64]]) -> Floats:
    """[rows, L] how often the entities of a row have a large concept, over how often they would by chance (additive
    smoothing); 0 where none has, though many would."""
    height, rates = sizes
    counts = np.zeros((height, len(rates)), np.int32)
    count_pairs(rows, entities, (large.offsets, large.columns), counts)
    expected = np.bincount(rows, minlength=height)[:, None].astype(np.float32) * rates.astype(np.float32)
    found: Floats = (counts + np.float32(1)) / (expected + np.float32(1))
    found[(counts == 0) & (expected >= _EXPECTED)] = 0
    return found
