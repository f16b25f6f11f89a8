"""Concepts and ends of relations that never meet a large concept that they should have met exclude it; a relation that
never leads an entity to itself excludes that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.kb.arrays import Ids, Keys
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows
from tarbox.models.credo.kernels import count_pairs, find_excluded

if TYPE_CHECKING:
    from tarbox.models.base import Sizes

Mask = NDArray[np.bool_]

_LARGE: Final = 256
"""The largest concepts: what tells kinds of entities apart."""
_HALF: Final = 0.5
"""No relation excludes a concept of more than this share of the typed entities: what it leads to and is not known to be
such a thing lacks the typing oftener than it is none."""
_EXPECTED: Final = 5.0
"""Where so many would be expected by chance and there is none, two concepts exclude each other."""


@final
@dataclass(frozen=True, slots=True)
class Compatibility:
    """Which concepts, and which ends of relations, exclude which of the largest concepts.

    `large` has the largest concepts of each entity, by their numbers, `above` those that are above each concept or it
    itself; `concepts` [C, L] and `relations` [2R, L] say what they exclude. A directed relation has what it leads to.
    `reflexive` [R] relations lead some entity to itself.
    """

    instances: Instances
    large: Rows
    above: Rows
    concepts: Mask
    relations: Mask
    reflexive: Mask

    @classmethod
    def of(cls, facts: Facts, sizes: Sizes, instances: Instances) -> Compatibility:
        members = instances.entities_of.sizes()
        typed_entities = max(instances.typed_entities(), 1)
        order = np.argsort(-members, kind="stable")
        chosen = order[members[order] > 0][:_LARGE]
        number = np.full(sizes.concepts, -1, np.int64)
        number[chosen] = np.arange(len(chosen))
        entities, concepts = instances.concepts_of.coordinates()
        large = _numbered(instances.concepts_of, number)
        rates = members[chosen] / typed_entities
        telling = np.where(rates <= _HALF, rates, 0.0)
        relations = facts.relations.astype(np.int64)
        ends = np.concatenate([2 * relations, 2 * relations + 1])
        reached = np.concatenate([facts.heads, facts.tails])
        typed = instances.concepts_of.sizes()[reached] > 0
        return cls(
            instances,
            large,
            _numbered(instances.hierarchy.ancestors, number),
            _exclusions(large, concepts, entities, (sizes.concepts, rates)),
            _exclusions(large, ends[typed], reached[typed], (sizes.directed, telling)),
            np.bincount(relations[facts.heads == facts.tails], minlength=sizes.relations) > 0,
        )

    def allow_typings(self, entities: Keys, concepts: Keys) -> Mask:
        """[N] whether none of an entity's concepts and the concept, with all above it, exclude each other."""
        allowed = self._allow(self.concepts, concepts, entities, self.large)
        origin, own = self.instances.concepts_of.gather(entities)
        allowed[origin[~self._allow(self.concepts, own, concepts[origin], self.above)]] = False
        return allowed

    def allow_links(self, relations: Keys, heads: Keys, tails: Keys) -> Mask:
        """[N] whether both ends of a fact are of a kind that the relation has there, and not one entity where it never
        leads one to itself."""
        allowed: Mask = (heads != tails) | self.reflexive[relations]
        for directed, ends in ((2 * relations, heads), (2 * relations + 1, tails)):
            allowed &= self._allow(self.relations, directed, ends, self.large)
        return allowed

    def _allow(self, exclusions: Mask, rows: Keys | Ids, others: Keys, large: Rows) -> Mask:
        """[N] whether a row excludes none of the largest concepts that another thing has."""
        excluded = np.zeros(len(others), np.bool_)
        find_excluded(exclusions, rows, others, (large.offsets, large.columns), excluded)
        return ~excluded


def _numbered(concepts: Rows, number: NDArray[np.int64]) -> Rows:
    """Of rows of concepts those that have a number, by it."""
    owners, columns = concepts.coordinates()
    inside = number[columns] >= 0
    return Rows.of(
        owners[inside], number[columns[inside]].astype(np.int32), len(concepts), int(number.max(initial=0)) + 1
    )


def _exclusions(large: Rows, rows: Keys | Ids, entities: Ids, sizes: tuple[int, NDArray[np.float64]]) -> Mask:
    """[rows, L] where the entities of a row have none of a large concept, though many of them would by chance."""
    height, rates = sizes
    counts = np.zeros((height, len(rates)), np.int32)
    count_pairs(rows, entities, (large.offsets, large.columns), counts)
    totals = np.bincount(rows, minlength=height)
    expected = totals[:, None] * rates.astype(np.float32)
    found: Mask = (counts == 0) & (expected >= _EXPECTED)
    return found
