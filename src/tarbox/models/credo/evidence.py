"""What a knowledge base itself says about a fact that it does not have.

- *Signatures*: which directed relations and concepts go together. A linear model without self-similarity (EASE, Steck
  2019; a closed form) predicts each column of an entity's signature from the others. It says how likely an entity has a
  relation or a concept at all, which the softmax of a link predictor cannot know.
- *Counts* of what an entity has, and of what a relation leads to.
- *Rule confidences* of paths of one and two steps, with additive smoothing.
- *Nearest neighbours* of an entity, by the cosine similarity of their links and concepts, and what these have.
- *Compatibility* (`tarbox.models.credo.compatibility`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tarbox.kb.arrays import Floats, Ids, Keys
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows, pair_keys
from tarbox.models.base import Sizes
from tarbox.models.credo.compatibility import Compatibility
from tarbox.models.credo.kernels import (
    count_bodies,
    count_paths,
    find_paths,
    find_similar,
    share_out,
    weigh_similar,
)
from tarbox.models.saved import sizes_of


@final
@dataclass(frozen=True, slots=True)
class KeyCounts:
    """How often each key occurs; 0 where it does not."""

    keys: Keys
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, keys: Keys) -> KeyCounts:
        ordered = np.sort(keys)
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        return cls(ordered[starts], np.diff(starts, append=len(ordered)))

    def __getitem__(self, keys: Keys) -> NDArray[np.int64]:
        if not len(self.keys):
            return np.zeros(len(keys), np.int64)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.counts[places], 0)


SHRINKAGE: Final = 20.0
"""What ridge regression adds to the diagonal."""
_SIGNATURE: Final = 2048
"""The most columns of a linear model: the inverse of their products takes the cube of it."""
_DENSE_ROWS: Final = 1 << 13


def fit_linear(rows: Rows, width: int) -> Tensor:
    """[F, F] the weights, with a diagonal of 0, that predict every column of a 0/1 matrix [N, F] from the others with
    least squared error."""
    products = SHRINKAGE * torch.eye(width, dtype=torch.float64)
    for start in range(0, len(rows), _DENSE_ROWS):
        part = _dense(rows, np.arange(start, min(start + _DENSE_ROWS, len(rows))), width)
        products += (part.T @ part).double()
    inverse: Tensor = torch.linalg.inv(products)
    weights = -inverse / inverse.diagonal()
    return weights.fill_diagonal_(0).float()


def _dense(rows: Rows, chosen: Keys | Ids, width: int) -> Tensor:
    """[b, F] some rows written out."""
    found = torch.zeros(len(chosen), width)
    origin, columns = rows.gather(chosen)
    found[torch.from_numpy(origin), torch.from_numpy(columns.astype(np.int64))] = 1.0
    return found


def frequent_columns(sizes: NDArray[np.int64], first: int) -> tuple[Ids, NDArray[np.int64]]:
    """(the most frequent concepts, as many as a linear model has room for behind `first` other columns; [C] the column
    of each concept, -1 for the others)."""
    room = max(min(_SIGNATURE - first, len(sizes)), 0)
    kept = np.sort(np.argsort(-sizes, kind="stable")[:room]).astype(np.int32)
    kept = kept[sizes[kept] > 0]
    column = np.full(len(sizes), -1, np.int64)
    column[kept] = first + np.arange(len(kept))
    return kept, column


@final
@dataclass(frozen=True, slots=True)
class Signatures:
    """Row e of `rows` has the directed relations that e has and those of its concepts that are `kept`."""

    rows: Rows
    weights: Tensor
    kept: Ids
    directed: int

    @classmethod
    def of(cls, facts: Facts, sizes: Sizes, instances: Instances) -> Signatures:
        kept, column = frequent_columns(instances.entities_of.sizes(), sizes.directed)
        width = sizes.directed + len(kept)
        typed, types = instances.concepts_of.coordinates()
        inside = column[types] >= 0
        relations = facts.relations.astype(np.int64)
        entities = np.concatenate([facts.tails, facts.heads, typed[inside]])
        columns = np.concatenate([2 * relations, 2 * relations + 1, column[types[inside]]])
        rows = Rows.of(entities, columns, sizes.entities, max(width, 1))
        return cls(rows, fit_linear(rows, max(width, 1)), kept, sizes.directed)

    def relation(self, directed: int) -> Floats:
        """[E] how likely each entity has a directed relation."""
        weights = self.weights[:, directed].numpy().astype(np.float64)
        sums = np.concatenate([[0.0], np.cumsum(weights[self.rows.columns])])
        found: Floats = (sums[self.rows.offsets[1:]] - sums[self.rows.offsets[:-1]]).astype(np.float32)
        return found

    def concepts(self, entities: Ids) -> Floats:
        """[b, kept] how likely each of some entities is an instance of each concept kept."""
        rows = _dense(self.rows, entities, len(self.weights))
        found: Floats = (rows @ self.weights[:, self.directed :]).numpy()
        return found

    def of_concepts(self, likely: Floats, rows: Keys, concepts: Keys) -> Floats:
        """[N] of `likely` [b, kept] what stands in these rows for these concepts; 0 for those that are not kept."""
        found = np.zeros(len(rows), np.float32)
        places = np.minimum(np.searchsorted(self.kept, concepts), max(len(self.kept) - 1, 0))
        inside = self.kept[places] == concepts if len(self.kept) else np.zeros(len(rows), np.bool_)
        found[inside] = likely[rows[inside], places[inside]]
        return found


SMOOTHING: Final = 5.0
"""Occurrences of a rule's body without its head that are added to those counted: a rule seen once counts little."""
_RULES: Final = 1 << 24
"""The most confidences of rules with two steps; the less frequent relations make none."""
_COUNTED: Final = 1 << 20
"""Facts, drawn evenly, that rules are counted on."""
_FACTS_AT_ONCE: Final = 1 << 13


