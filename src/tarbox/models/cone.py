"""ConE: a query is a cone in every dimension (Zhang et al. 2021).

A cone of the plane has an axis, an angle in [-pi, pi], and reaches the *half aperture* h in [0, pi] to both sides of it
(the paper's aperture is 2h); an entity is a cone without width. A relation is a network from one cone to another. The
axis of an intersection is the direction of a weighted mean of the operands' unit vectors (SemanticAverage), its half
aperture the least of theirs made smaller by a gate (CardMin); the complement turns the axis round and takes what is
left of the circle. Chords measure the distance of an entity at the angle e from a cone with axis a:

    outside = min(|sin((e - (a - h)) / 2)|, |sin((e - (a + h)) / 2)|), 0 within the cone;
    inside = min(|sin((e - a) / 2)|, |sin(h / 2)|);    score = gamma - m (|outside|_1 + cen |inside|_1),

with a learnt number m. With u = (e - a) / 2 and w = h / 2 in [0, pi / 2] the first is
max(|sin u| cos w - |cos u| sin w, 0), and the second min(|sin u|, sin w): no case has to be told apart.

Shape letters: B queries, K candidates per query, N nodes, D dimension, O operands of an intersection.
"""

# ruff: noqa: N803, N806, N815 (shape suffixes)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import pi
from typing import ClassVar, Final, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from tarbox.core.config import check_settings
from tarbox.core.errors import ConfigError
from tarbox.execution.interpreter import evaluate
from tarbox.models.alternatives import Alternatives, least
from tarbox.models.base import Columns, EntityModel, Sizes, columns
from tarbox.models.gqe import SLACK
from tarbox.models.sets import widen
from tarbox.models.translation import xavier
from tarbox.query.algebra import Direction, Query

_TERMS_AT_A_TIME: Final = 1 << 25
"""Dimensions of pairs held at a time where all entities are scored: a block has as many queries as this allows."""
_LEAST_COSINE: Final = 1e-3
"""A mean of unit vectors may have no length, and so no direction; the published code takes this for its cosine then."""


@final
@dataclass(frozen=True, slots=True)
class ConeConfig:
    """The settings of `Cone`; the defaults are the paper's for FB15k-237.

    `margin` is gamma, `inside` is cen: the share that a distance within the cone counts. `hidden` and `layers` are the
    projection network's. `dropout` is the share of the half apertures that training leaves out of an intersection.
    """

    dimension: int = 800
    margin: float = 30.0
    inside: float = 0.02
    hidden: int = 1600
    layers: int = 2
    dropout: float = 0.1

    def __post_init__(self) -> None:
        check_settings(self, {}, ("dimension", "margin", "hidden", "layers"))
        for name in ("inside", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)}: it must be at least 0 and below 1")


class Cones(NamedTuple):
    """The cones of a batch: axes in [-pi, pi] and half apertures in [0, pi]."""

    axis_BD: Tensor
    half_BD: Tensor


