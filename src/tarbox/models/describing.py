"""What a query's fuzzy set, its known answers and the hierarchy say about each concept: the features of the ranking.

`Describer` is made from facts alone; the fuzzy set of the query comes from probabilities (`tarbox.models.probabilities`).
"""

# ruff: noqa: N803, N806, N815 (shape suffixes, see STYLE.md)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.execution.graph import Index
from tarbox.execution.interpreter import evaluate
from tarbox.kb.closure import Hierarchy
from tarbox.kb.facts import Ids
from tarbox.kb.rows import Rows
from tarbox.models.counting import PriorAlgebra, Priors
from tarbox.models.probabilities import FactProbabilities, share_out
from tarbox.query.algebra import Direction, Query, slots

Floats = NDArray[np.float32]

LEAST_MEMBER: Final = 1e-5
"""Members of a query's set below this degree are not asked for their concepts."""
FEATURES: Final = 18
FLATTER: Final = 0.5
"""The power of the degrees by which members share a query: the best guesses count for less than their degrees say."""


@final
@dataclass(frozen=True, slots=True)
class Asked:
    """Queries of one shape with their fuzzy sets [B, E] and what is known: entities and concepts by query, and for each
    concept how many of the entities it has."""

    shape: Query
    ids: Ids
    sets_BE: Floats
    entities: Rows
    concepts: Rows
    counts: Ids

    def known(self) -> NDArray[np.bool_]:
        """[B, E] which entities are known answers."""
        found = np.zeros(self.sets_BE.shape, np.bool_)
        found[self.entities.coordinates()] = True
        return found


@final
@dataclass(frozen=True, slots=True)
class Describer:
    """The facts, prepared. `weights` [2R + C, C] predict concepts from the last relations and the known concepts.

    `children` are the concepts below each; `sizes` and `shares` [C] say how many members a concept has, as logarithms.
    """

    index: Index
    priors: Priors
    weights: Floats
    children: Rows
    sizes: NDArray[np.float64]
    shares: NDArray[np.float64]

    @classmethod
    def of(cls, index: Index, weights: Floats) -> Describer:
        """The weights are rounded to half precision, in which a run holds them: so a model scores alike once saved."""
        weights = weights.astype(np.float16).astype(np.float32)
        priors = Priors.of_entities(index.facts, index.instances).of_concepts(index.instances)
        tree, members = index.instances.hierarchy, index.instances.entities_of.sizes()
        shares = np.log(1e-4 + members / max(members.max(initial=1), 1))
        return cls(index, priors, weights, tree.parents.transpose(len(tree)), np.log1p(members), shares)

    def describe(self, asked: Asked, probabilities: FactProbabilities) -> tuple[Floats, Floats]:
        """([B, C, F] the features, [B, C] the expected number of members in each concept)."""
        size, concepts = len(asked.ids), self.index.concepts
        sums = self._sums(asked, probabilities)
        known_BC = np.zeros((size, concepts), np.float32)
        known_BC[asked.concepts.coordinates()] = 1.0
        total = np.log(1e-6 - np.expm1(-sums[:, :3].sum(1)))
        out = np.empty((size, concepts, FEATURES), np.float32)
        for kind in range(3):
            out[:, :, kind] = np.log(1e-6 + sums[:, kind])
        out[:, :, 3] = total
        out[:, :, 4] = np.log(1e-6 + sums[:, 3])
        out[:, :, 5] = total - np.where(known_BC > 0, -20.0, total).max(1, initial=-20.0, keepdims=True)
        prior = self._prior(asked)
        out[:, :, 6] = np.log(1e-4 + prior)
        out[:, :, 7] = self._linear(asked, known_BC)
        out[:, :, 8], out[:, :, 9] = relatives(self.index.instances.hierarchy, known_BC, self.children)
        out[:, :, 10] = self.sizes
        out[:, :, 11] = self.index.instances.hierarchy.depth
        out[:, :, 12] = np.log1p(asked.entities.sizes())[:, None]
        out[:, :, 13] = np.log1p(known_BC.sum(1))[:, None]
        out[:, :, 14] = np.log(1e-6 + sums[:, 4])
        out[:, :, 15] = out[:, :, 6] - self.shares
        out[:, :, 16] = np.log1p(asked.sets_BE.sum(1))[:, None]
        out[:, :, 17] = np.log(1e-5 + self._shares(asked, probabilities))
        return out, sums[:, 4]

    def expect(self, asked: Asked, probabilities: FactProbabilities) -> Floats:
        """[B, C] the expected number of members in each concept."""
        return self._sums(asked, probabilities)[:, 4]

    def _shares(self, asked: Asked, probabilities: FactProbabilities) -> Floats:
        """[B, C] the share of each concept in what is not known, if its members share it by powers of degrees."""
        from tarbox.models.probability_kernels import gather_shares

        parts, typings = np.power(asked.sets_BE, np.float32(FLATTER)), probabilities.concepts
        parts[asked.entities.coordinates()] = 0.0
        inside = np.zeros((len(parts), self.index.concepts), np.float32)

        def work(rows: slice) -> None:
            columns = (typings.offsets, typings.columns, typings.values)
            gather_shares(columns, parts[rows], LEAST_MEMBER, inside[rows])

        share_out(work, *parts.shape)
        found: Floats = inside / np.maximum(parts.sum(1, keepdims=True), 1e-9)
        return found

    def _sums(self, asked: Asked, probabilities: FactProbabilities) -> Floats:
        from tarbox.models.probability_kernels import gather_concepts

        typings, known = probabilities.concepts, asked.known()
        sums = np.zeros((len(asked.ids), 5, self.index.concepts), np.float32)

        def work(rows: slice) -> None:
            gather_concepts(
                (typings.offsets, typings.columns, typings.values),
                asked.sets_BE[rows],
                known[rows],
                LEAST_MEMBER,
                sums[rows],
            )

        share_out(work, *asked.sets_BE.shape)
        return sums

    def _prior(self, asked: Asked) -> Floats:
        """[B, C] how often the concept ends the last relation, as counting takes it; the greatest is 1."""
        columns = {slot.name: asked.ids[:, place] for place, slot in enumerate(slots(asked.shape))}
        prior = evaluate(asked.shape, PriorAlgebra(self.priors, columns))
        if prior is None:
            return np.zeros((len(asked.ids), self.index.concepts), np.float32)
        found = prior()
        relative: Floats = (found / np.maximum(found.max(1, initial=0.0, keepdims=True), 1e-12)).astype(np.float32)
        return relative

    def _linear(self, asked: Asked, known_BC: Floats) -> Floats:
        columns = {slot.name: asked.ids[:, place] for place, slot in enumerate(slots(asked.shape))}
        directed = len(self.weights) - self.index.concepts
        last = evaluate(asked.shape, LastRelations(columns, (len(asked.ids), directed)))
        found: Floats = last @ self.weights[:directed] + known_BC @ self.weights[directed:]
        return found


