"""ConE: a query is a cone in every dimension (Zhang et al. 2021).

A cone of the plane has an axis, an angle in [-pi, pi], and reaches the *half aperture* h in [0, pi] to both sides of it
(the paper's aperture is 2h); an entity is a cone without width. A relation is a network from one cone to another. The
axis of an intersection is the direction of a weighted mean of the operands' unit vectors (SemanticAverage), its half
aperture the least of theirs made smaller by a gate (CardMin); the complement turns the axis round and takes what is
left of the circle. Chords measure the distance of an entity at the angle e from a cone with axis a:

    outside = min(|sin((e - (a - h)) / 2)|, |sin((e - (a + h)) / 2)|), 0 within the cone;
    inside = min(|sin((e - a) / 2)|, |sin(h / 2)|);    score = gamma - m (|outside|_1 + cen |inside|_1),

with a learnt number m. With u = (e - a) / 2 and w = h / 2 in [0, pi / 2] the first is
max(|sin u| cos w - |cos u| sin w, 0), and the second min(|sin u|, sin w): no case has to be told apart
(`tarbox.models.pairs`).

Shape letters: B queries, K candidates per query, N nodes, D dimension, O operands of an intersection.
"""

# ruff: noqa: N803, N806, N815 (shape suffixes)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
from tarbox.models.pairs import cone_distances, cone_pairs
from tarbox.models.perceptron import STARTS, Perceptron, check_start
from tarbox.models.sets import widen
from tarbox.models.sharing import shared
from tarbox.models.translation import xavier
from tarbox.query.algebra import Direction, Query

_LEAST_COSINE: Final = 1e-3
"""A mean of unit vectors may have no length, and so no direction; the published code takes this for its cosine then."""
_NARROW: Final = -0.6
"""What a projection that begins near the identity gives for every aperture: h is then a quarter."""
_CHORD: Final = 0.6
"""About the mean chord of two random angles: by it the distance of a random entity begins at gamma."""


@final
@dataclass(frozen=True, slots=True)
class ConeConfig:
    """The settings of `Cone`; the defaults are the paper's for FB15k-237, but for `start`.

    `margin` is gamma, `inside` is cen: the share that a distance within the cone counts. `hidden` and `layers` are the
    projection network's. `start` says what a projection begins as: a random network, or one that leaves the axis nearly
    as it is and makes a narrow cone (docs/baselines.md).
    """

    dimension: int = 800
    margin: float = 30.0
    inside: float = 0.02
    hidden: int = 1600
    layers: int = 2
    start: str = "random"

    def __post_init__(self) -> None:
        check_settings(self, {"start": STARTS}, ("dimension", "margin", "hidden", "layers"))
        if not 0 <= self.inside < 1:
            raise ConfigError(f"inside = {self.inside}: it must be at least 0 and below 1")
        check_start(self.start, self.hidden, self.dimension, "axes")


class Cones(NamedTuple):
    """The cones of a batch: axes in [-pi, pi] and half apertures in [0, pi]."""

    axis_BD: Tensor
    half_BD: Tensor


@final
class Cone(EntityModel):
    """All queries over entities, as cones; unions are alternatives (DNF), the better of the paper's two.

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
        size = config.dimension
        self.entities = nn.Parameter(torch.empty(max(sizes.entities, 1), size).uniform_(-1, 1))
        self.relations = nn.Parameter(torch.empty(sizes.directed, 2 * size).uniform_(-1, 1))
        self.log_modulus = nn.Parameter(torch.tensor([config.margin / (_CHORD * size)]).log())
        self.projection = Perceptron(2 * size, config.hidden, config.layers, 2 * size)
        self.intersection = ConeIntersection(size)
        if config.start == "identity":
            self._begin_near_identity()

    def score(self, shape: Query, ids_BS: Tensor, nodes: slice) -> Tensor:
        """[B, N] of the nearest alternative."""
        with torch.no_grad():
            angles_ND, inside = angles(self.entities[nodes]), self.config.inside
            near = [cone_distances(cones, angles_ND, inside) for cones in self.cones(shape, ids_BS)]
            return self.config.margin - self.log_modulus.exp() * least(near)

    def score_candidates(self, shape: Query, ids_BS: Tensor, candidates_BK: Tensor) -> Tensor:
        """[B, K]"""
        angles_ND = shared(self, "angles", lambda: angles(self.entities))
        cones, inside = self.cones(shape, ids_BS), self.config.inside
        near = [cone_pairs(one, angles_ND, candidates_BK, inside) for one in cones]
        return self.config.margin - self.log_modulus.exp() * least(near)

    def cones(self, shape: Query, ids_BS: Tensor) -> tuple[Cones, ...]:
        """The cones of each alternative."""
        return evaluate(shape, Alternatives(_Cones(self, columns(shape, ids_BS))))

    def project(self, cones: Cones, relations_B: Tensor) -> Cones:
        """The cones that relations lead to: turned and widened by the relation's angles, then by the network."""
        turned_BF = angles(functional.embedding(relations_B, self.relations))
        axis_BD, half_BD = self.projection(torch.cat(cones, -1) + turned_BF).chunk(2, -1)
        return Cones(pi * torch.tanh(axis_BD), pi / 2 * (torch.tanh(2 * half_BD) + 1))

    def _begin_near_identity(self) -> None:
        """A rectifier passes the positive part of an axis; a second one the negative part, turned round."""
        size = self.config.dimension
        both = torch.cat([torch.eye(size), -torch.eye(size)])
        into = torch.cat([both, torch.zeros_like(both)], 1)
        out = torch.cat([both.T / pi, torch.zeros_like(both.T)])
        bias = torch.cat([torch.zeros(size), torch.full((size,), _NARROW)])
        self.projection.begin_near(into, out, bias, noise=0.1)


def angles(values: Tensor) -> Tensor:
    """Angles in [-pi, pi] from values without bounds."""
    return pi * torch.tanh(values)


@final
class ConeIntersection(nn.Module):
    """SemanticAverage of the axes and CardMin of the half apertures; both look at where cones begin and end."""

    def __init__(self, size: int) -> None:
        super().__init__()
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
        return Cones(torch.atan2(sine_BD, cosine_BD), halves_OBD.amin(0) * gate_BD)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Cones:
    """The meaning of the nodes as cones."""

    model: Cone
    columns: Columns

    def entity(self, name: str) -> Cones:
        axis_BD = angles(functional.embedding(self.columns[name], self.model.entities))
        return Cones(axis_BD, torch.zeros_like(axis_BD))

    def exists(self, relation: str, direction: Direction, operand: Cones) -> Cones:  # noqa: ARG002
        return self.model.project(operand, self.columns[relation])

    def intersection(self, operands: Sequence[Cones]) -> Cones:
        return self.model.intersection.combine(operands)

    def complement(self, operand: Cones) -> Cones:
        axis_BD = operand.axis_BD
        return Cones(torch.where(axis_BD < 0, axis_BD + pi, axis_BD - pi), pi - operand.half_BD)
