"""Fuzzy sets of entities that have generators (Eq. 6-8), and the algebra that builds them from a query.

A set is an expression; `degrees` gives it a value over a *universe*: all entities, or a few candidates per query. A
relation moves the generators of its operand, through `and`, `or` and `not` (ADR 0013). So every operation is pointwise,
and training an entity answer needs the degrees of its candidates only, never those of all entities.

Shape letters: B queries, D dimension, E entities, K candidates per query, X members of a universe.
"""

# ruff: noqa: N803, N806, N815 (shape suffixes)

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from tarbox.execution.interpreter import SixNodes
from tarbox.models.base import Columns
from tarbox.models.fuzzy import Logic, complement
from tarbox.query.algebra import Direction


def widen(products: Tensor) -> Tensor:
    """In single precision at least: what `torch.autocast` made of a matrix product is not added up any further."""
    return products.float() if products.dtype in (torch.bfloat16, torch.float16) else products


class Universe(abc.ABC):
    """The entities whose degrees are wanted; `offset` is added to every similarity before the sigmoid (ADR 0016)."""

    offset: float

    @abc.abstractmethod
    def products(self, vectors_BD: Tensor) -> Tensor:
        """[B, X] the product of each query's vector with each member's embedding."""

    @abc.abstractmethod
    def indicator(self, ids_B: Tensor) -> Tensor:
        """[B, X] 1 where the member is the query's entity, 0 elsewhere."""

    def squash(self, similarities: Tensor) -> Tensor:
        """The degrees of similarities: sigma of Eq. 6."""
        wide = widen(similarities)
        return torch.sigmoid(wide + self.offset if self.offset else wide)


@final
@dataclass(frozen=True, slots=True, eq=False)
class AllEntities(Universe):
    """The Herbrand universe: X = E."""

    entities_ED: Tensor
    offset: float = 0.0

    def products(self, vectors_BD: Tensor) -> Tensor:
        return vectors_BD @ self.entities_ED.T

    def indicator(self, ids_B: Tensor) -> Tensor:
        members_E = torch.arange(len(self.entities_ED), device=ids_B.device)
        return (ids_B[:, None] == members_E).to(self.entities_ED.dtype)


@final
@dataclass(frozen=True, slots=True, eq=False)
class SomeEntities(Universe):
    """The candidates of each query: X = K."""

    ids_BK: Tensor
    entities_BKD: Tensor
    offset: float = 0.0

    def products(self, vectors_BD: Tensor) -> Tensor:
        return torch.einsum("bd,bkd->bk", vectors_BD, self.entities_BKD)

    def indicator(self, ids_B: Tensor) -> Tensor:
        return (ids_B[:, None] == self.ids_BK).to(self.entities_BKD.dtype)


class FuzzySet(abc.ABC):
    """A fuzzy set of entities for each query of a batch."""

    @abc.abstractmethod
    def degrees(self, universe: Universe) -> Tensor:
        """[B, X] in [0, 1]."""

    @abc.abstractmethod
    def moved(self, relation_BD: Tensor) -> FuzzySet:
        """The set that the relation leads to, by translating the generators."""


@dataclass(frozen=True, slots=True, eq=False)
class AtomicSet(FuzzySet):
    """A set with one generator, from which a relation leads to an atomic query."""

    generator_BD: Tensor

    @final
    def moved(self, relation_BD: Tensor) -> FuzzySet:
        return Generated(self.generator_BD + relation_BD)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Generated(AtomicSet):
    """Eq. 8: an atomic query, by its generator e + r1 + ... + ri."""

    def degrees(self, universe: Universe) -> Tensor:
        return universe.squash(universe.products(self.generator_BD))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Singleton(AtomicSet):
    """{e}: "a special type of fuzzy set", 1 for one entity and 0 for all others."""

    ids_B: Tensor

    def degrees(self, universe: Universe) -> Tensor:
        return universe.indicator(self.ids_B)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ConceptMembers(AtomicSet):
    """Eq. 6: the instances of a concept, by its embedding; all entities where the id is negative (`EVERYTHING`)."""

    ids_B: Tensor

    def degrees(self, universe: Universe) -> Tensor:
        own_BX = universe.squash(universe.products(self.generator_BD))
        return torch.where(self.ids_B[:, None] < 0, torch.ones_like(own_BX), own_BX)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Combined(FuzzySet):
    """Eq. 9 and 10: the t-norm or t-conorm of some sets."""

    parts: Sequence[FuzzySet]
    combine: Callable[[Sequence[Tensor]], Tensor]

    def degrees(self, universe: Universe) -> Tensor:
        return self.combine([part.degrees(universe) for part in self.parts])

    def moved(self, relation_BD: Tensor) -> FuzzySet:
        return Combined([part.moved(relation_BD) for part in self.parts], self.combine)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Negated(FuzzySet):
    """Eq. 11."""

    part: FuzzySet

    def degrees(self, universe: Universe) -> Tensor:
        return complement(self.part.degrees(universe))

    def moved(self, relation_BD: Tensor) -> FuzzySet:
        return Negated(self.part.moved(relation_BD))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """The tables that names are looked up in: [E, D], [C, D] and [2R, D]."""

    entities_ED: Tensor
    concepts_CD: Tensor
    relations_RD: Tensor

    def entity(self, ids: Tensor) -> Tensor:
        """[..., D]"""
        return torch.nn.functional.embedding(ids, self.entities_ED)

    def concept(self, ids: Tensor) -> Tensor:
        """[..., D]; the concept of all entities, whose id is negative, has the zero vector."""
        found = torch.nn.functional.embedding(ids.clamp_min(0), self.concepts_CD)
        return found * (ids >= 0).to(found.dtype)[..., None]

    def relation(self, ids: Tensor) -> Tensor:
        """[..., D] of directed relations."""
        return torch.nn.functional.embedding(ids, self.relations_RD)


@final
@dataclass(frozen=True, slots=True, eq=False)
class FuzzyAlgebra(SixNodes):
    """The meaning of a query as a fuzzy set (Section 3.2), for a batch whose ids `columns` holds by placeholder."""

    columns: Columns
    embeddings: Embeddings
    logic: Logic

    def entity(self, name: str) -> FuzzySet:
        ids_B = self.columns[name]
        return Singleton(self.embeddings.entity(ids_B), ids_B)

    def concept(self, name: str) -> FuzzySet:
        ids_B = self.columns[name]
        return ConceptMembers(self.embeddings.concept(ids_B), ids_B)

    def exists(self, relation: str, direction: Direction, operand: FuzzySet) -> FuzzySet:  # noqa: ARG002
        return operand.moved(self.embeddings.relation(self.columns[relation]))

    def intersection(self, operands: Sequence[FuzzySet]) -> FuzzySet:
        return Combined(operands, self.logic.intersection)

    def union(self, operands: Sequence[FuzzySet]) -> FuzzySet:
        return Combined(operands, self.logic.union)

    def complement(self, operand: FuzzySet) -> FuzzySet:
        return Negated(operand)
