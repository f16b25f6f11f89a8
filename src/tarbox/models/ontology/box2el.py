"""Box2EL: concepts and relations are boxes (Jackermeier et al. 2024).

A concept is a box (centre, offset) and has a *bump*, a vector by which it moves what it is linked with; an entity is a
box without extent and has a bump, too. A relation has a head box and a tail box. With

    A in B  :=  |max(0, |c_A - c_B| + o_A - o_B - margin)|

the gaps are

    C ⊑ D            C in D                               C ⊓ D ⊑ E     the intersection of C and D in E
    C ⊑ ∃r.D         (C + bump D in head r + D + bump C in tail r) / 2
    ∃r.C ⊑ D         (head r - bump C) in D               C ⊓ D ⊑ ⊥     |max(0, o_C + o_D - |c_C - c_D| + margin)|
    r ⊑ s            (head r in head s + tail r in tail s) / 2
    r ∘ s ⊑ t        (head r in head t + tail s in tail t) / 2

A gap costs its square, that of a false row the square of what it lacks of `distance`; bumps cost their length times
`bumps`. The paper draws false rows of C ⊑ ∃r.D alone; here typings and subsumptions have them, too, as in ELEm.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, NamedTuple, final

import torch
from torch import Tensor
from torch.nn import functional

from tarbox.core.config import check_settings
from tarbox.kb.normal_forms import NormalForm
from tarbox.models.base import Sizes
from tarbox.models.ontology.elem import length
from tarbox.models.ontology.forms import Gap, NormalFormModel, mean_of


@final
@dataclass(frozen=True, slots=True)
class Box2ElConfig:
    """`margin` is gamma, `distance` delta, `bumps` lambda; `answers` of a query are compared at most."""

    dimension: int = 100
    margin: float = 0.05
    distance: float = 2.0
    bumps: float = 0.05
    answers: int = 32

    def __post_init__(self) -> None:
        check_settings(self, {}, ("dimension", "distance", "answers"))


class Region(NamedTuple):
    """Centres and offsets [.., D]; offsets are not negative."""

    centre: Tensor
    offset: Tensor

    def moved(self, by: Tensor) -> Region:
        return Region(self.centre + by, self.offset)


@final
class Box2El(NormalFormModel):
    """Boxes and bumps: a node has a centre, an offset and a bump, a relation two centres and two offsets."""

    Config: ClassVar[type[Box2ElConfig]] = Box2ElConfig
    recipe: ClassVar[str | None] = "ontology"

    def __init__(self, config: Box2ElConfig, sizes: Sizes) -> None:
        super().__init__(sizes, config.answers, (3 * config.dimension, 4 * config.dimension))
        self.config = config

    def points(self) -> Tensor:
        return self.nodes[: self.sizes.entities, : self.config.dimension]

    def cost(self, own_B1: Tensor, others_BM: Tensor, valid_BM: Tensor) -> Tensor:
        missing_BM = self.config.distance - others_BM
        return own_B1.squeeze(1).square() + mean_of(missing_BM.square(), valid_BM)

    def regularization(self, nodes_BN: Tensor) -> Tensor:
        return self.config.bumps * length(self.bump(nodes_BN)).mean()

    def node(self, nodes: Tensor) -> tuple[Region, Tensor]:
        """(boxes, bumps)"""
        centre, offset, bump = functional.embedding(nodes, self.nodes).chunk(3, -1)
        return Region(centre, offset.abs() * (nodes >= self.sizes.entities)[..., None]), bump

    def box(self, nodes: Tensor) -> Region:
        return self.node(nodes)[0]

    def bump(self, nodes: Tensor) -> Tensor:
        return self.node(nodes)[1]

    def ends(self, relations: Tensor) -> tuple[Region, Region]:
        """(head boxes, tail boxes)"""
        a, b, c, d = functional.embedding(relations, self.relations).chunk(4, -1)
        return Region(a, b.abs()), Region(c, d.abs())

    def within(self, inner: Region, outer: Region) -> Tensor:
        apart = (inner.centre - outer.centre).abs() + inner.offset - outer.offset
        return length(functional.relu(apart - self.config.margin))

    def inside(self, lower: Tensor, upper: Tensor) -> Tensor:
        return self.within(self.box(lower), self.box(upper))

    def linked(self, relation: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        (head, tail), (low, of_low), (high, of_high) = self.ends(relation), self.node(lower), self.node(upper)
        return (self.within(low.moved(of_high), head) + self.within(high.moved(of_low), tail)) / 2

    def filled(self, relation: Tensor, filler: Tensor, upper: Tensor) -> Tensor:
        return self.within(self.ends(relation)[0].moved(-self.bump(filler)), self.box(upper))

    def joined(self, one: Tensor, other: Tensor, upper: Tensor) -> Tensor:
        first, second = self.box(one), self.box(other)
        low = torch.maximum(first.centre - first.offset, second.centre - second.offset)
        high = torch.minimum(first.centre + first.offset, second.centre + second.offset)
        return self.within(Region((low + high) / 2, (high - low).relu() / 2), self.box(upper))

    def overlapping(self, one: Tensor, other: Tensor) -> Tensor:
        first, second = self.box(one), self.box(other)
        shared = first.offset + second.offset - (first.centre - second.centre).abs()
        return length(functional.relu(shared + self.config.margin))

    def included(self, lower: Tensor, upper: Tensor) -> Tensor:
        return self.chained(lower, lower, upper)

    def chained(self, first: Tensor, second: Tensor, upper: Tensor) -> Tensor:
        head, tail = self.ends(upper)
        return (self.within(self.ends(first)[0], head) + self.within(self.ends(second)[1], tail)) / 2

    gaps: ClassVar[Mapping[NormalForm, Gap]] = MappingProxyType(
        {
            NormalForm.TYPING: inside,
            NormalForm.SUBSUMPTION: inside,
            NormalForm.ASSERTION: linked,
            NormalForm.LINK: linked,
            NormalForm.FILLER: filled,
            NormalForm.CONJUNCTION: joined,
            NormalForm.DISJOINT: overlapping,
            NormalForm.INCLUSION: included,
            NormalForm.CHAIN: chained,
        }
    )
