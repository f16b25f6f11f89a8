"""What a knowledge base itself says about a fact that it does not have: counts, and which facts go together.

An entity's *signature* are the directed relations that it has and the concepts it is an instance of. A linear model
without self-similarity (EASE, Steck 2019; a closed form) predicts each column of the signature from the others: how
likely an entity has a relation or a concept at all. That bounds where a link predictor needs to look, and says how many
facts are missing there, which the link predictor's softmax cannot know.
"""

# ruff: noqa: N803, N806, N815 (shape suffixes, see STYLE.md)

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts, Ids
from tarbox.models.base import Sizes
from tarbox.models.neighbours import Neighbours
from tarbox.models.paths import Ways
from tarbox.models.saved import sizes_of

Keys = NDArray[np.int64]
Floats = NDArray[np.float32]

WIDEST: Final = 4096
"""The most columns of a signature: the inverse of their products takes the cube of it."""
SHRINKAGE: Final = 20.0
BLOCK: Final = 1 << 14


@final
@dataclass(frozen=True, slots=True)
class Counts:
    """How often each key occurs; 0 where it does not."""

    keys: Keys
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, keys: Keys) -> Counts:
        ordered = np.sort(keys)
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        return cls(ordered[starts], np.diff(starts, append=len(ordered)))

    def __getitem__(self, keys: Keys) -> NDArray[np.int64]:
        if not len(self.keys):
            return np.zeros(len(keys), np.int64)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.counts[places], 0)


@final
@dataclass(frozen=True, slots=True)
class Evidence:
    """The facts of a graph, prepared for looking up.

    `having[d * E + y]` counts what directed relation d leads to from y, `reached[d * E + x]` how often it leads to x.
    `relations_ED` and `concepts_EC` are the predictions of the signature; a column that it leaves out is 0.
    """

    facts: Facts
    sizes: Sizes
    instances: Instances
    having: Counts
    reached: Counts
    relations_ED: Floats
    concepts_EC: Floats
    ways: Ways
    neighbours: Neighbours

    @classmethod
    def of(cls, facts: Facts) -> Evidence:
        sizes, instances = sizes_of(facts), Instances.of(facts)
        heads, relations, tails = (column.astype(np.int64) for column in (facts.heads, facts.relations, facts.tails))
        width = sizes.entities
        forward, inverse = 2 * relations * width, (2 * relations + 1) * width
        relations_ED, concepts_EC = _predict(facts, sizes, instances)
        return cls(
            facts,
            sizes,
            instances,
            Counts.of(np.concatenate([forward + tails, inverse + heads])),
            Counts.of(np.concatenate([forward + heads, inverse + tails])),
            relations_ED,
            concepts_EC,
            Ways.of(facts),
            Neighbours.of(facts),
        )

    def plausible(self, relation: int, least: float) -> Ids:
        """The entities that have a directed relation, or are at least so likely to have it."""
        likely = self.relations_ED[:, relation] >= least
        own = self.facts.relations == relation // 2
        likely[(self.facts.tails if relation % 2 == 0 else self.facts.heads)[own]] = True
        return np.flatnonzero(likely).astype(np.int32)

    def links(self, relation: int) -> tuple[Ids, Ids]:
        """(from, to) of the known links of a directed relation, sorted by the first."""
        own = self.facts.relations == relation // 2
        pair = (self.facts.tails[own], self.facts.heads[own])
        near, far = pair if relation % 2 == 0 else pair[::-1]
        order = np.argsort(near, kind="stable")
        return near[order], far[order]

    def alike(self, relation: Keys, head: Keys, tail: Keys) -> Floats:
        """[N, 4] what the neighbours of the head lead to, and those of the tail."""
        ends = ((2 * relation + 1, head, tail), (2 * relation, tail, head))
        return np.concatenate([self.neighbours.of_links(*end) for end in ends], axis=1)


def _predict(facts: Facts, sizes: Sizes, instances: Instances) -> tuple[Floats, Floats]:
    """([E, 2R] of the relations, [E, C] of the concepts)."""
    signature, kept = _signature(facts, sizes, instances)
    weights = fit_linear(signature)
    predicted = torch.empty(len(signature), signature.shape[1])
    for start in range(0, len(signature), BLOCK):
        predicted[start : start + BLOCK] = signature[start : start + BLOCK].float() @ weights
    concepts = np.zeros((sizes.entities, sizes.concepts), np.float32)
    concepts[:, kept] = predicted[:, sizes.directed :].numpy()
    return predicted[:, : sizes.directed].numpy().copy(), concepts


def _signature(facts: Facts, sizes: Sizes, instances: Instances) -> tuple[Tensor, Ids]:
    """([E, F] of ones and zeros: the directed relations, then the concepts kept; those concepts)."""
    members = instances.entities_of.sizes()
    room = max(WIDEST - sizes.directed, 0)
    kept = np.sort(np.argsort(-members, kind="stable")[:room]).astype(np.int32)
    column = np.full(sizes.concepts, -1, np.int64)
    column[kept] = np.arange(len(kept)) + sizes.directed
    typed, types = instances.concepts_of.coordinates()
    inside = column[types] >= 0
    signature = np.zeros((sizes.entities, sizes.directed + len(kept)), np.uint8)
    signature[facts.tails, 2 * facts.relations] = 1
    signature[facts.heads, 2 * facts.relations + 1] = 1
    signature[typed[inside], column[types[inside]]] = 1
    return torch.from_numpy(signature), kept


def distinct(keys: Keys) -> Keys:
    """Sorted, each once; quicker than numpy's `unique`, which hashes."""
    return Counts.of(keys).keys


def fit_linear(rows_XF: Tensor, shrinkage: float = SHRINKAGE) -> Tensor:
    """[F, F] the weights, with a diagonal of 0, that predict every column from the others with least squared error."""
    width = rows_XF.shape[1]
    products = shrinkage * torch.eye(width, dtype=torch.float64)
    for start in range(0, len(rows_XF), BLOCK):
        part = rows_XF[start : start + BLOCK].float()
        products += (part.T @ part).double()
    inverse: Tensor = torch.linalg.inv(products)
    weights = -inverse / inverse.diagonal()
    return weights.fill_diagonal_(0).float()
