"""Nearest neighbours: who is similar by the cosine of links and concepts, what these have, and what two share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.kb.arrays import Floats, Ids, Keys
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows, pair_keys
from tarbox.models.credo.kernels import find_similar, share_out, weigh_similar


@final
@dataclass(frozen=True, slots=True)
class Adjacency:
    """What keys lead to: `far[starts[i]:starts[i + 1]]` for `keys[i]`; keys increase, and so does what one leads to."""

    keys: Keys
    starts: Keys
    far: Ids

    @classmethod
    def of(cls, keys: Keys, far: Ids) -> Adjacency:
        order = np.lexsort((far, keys))
        ordered = keys[order]
        first = np.flatnonzero(np.diff(ordered, prepend=-1))
        return cls(ordered[first], np.append(first, len(ordered)).astype(np.int64), far[order].astype(np.int32))


_NEAREST: Final = 64
"""The neighbours of an entity."""
_COMPARISONS: Final = 4e9
"""Pairs of entities that are compared: links that so many share that it would be more make nobody neighbours."""
_PAIRS_AT_ONCE: Final = 1 << 13
_WIDEST: Final = 1000
"""A link that more entities have says little."""


@final
@dataclass(frozen=True, slots=True)
class SharedLinks:
    """What makes entities, or other things, similar. `sharing` says who has each link, `having` which each has; a link
    that n of N have weighs log(N / n). `lengths` are those of the rows of weights; links that more than `widest` have
    make nobody neighbours."""

    sharing: Adjacency
    having: Rows
    weights: Floats
    lengths: Floats
    widest: int

    @classmethod
    def of(cls, sharing: Adjacency, width: int) -> SharedLinks:
        """Of so many things."""
        sizes = np.diff(sharing.starts)
        weights = np.log(width / np.maximum(sizes, 1)).astype(np.float32)
        origin = np.repeat(np.arange(len(sharing.keys)), sizes)
        lengths = np.sqrt(np.bincount(sharing.far, weights[origin].astype(np.float64) ** 2, width)).astype(np.float32)
        having = Rows.of_keys(np.sort(pair_keys(sharing.far, origin, len(sizes))), width, len(sizes))
        ordered = np.sort(sizes)
        affordable = int(np.searchsorted(np.cumsum(ordered.astype(np.float64) ** 2), _COMPARISONS))
        widest = min(_WIDEST, int(ordered[min(affordable, len(ordered) - 1)])) if len(ordered) else 0
        return cls(sharing, having, weights, lengths, widest)

    @classmethod
    def of_facts(cls, facts: Facts) -> SharedLinks:
        """Of entities. Keys are `way * E + other`, where way 2 r is from the head of r to those that have the key, 2 r
        + 1 from its tail, and the last from a concept to its instances as asserted."""
        width = max(len(facts.vocabulary.entities), 1)
        relations = facts.relations.astype(np.int64)
        typed = 2 * len(facts.vocabulary.relations) * width + facts.types.astype(np.int64)
        shared = np.concatenate([2 * relations * width + facts.heads, (2 * relations + 1) * width + facts.tails, typed])
        return cls.of(Adjacency.of(shared, np.concatenate([facts.tails, facts.heads, facts.typed])), width)

    def nearest(self, wanted: Ids) -> Rows:
        """Of each of the wanted, in their order, the most similar others with the cosine of their weights."""
        parts: dict[int, tuple[NDArray[np.int64], Ids, Floats]] = {}

        def work(rows: slice) -> None:
            own, others, similarity = find_similar(
                (self.having.offsets, self.having.columns),
                (self.sharing.starts, self.sharing.far, self.weights),
                self.lengths,
                wanted[rows],
                (_NEAREST, self.widest),
            )
            order = np.argsort(pair_keys(np.repeat(np.arange(len(own)), own), others, len(self.lengths)))
            parts[rows.start] = own, others[order], similarity[order]

        share_out(work, len(wanted), max(1 << 12, len(wanted) // 32))
        found = [parts[start] for start in sorted(parts)] or [(np.empty(0, np.int64), wanted[:0], self.weights[:0])]
        offsets = np.append(0, np.cumsum(np.concatenate([part[0] for part in found])))
        return Rows(offsets, np.concatenate([part[1] for part in found]), np.concatenate([part[2] for part in found]))

    def common(self, one: int, other: int) -> Keys:
        """The keys that both have, the weightiest first."""
        both = np.intersect1d(self.having[one], self.having[other], assume_unique=True)
        return self.sharing.keys[both[np.argsort(-self.weights[both], kind="stable")]]


@final
@dataclass(frozen=True, slots=True)
class Neighbours:
    """The entities most similar to each other, with the cosine of their links; a link that n of E entities have weighs
    log(E / n). Concepts are links, too. `links` and `concepts` are what entities lead to."""

    similar: Rows
    links: Adjacency
    concepts: Adjacency
    width: int

    @classmethod
    def of(cls, facts: Facts, instances: Instances) -> Neighbours:
        width = max(len(facts.vocabulary.entities), 1)
        relations = facts.relations.astype(np.int64)
        heads, tails = facts.heads.astype(np.int64), facts.tails.astype(np.int64)
        near = np.concatenate([2 * relations * width + tails, (2 * relations + 1) * width + heads])
        links = Adjacency.of(near, np.concatenate([facts.heads, facts.tails]))
        entities, concepts = instances.concepts_of.coordinates()
        similar = SharedLinks.of_facts(facts).nearest(np.arange(width, dtype=np.int32))
        return cls(similar, links, Adjacency.of(entities.astype(np.int64), concepts), width)

    def of_links(self, relations: Keys, near: Keys, far: Keys) -> Floats:
        """[N, 2] whether those similar to `near` lead to `far` by these directed relations."""
        return self._share(self.links, relations * self.width, near, far)

    def of_typings(self, entities: Keys, concepts: Keys) -> Floats:
        """[N, 2] whether those similar to entities are instances of concepts."""
        return self._share(self.concepts, np.zeros(len(entities), np.int64), entities, concepts)

    def _share(self, adjacency: Adjacency, bases: Keys, near: Keys, far: Keys) -> Floats:
        out = np.zeros((len(near), 2), np.float32)
        size = 1 + max(int(far.max(initial=0)), int(adjacency.far.max(initial=0)))
        order = np.lexsort((near, bases)).astype(np.int64)
        similar = (self.similar.offsets, self.similar.columns, self.similar.values)
        asked = (bases, near.astype(np.int64), far.astype(np.int64))

        def work(rows: slice) -> None:
            weigh_similar(similar, (adjacency.keys, adjacency.starts, adjacency.far), (order[rows], *asked), size, out)

        share_out(work, len(order), max(_PAIRS_AT_ONCE, size // 4))
        return out
