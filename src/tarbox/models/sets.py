"""Fuzzy sets of entities that have generators (Eq. 6-8), and the algebra that builds them from a query.

A set is an expression; `degrees` gives it a value over a *universe*: all entities, or a few candidates per query. A
relation moves the generators of its operand, through `and`, `or` and `not` (ADR 0009). So every operation is pointwise,
and training an entity answer needs the degrees of its candidates only, never those of all entities.

Shape letters: B queries, D dimension, E entities, K candidates per query, X members of a universe.
"""

# ruff: noqa: N803, N806, N815 (shape suffixes)

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from tarbox.execution.interpreter import Algebra
from tarbox.models.base import Columns
from tarbox.models.fuzzy import Logic, complement
from tarbox.query.algebra import Direction


def widen(products: Tensor) -> Tensor:
    """In single precision at least: what `torch.autocast` made of a matrix product is not added up any further."""
    return products.float() if products.dtype in (torch.bfloat16, torch.float16) else products


@final
@dataclass(frozen=True, slots=True, eq=False)
class Universe:
    """The entities whose degrees are wanted: all of them, `entities` [E, D], the Herbrand universe; or with `ids_BK`
    the candidates of each query, `entities` [B, K, D]. `offset` is added to every similarity before the sigmoid (ADR
    0012).
    """

    entities: Tensor
    offset: float = 0.0
    ids_BK: Tensor | None = None

    def squash(self, vectors_BD: Tensor) -> Tensor:
        """[B, X] sigma of Eq. 6: the degrees of all members in the sets with these generators."""
        if self.ids_BK is None:
            wide = widen(vectors_BD @ self.entities.T)
        else:
            wide = widen(torch.einsum("bd,bkd->bk", vectors_BD, self.entities))
        return torch.sigmoid(wide + self.offset if self.offset else wide)

    def indicator(self, ids_B: Tensor) -> Tensor:
        """[B, X] 1 where the member is the query's entity, 0 elsewhere."""
        members = torch.arange(len(self.entities), device=ids_B.device) if self.ids_BK is None else self.ids_BK
        return (ids_B[:, None] == members).to(self.entities.dtype)


@final
@dataclass(frozen=True, slots=True, eq=False)
class FuzzySet:
    """A fuzzy set of entities for each query of a batch: its degrees [B, X] over a universe, and the set that a
    relation leads to, given the relation's vectors [B, D].
    """

    degrees: Callable[[Universe], Tensor]
    moved: Callable[[Tensor], FuzzySet]


def generated(generator_BD: Tensor, degrees: Callable[[Universe], Tensor] | None = None) -> FuzzySet:
    """Eq. 8: an atomic query, by its generator e + r1 + ... + ri; what a chain begins with has `degrees` of its own."""
    own = degrees or (lambda universe: universe.squash(generator_BD))
    return FuzzySet(own, lambda relation_BD: generated(generator_BD + relation_BD))


def combined(parts: Sequence[FuzzySet], combine: Callable[[Sequence[Tensor]], Tensor]) -> FuzzySet:
    """What a pointwise function makes of some sets: Eq. 9 to 11."""
    return FuzzySet(
        lambda universe: combine([part.degrees(universe) for part in parts]),
        lambda relation_BD: combined([part.moved(relation_BD) for part in parts], combine),
    )


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
class FuzzyAlgebra(Algebra[FuzzySet]):
    """The meaning of a query as a fuzzy set (Section 3.2), for a batch whose ids `columns` holds by placeholder."""

    columns: Columns
    embeddings: Embeddings
    logic: Logic

    def entity(self, name: str) -> FuzzySet:
        """{e}: "a special type of fuzzy set", 1 for one entity and 0 for all others."""
        ids_B = self.columns[name]
        return generated(self.embeddings.entity(ids_B), lambda universe: universe.indicator(ids_B))

    def concept(self, name: str) -> FuzzySet:
        """Eq. 6: the instances of a concept, by its embedding; all entities where the id is negative (`EVERYTHING`)."""
        ids_B = self.columns[name]
        generator_BD = self.embeddings.concept(ids_B)

        def degrees(universe: Universe) -> Tensor:
            own_BX = universe.squash(generator_BD)
            return torch.where(ids_B[:, None] < 0, torch.ones_like(own_BX), own_BX)

        return generated(generator_BD, degrees)

    def exists(self, relation: str, direction: Direction, operand: FuzzySet) -> FuzzySet:  # noqa: ARG002
        return operand.moved(self.embeddings.relation(self.columns[relation]))

    def intersection(self, operands: Sequence[FuzzySet]) -> FuzzySet:
        return combined(operands, self.logic.intersection)

    def union(self, operands: Sequence[FuzzySet]) -> FuzzySet:
        return combined(operands, self.logic.union)

    def complement(self, operand: FuzzySet) -> FuzzySet:
        return combined([operand], lambda degrees: complement(degrees[0]))
