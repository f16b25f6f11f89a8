"""Entities that are like one another, and what they have: who shares much with an entity probably shares more.

Two entities are alike by the links that both have (the same directed relation to the same other): the cosine of their
rows over such links, a link that many have weighing less. An entity keeps the few that it is most alike. What a
predictor of limited rank blurs, that the cast of one film is the cast of others, these say outright.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.kb.facts import Facts, Ids

Keys = NDArray[np.int64]
Floats = NDArray[np.float32]

MOST: Final = 64
"""The neighbours of an entity."""
WIDEST: Final = 1000
"""A link that more entities have makes none of them neighbours: it says little and leads to many."""
FEATURES: Final = 2


@final
@dataclass(frozen=True, slots=True)
class Leads:
    """What keys lead to: `far[starts[i]:starts[i + 1]]` for `keys[i]`; keys increase, and so does what one leads to."""

    keys: Keys
    starts: Keys
    far: Ids

    @classmethod
    def of(cls, keys: Keys, far: Ids) -> Leads:
        order = np.lexsort((far, keys))
        ordered = keys[order]
        first = np.flatnonzero(np.diff(ordered, prepend=-1))
        return cls(ordered[first], np.append(first, len(ordered)).astype(np.int64), far[order].astype(np.int32))

    @classmethod
    def of_links(cls, facts: Facts) -> Leads:
        """By `directed relation * E + entity`: 2r leads from a tail to its heads, 2r + 1 from a head to its tails."""
        width, relations = len(facts.vocabulary.entities), facts.relations.astype(np.int64)
        near = np.concatenate([2 * relations * width + facts.tails, (2 * relations + 1) * width + facts.heads])
        return cls.of(near, np.concatenate([facts.heads, facts.tails]))

    def follow(self, keys: Keys) -> Ids:
        """What any of these keys leads to, each once."""
        places = np.searchsorted(self.keys, keys)
        places = places[places < len(self.keys)]
        places = places[np.isin(self.keys[places], keys)]
        parts = [self.far[self.starts[place] : self.starts[place + 1]] for place in places.tolist()]
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int32)


@final
@dataclass(frozen=True, slots=True)
class Neighbours:
    """The entities most alike entity e: `others` from `starts[e]` to `starts[e + 1]`, and how much, in `likeness`."""

    starts: Keys
    others: Ids
    likeness: Floats
    links: Leads
    width: int

    @classmethod
    def of(cls, facts: Facts) -> Neighbours:
        from tarbox.models.neighbour_kernels import find_alike

        width = len(facts.vocabulary.entities)
        forward = 2 * facts.relations.astype(np.int64) * width
        links = np.concatenate([forward + facts.heads, forward + width + facts.tails])
        sharing = Leads.of(links, np.concatenate([facts.tails, facts.heads]))  # a link, and who has it
        sizes = np.diff(sharing.starts)
        weights = np.log(max(width, 1) / np.maximum(sizes, 1))
        origin = np.repeat(np.arange(len(sharing.keys)), sizes)
        lengths = np.sqrt(np.bincount(sharing.far, weights[origin] ** 2, width))
        having = Leads.of(sharing.far.astype(np.int64), origin.astype(np.int32))  # an entity, and the links it has
        offsets = np.zeros(width + 1, np.int64)
        offsets[having.keys + 1] = np.diff(having.starts)
        groups = (sharing.starts, sharing.far, weights)
        starts, others, likeness = find_alike((np.cumsum(offsets), having.far), groups, lengths, (MOST, WIDEST))
        return cls(starts, others, likeness, Leads.of_links(facts), width)

    def of_links(self, relations: Keys, near: Keys, far: Keys) -> Floats:
        """[N, 2] whether those like `near` lead to `far` by these directed relations; see `share`."""
        return self.share(self.links, relations * self.width, near, far)

    def share(self, leads: Leads, bases: Keys, near: Keys, far: Keys) -> Floats:
        """[N, 2]: how alike `near` are those that lead to `far`, as a logarithm of their sum, and as a share of those
        that lead anywhere. An entity leads by the key `base + entity`."""
        from tarbox.models.neighbour_kernels import weigh_alike

        out = np.zeros((len(near), FEATURES), np.float32)
        order = np.lexsort((near, bases)).astype(np.int64)
        size = 1 + max(int(far.max(initial=0)), int(leads.far.max(initial=0)))
        weigh_alike(
            (self.starts, self.others, self.likeness),
            (leads.keys, leads.starts, leads.far),
            (order, bases, near.astype(np.int64), far.astype(np.int64)),
            size,
            out,
        )
        return out
