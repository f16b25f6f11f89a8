"""ELEm: concepts are balls (Kulmanov et al. 2019, EL Embeddings).

A concept is a ball with a centre and a radius, an entity a point (a ball of radius 0), a relation a vector:

    C ⊑ D            |c - d| + r_C - r_D                 the ball of C lies in that of D
    C ⊑ ∃r.D         |c + v_r - d| + r_C - r_D           so does it when moved
    ∃r.C ⊑ D         |c - v_r - d| - r_C - r_D           the ball of C, moved back, meets that of D
    C ⊓ D ⊑ E        |c - d| - r_C - r_D, |c - e| - r_C, |d - e| - r_D, min(r_C, r_D) - r_E
    C ⊓ D ⊑ ⊥        r_C + r_D - |c - d|

A gap costs what it has above `margin`; that of a false row what it lacks of `margin`. Centres keep to the unit sphere.
The paper draws false rows of C ⊑ ∃r.D alone, whose balls are to be apart. Typings and subsumptions have them here, too:
what is ranked by membership must learn what is no member.
"""

# ruff: noqa: N803 (shape suffixes)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final, final

import torch
from torch import Tensor
from torch.nn import functional

from tarbox.core.config import check_settings
from tarbox.kb.normal_forms import NormalForm
from tarbox.models.base import Sizes
from tarbox.models.ontology.forms import Gap, NormalFormModel, mean_of


@final
@dataclass(frozen=True, slots=True)
class BallConfig:
    """`margin` is gamma; `answers` of a query are compared at most."""

    dimension: int = 100
    margin: float = 0.1
    answers: int = 32

    def __post_init__(self) -> None:
        check_settings(self, {}, ("dimension", "answers"))


def ball(model: NormalFormModel, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Centres and radii; an entity has none. One look into the table: its gradient is as large as the table."""
    rows = functional.embedding(nodes, model.nodes)
    return rows[..., :-1], rows[..., -1].abs() * (nodes >= model.sizes.entities)


def vector(model: NormalFormModel, relations: Tensor) -> Tensor:
    return functional.embedding(relations, model.relations)


def length(vectors: Tensor) -> Tensor:
    """The Euclidean norm, whose gradient at 0 is 0."""
    return (vectors.square().sum(-1) + 1e-12).sqrt()


def inside(model: NormalFormModel, lower: Tensor, upper: Tensor) -> Tensor:
    (c, r), (d, s) = ball(model, lower), ball(model, upper)
    return length(c - d) + r - s


def linked(model: NormalFormModel, relation: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    (c, r), (d, s) = ball(model, lower), ball(model, upper)
    return length(c + vector(model, relation) - d) + r - s


def meeting(model: NormalFormModel, relation: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """What is to be great where a false row says that the moved ball of `lower` lies in that of `upper`."""
    (c, r), (d, s) = ball(model, lower), ball(model, upper)
    return length(c + vector(model, relation) - d) - r - s


def filled(model: NormalFormModel, relation: Tensor, filler: Tensor, upper: Tensor) -> Tensor:
    (c, r), (d, s) = ball(model, filler), ball(model, upper)
    return length(c - vector(model, relation) - d) - r - s


def joined(model: NormalFormModel, one: Tensor, other: Tensor, upper: Tensor) -> Tensor:
    """The four gaps of a conjunction, each as far as it is one."""
    (c, r), (d, s), (e, t) = (ball(model, nodes) for nodes in (one, other, upper))
    parts = (length(c - d) - r - s, length(c - e) - r, length(d - e) - s, torch.minimum(r, s) - t)
    return torch.stack(parts).relu().sum(0)


def overlapping(model: NormalFormModel, one: Tensor, other: Tensor) -> Tensor:
    (c, r), (d, s) = ball(model, one), ball(model, other)
    return r + s - length(c - d)


BALLS: Final[Mapping[NormalForm, Gap]] = MappingProxyType(
    {
        NormalForm.TYPING: inside,
        NormalForm.SUBSUMPTION: inside,
        NormalForm.ASSERTION: linked,
        NormalForm.LINK: linked,
        NormalForm.FILLER: filled,
        NormalForm.CONJUNCTION: joined,
        NormalForm.DISJOINT: overlapping,
    }
)


class BallModel(NormalFormModel):
    """What the models with balls share: all but the forms that they learn."""

    Config: ClassVar[type[BallConfig]] = BallConfig
    recipe: ClassVar[str | None] = "ontology"
    against: ClassVar[Mapping[NormalForm, Gap]] = {NormalForm.LINK: meeting}

    def __init__(self, config: BallConfig, sizes: Sizes) -> None:
        super().__init__(sizes, config.answers, (config.dimension + 1, config.dimension))
        self.config = config

    def points(self) -> Tensor:
        return self.nodes[: self.sizes.entities, :-1]

    def cost(self, own_B1: Tensor, others_BM: Tensor, valid_BM: Tensor) -> Tensor:
        margin = self.config.margin
        return functional.relu(own_B1 - margin).squeeze(1) + mean_of(functional.relu(margin - others_BM), valid_BM)

    def regularization(self, nodes_BN: Tensor) -> Tensor:
        return (length(ball(self, nodes_BN)[0]) - 1).abs().mean()


@final
class Elem(BallModel):
    """Balls, without axioms about relations.

    >>> from tarbox.kb.facts import Facts
    >>> from tarbox.kb.vocabulary import Vocabulary
    >>> from tarbox.core.ids import Level
    >>> from tarbox.query.templates import TEMPLATES
    >>> facts = Facts.of(Vocabulary.of(["a", "b"], ["C"], ["p"]), [(0, 0, 1)], [(1, 0)])
    >>> Elem.begin(BallConfig(dimension=4), facts).score(
    ...     TEMPLATES["1p"].shape, torch.tensor([[1, 0]]), Level.CONCEPT
    ... ).shape
    torch.Size([1, 1])
    """

    gaps: ClassVar[Mapping[NormalForm, Gap]] = BALLS