@final
@dataclass(frozen=True, slots=True)
class RuleConfidences:
    """The graph by entity (`starts`, `relations`, `others`: directed relation d with d(entity, other), in order of the
    other), and confidences: `single` [2R, R], `double` [W, W, R] over `column` [2R] of the relations."""

    starts: Keys
    relations: Ids
    others: Ids
    column: Ids
    single: Floats
    double: Floats

    @classmethod
    def of(cls, facts: Facts) -> RuleConfidences:
        entities, relations = len(facts.vocabulary.entities), len(facts.vocabulary.relations)
        near = np.concatenate([facts.heads, facts.tails])
        directed = np.concatenate([2 * facts.relations, 2 * facts.relations + 1])
        far = np.concatenate([facts.tails, facts.heads])
        order = np.lexsort((directed, far, near))
        starts = np.searchsorted(near[order], np.arange(entities + 1))
        graph = (starts, directed[order].astype(np.int32), far[order].astype(np.int32))
        counts = np.bincount(directed, minlength=2 * relations)
        column = np.full(2 * relations, -1, np.int32)
        width = min(2 * relations, 256, int((_RULES / max(relations, 1)) ** 0.5))
        chosen = np.sort(np.argsort(-counts, kind="stable")[:width])
        column[chosen] = np.arange(len(chosen))
        single = np.zeros((2 * relations, relations), np.float32)
        double = np.zeros((len(chosen), len(chosen), relations), np.float32)
        step = max(1, -(-len(facts.heads) // _COUNTED))
        counted = np.stack([facts.relations, facts.heads, facts.tails], axis=1)[::step]
        count_paths(graph, column, np.ascontiguousarray(counted), (single, double))
        bodies = np.zeros((len(chosen), len(chosen)), np.float32)
        count_bodies(graph[0], graph[1], column, column[chosen ^ 1], bodies)
        single *= step / (counts[:, None] + SMOOTHING)
        double *= step / (bodies[:, :, None] + SMOOTHING)
        np.minimum(double, 0.99, out=double)
        return cls(*graph, column, single, double)

    def features(self, relations: Keys, heads: Keys, tails: Keys) -> Floats:
        """[N, 4] of facts; see `tarbox.models.credo.kernels.find_paths`."""
        out = np.zeros((len(heads), 4), np.float32)
        facts = np.stack([relations, heads, tails], axis=1).astype(np.int32)
        graph, confidences = (self.starts, self.relations, self.others), (self.single, self.double)

        def work(rows: slice) -> None:
            find_paths(graph, self.column, confidences, facts[rows], out[rows])

        share_out(work, len(facts), _FACTS_AT_ONCE)
        return out


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
_WIDEST: Final = 1000
"""A link that more entities have says little."""


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
        typed = (2 * len(facts.vocabulary.relations)) * width + facts.types.astype(np.int64)
        shared = np.concatenate([2 * relations * width + heads, (2 * relations + 1) * width + tails, typed])
        sharing = Adjacency.of(shared, np.concatenate([facts.tails, facts.heads, facts.typed]))
        near = np.concatenate([2 * relations * width + tails, (2 * relations + 1) * width + heads])
        links = Adjacency.of(near, np.concatenate([facts.heads, facts.tails]))
        entities, concepts = instances.concepts_of.coordinates()
        return cls(find_nearest(sharing, width), links, Adjacency.of(entities.astype(np.int64), concepts), width)

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

        share_out(work, len(order), max(_FACTS_AT_ONCE, size // 4))
        return out


def find_nearest(sharing: Adjacency, width: int) -> Rows:
    """Of each of so many the most similar others, with the cosine of what keys say that they share."""
    sizes = np.diff(sharing.starts)
    weights = np.log(width / np.maximum(sizes, 1)).astype(np.float32)
    origin = np.repeat(np.arange(len(sharing.keys)), sizes)
    lengths = np.sqrt(np.bincount(sharing.far, weights[origin].astype(np.float64) ** 2, width)).astype(np.float32)
    having = Rows.of_keys(np.sort(pair_keys(sharing.far, origin, len(sharing.keys))), width, len(sharing.keys))
    ordered = np.sort(sizes)
    affordable = int(np.searchsorted(np.cumsum(ordered.astype(np.float64) ** 2), _COMPARISONS))
    widest = min(_WIDEST, int(ordered[min(affordable, len(ordered) - 1)])) if len(ordered) else 0
    parts: dict[int, tuple[NDArray[np.int64], Ids, Floats]] = {}

    def work(rows: slice) -> None:
        own, others, similarity = find_similar(
            (having.offsets, having.columns),
            (sharing.starts, sharing.far, weights),
            lengths,
            (rows.start, rows.stop),
            (_NEAREST, widest),
        )
        order = np.argsort(pair_keys(np.repeat(np.arange(len(own)), own), others, width))
        parts[rows.start] = own, others[order], similarity[order]

    share_out(work, width, max(1 << 12, width // 32))
    found = [parts[start] for start in sorted(parts)]
    offsets = np.append(0, np.cumsum(np.concatenate([part[0] for part in found])))
    return Rows(offsets, np.concatenate([part[1] for part in found]), np.concatenate([part[2] for part in found]))


@final
@dataclass(frozen=True, slots=True)
class Evidence:
    """The facts of a graph, prepared for looking up.

    `having[d * E + y]` counts what directed relation d leads to from y, `reached[d * E + x]` how often it leads to x.
    `relation_sizes` [R, 3] are the assertions, distinct heads and distinct tails of each relation.
    """

    facts: Facts
    sizes: Sizes
    instances: Instances
    having: KeyCounts
    reached: KeyCounts
    relation_sizes: NDArray[np.int64]
    signatures: Signatures
    rules: RuleConfidences
    neighbours: Neighbours
    compatibility: Compatibility

    @classmethod
    def of(cls, facts: Facts) -> Evidence:
        sizes, instances = sizes_of(facts), Instances.of(facts)
        heads, relations, tails = (column.astype(np.int64) for column in (facts.heads, facts.relations, facts.tails))
        forward, inverse = 2 * relations * sizes.entities, (2 * relations + 1) * sizes.entities
        having = KeyCounts.of(np.concatenate([forward + tails, inverse + heads]))
        return cls(
            facts,
            sizes,
            instances,
            having,
            KeyCounts.of(np.concatenate([forward + heads, inverse + tails])),
            _relation_sizes(facts.relations, having, sizes),
            Signatures.of(facts, sizes, instances),
            RuleConfidences.of(facts),
            Neighbours.of(facts, instances),
            Compatibility.of(facts, sizes, instances),
        )

    def known_links(self, directed: int) -> tuple[Ids, Ids]:
        """(from, to) of the known links of a directed relation, sorted by the first."""
        own = self.facts.relations == directed // 2
        pair = (self.facts.tails[own], self.facts.heads[own])
        near, far = pair if directed % 2 == 0 else pair[::-1]
        order = np.argsort(near, kind="stable")
        return near[order], far[order]


def _relation_sizes(relations: Ids, having: KeyCounts, sizes: Sizes) -> NDArray[np.int64]:
    ends = np.bincount(having.keys // max(sizes.entities, 1), minlength=sizes.directed)
    return np.stack([np.bincount(relations, minlength=sizes.relations), ends[1::2], ends[0::2]], axis=1)