@final
class Cone(EntityModel):
    """All queries over entities, as cones; unions are alternatives (DNF), the better of the paper's two.

    Dropout is applied to half apertures before the least is taken, as in the published code: one that is left out is 0,
    and so is the intersection there.

    >>> from tarbox.query.templates import TEMPLATES
    >>> model = Cone(ConeConfig(dimension=8, hidden=4), Sizes(entities=5, concepts=0, relations=2))
    >>> model.score(TEMPLATES["2in"].shape, torch.tensor([[0, 1, 3, 2]]), slice(0, 5)).shape
    torch.Size([1, 5])
    """

    Config: ClassVar[type[ConeConfig]] = ConeConfig
    recipe: ClassVar[str | None] = "cone"

    def __init__(self, config: ConeConfig, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.config = config
        self.bound: Final = (config.margin + SLACK) / config.dimension
        heights = max(sizes.entities, 1), sizes.directed, sizes.directed
        self.entities, self.axes, self.widths = (
            nn.Parameter(torch.empty(height, config.dimension).uniform_(-self.bound, self.bound)) for height in heights
        )
        self.modulus = nn.Parameter(torch.tensor([0.5 * self.bound]))
        self.projection = ConeProjection(config)
        self.intersection = ConeIntersection(config)

    def score(self, shape: Query, ids_BS: Tensor, nodes: slice) -> Tensor:
        """[B, N] of the nearest alternative, a block of queries at a time."""
        with torch.no_grad():
            angles_ND = self.angles(self.entities[nodes])
            rows = max(1, _TERMS_AT_A_TIME // max(angles_ND.numel(), 1))
            near = [
                torch.cat(
                    [
                        self._distances(angles_ND[None], Cones(*part))
                        for part in zip(*(torch.split(side, rows) for side in cones), strict=True)
                    ]
                )
                for cones in self.cones(shape, ids_BS)
            ]
            return self.config.margin - self.modulus * least(near)

    def score_candidates(self, shape: Query, ids_BS: Tensor, candidates_BK: Tensor) -> Tensor:
        """[B, K]"""
        angles_BKD = self.angles(functional.embedding(candidates_BK, self.entities))
        near = [self._distances(angles_BKD, cones) for cones in self.cones(shape, ids_BS)]
        return self.config.margin - self.modulus * least(near)

    def cones(self, shape: Query, ids_BS: Tensor) -> tuple[Cones, ...]:
        """The cones of each alternative."""
        return evaluate(shape, Alternatives(_Algebra(self, columns(shape, ids_BS))))

    def angles(self, values: Tensor) -> Tensor:
        """Axes from values without bounds."""
        return pi * torch.tanh(values / self.bound)

    def _distances(self, angles_BND: Tensor, cones: Cones) -> Tensor:
        """[B, N] of entities at these angles [B or 1, N, D]."""
        turned = (angles_BND - cones.axis_BD[:, None]) / 2
        half_B1D = cones.half_BD[:, None] / 2
        height, sine = torch.sin(turned).abs(), torch.sin(half_B1D)
        outside = (height * torch.cos(half_B1D) - torch.cos(turned).abs() * sine).relu()
        return (outside + self.config.inside * torch.minimum(height, sine)).sum(-1)


@final
class ConeProjection(nn.Module):
    """The cone that a relation leads to: a network over the cone, turned and widened by the relation's vectors."""

    def __init__(self, config: ConeConfig) -> None:
        super().__init__()
        widths = [2 * config.dimension] + [config.hidden] * config.layers
        self.inner = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(widths))
        self.outer = nn.Linear(config.hidden, 2 * config.dimension)
        xavier(self)

    def forward(self, cones: Cones, axes_BD: Tensor, widths_BD: Tensor) -> Cones:
        found = torch.cat([cones.axis_BD + axes_BD, cones.half_BD + widths_BD], -1)
        for layer in self.inner:
            found = torch.relu(layer(found))
        axis_BD, half_BD = widen(self.outer(found)).chunk(2, -1)
        return Cones(pi * torch.tanh(axis_BD), pi / 2 * (torch.tanh(2 * half_BD) + 1))


@final
class ConeIntersection(nn.Module):
    """SemanticAverage of the axes and CardMin of the half apertures; both look at where cones begin and end."""

    def __init__(self, config: ConeConfig) -> None:
        super().__init__()
        self.dropout, size = config.dropout, config.dimension
        self.axis_inner, self.gate_inner = nn.Linear(2 * size, size), nn.Linear(2 * size, size)
        self.axis_outer = nn.Linear(size, size, bias=False)  # a bias would cancel in the softmax
        self.gate_outer = nn.Linear(size, size)
        xavier(self)

    def combine(self, operands: Sequence[Cones]) -> Cones:
        axes_OBD = torch.stack([cones.axis_BD for cones in operands])
        halves_OBD = torch.stack([cones.half_BD for cones in operands])
        ends_OBF = torch.cat([axes_OBD - halves_OBD, axes_OBD + halves_OBD], -1)
        weights_OBD = widen(self.axis_outer(torch.relu(self.axis_inner(ends_OBF)))).softmax(0)
        cosine_BD, sine_BD = ((weights_OBD * part).sum(0) for part in (torch.cos(axes_OBD), torch.sin(axes_OBD)))
        cosine_BD = torch.where(cosine_BD.abs() < _LEAST_COSINE, _LEAST_COSINE, cosine_BD)
        gate_BD = torch.sigmoid(widen(self.gate_outer(torch.relu(self.gate_inner(ends_OBF)).mean(0))))
        kept_OBD = functional.dropout(halves_OBD, self.dropout, self.training and torch.is_grad_enabled())
        return Cones(torch.atan2(sine_BD, cosine_BD), kept_OBD.amin(0) * gate_BD)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Algebra:
    """The meaning of the nodes as cones."""

    model: Cone
    columns: Columns

    def entity(self, name: str) -> Cones:
        axis_BD = self.model.angles(functional.embedding(self.columns[name], self.model.entities))
        return Cones(axis_BD, torch.zeros_like(axis_BD))

    def exists(self, relation: str, direction: Direction, operand: Cones) -> Cones:  # noqa: ARG002
        tables = self.model.axes, self.model.widths
        turned = (self.model.angles(functional.embedding(self.columns[relation], table)) for table in tables)
        found: Cones = self.model.projection(operand, *turned)
        return found

    def intersection(self, operands: Sequence[Cones]) -> Cones:
        return self.model.intersection.combine(operands)

    def complement(self, operand: Cones) -> Cones:
        axis_BD = operand.axis_BD
        return Cones(torch.where(axis_BD < 0, axis_BD + pi, axis_BD - pi), pi - operand.half_BD)
