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
from typing import TYPE_CHECKING, Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.kb.arrays import Floats, Ids, Keys
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows
from tarbox.models.credo.compatibility import Compatibility
from tarbox.models.credo.kernels import sum_rows
from tarbox.models.credo.neighbours import Neighbours
from tarbox.models.credo.rules import RuleConfidences
from tarbox.models.saved import sizes_of

if TYPE_CHECKING:
    from torch import Tensor

    from tarbox.models.base import Sizes


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
    import torch

    products = SHRINKAGE * torch.eye(width, dtype=torch.float64)
    for start in range(0, len(rows), _DENSE_ROWS):
        part = _dense(rows, np.arange(start, min(start + _DENSE_ROWS, len(rows))), width)
        products += (part.T @ part).double()
    inverse: Tensor = torch.linalg.inv(products)
    weights = -inverse / inverse.diagonal()
    return weights.fill_diagonal_(0).float()


def _dense(rows: Rows, chosen: Keys | Ids, width: int) -> Tensor:
    """[b, F] some rows written out."""
    import torch

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
    def of(
        cls, facts: Facts, sizes: Sizes, instances: Instances, fitted: tuple[Ids, Tensor] | None = None
    ) -> Signatures:
        """With weights of these concepts that were fitted before; they are fitted where none are given."""
        kept, column = frequent_columns(instances.entities_of.sizes(), sizes.directed)
        if fitted is not None:
            kept, column = fitted[0], np.full(sizes.concepts, -1, np.int64)
            column[kept] = sizes.directed + np.arange(len(kept))
        width = sizes.directed + len(kept)
        typed, types = instances.concepts_of.coordinates()
        inside = column[types] >= 0
        relations = facts.relations.astype(np.int64)
        entities = np.concatenate([facts.tails, facts.heads, typed[inside]])
        columns = np.concatenate([2 * relations, 2 * relations + 1, column[types[inside]]])
        rows = Rows.of(entities, columns, sizes.entities, max(width, 1))
        weights = fit_linear(rows, max(width, 1)) if fitted is None else fitted[1]
        return cls(rows, weights, kept, sizes.directed)

    def relation(self, directed: int) -> Floats:
        """[E] how likely each entity has a directed relation."""
        found: Floats = np.empty(len(self.rows), np.float32)
        sum_rows(self.rows.offsets, self.rows.columns, self.weights[:, directed].numpy().copy(), found)
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
    def of(cls, facts: Facts, fitted: tuple[Ids, Tensor] | None = None) -> Evidence:
        """`fitted` are weights of signatures, as of `Signatures.of`."""
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
            Signatures.of(facts, sizes, instances, fitted),
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