@final
@dataclass(frozen=True, slots=True)
class LastRelations:
    """[B, 2R] the directed relations that lead to the answers."""

    columns: dict[str, Ids]
    shape: tuple[int, int]

    def entity(self, name: str) -> Floats:  # noqa: ARG002
        return np.zeros(self.shape, np.float32)

    def concept(self, name: str) -> Floats:
        return self.entity(name)

    def exists(self, relation: str, direction: Direction, operand: Floats) -> Floats:  # noqa: ARG002
        found = np.zeros(self.shape, np.float32)
        found[np.arange(self.shape[0]), self.columns[relation]] = 1.0
        return found

    def intersection(self, operands: Sequence[Floats]) -> Floats:
        return reduce(np.maximum, operands)

    def union(self, operands: Sequence[Floats]) -> Floats:
        return reduce(np.maximum, operands)

    def complement(self, operand: Floats) -> Floats:
        return np.zeros_like(operand)


def relatives(hierarchy: Hierarchy, known_BC: Floats, children: Rows | None = None) -> tuple[Floats, Floats]:
    """[B, C] each: the share of its parents that are known (1 without parents), and of its parents' children.

    `children` are the concepts below each, where they are at hand.
    """
    parents = hierarchy.parents
    children = parents.transpose(len(hierarchy)) if children is None else children
    share = _means(known_BC, parents, 1.0)
    return share, _means(_means(known_BC, children, 0.0), parents, 0.0)


def _means(values_BC: Floats, rows: Rows, otherwise: float) -> Floats:
    """[B, rows] the mean of the columns of each row."""
    sizes = rows.sizes()
    found = np.full((len(values_BC), len(sizes)), otherwise, np.float32)
    filled = np.flatnonzero(sizes)
    if len(filled):
        sums = np.add.reduceat(values_BC[:, rows.columns], rows.offsets[filled], axis=1)
        found[:, filled] = sums / sizes[filled]
    return found


def raise_to_narrower(hierarchy: Hierarchy, scores_BC: Floats) -> Floats:
    """Each concept's score raised to the greatest of its sub-concepts'."""
    below = hierarchy.descendants
    return np.maximum.reduceat(scores_BC[:, below.columns], below.offsets[:-1], axis=1)
