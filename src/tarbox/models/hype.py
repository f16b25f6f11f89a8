"""HypE: a query is a hyperboloid, a box of hyperbolic space (Choudhary et al. 2021).

Entities, and the centre and limit of a query, are points of the Poincare ball. Moebius addition takes the place of
Query2box's: a relation adds a point to the centre and one to the limit, and the query reaches from centre - limit to
centre + limit. An intersection is taken where the ball is flat, at the origin: the centre is a mean under learnt
attention, the limit the least of the operands' made smaller by a gate. With b the point of the query nearest to an
entity e, coordinate by coordinate, and the hyperbolic distance d,

    score of e = gamma - m (d(e, b) + alpha d(centre, b)),
    d(x, y) = arcosh(1 + 2 |x - y|^2 / ((1 - |x|^2)(1 - |y|^2))),

with a learnt number m, as a distance in the ball is no sum over dimensions that a margin could be made for.

Shape letters: B queries, K candidates per query, N nodes, D dimension, O operands of an intersection.
"""

# ruff: noqa: N803, N806, N815 (shape suffixes)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from tarbox.execution.interpreter import evaluate
from tarbox.models.alternatives import Alternatives, Conjunctive, least
from tarbox.models.base import BEYOND_SETS, Columns, EntityModel, Sizes, columns
from tarbox.models.q2b import OffsetGate, Q2bConfig
from tarbox.models.translation import InvariantAttention
from tarbox.query.algebra import Direction, Not, Query

_TERMS_AT_A_TIME: Final = 1 << 25
"""Dimensions of pairs held at a time where all entities are scored."""
_EDGE: Final = 1e-5
"""How near the edge of the ball a point may be: nearer, single precision cannot tell it from the edge."""
_TINY: Final = 1e-12
_RADIUS: Final = 0.7
"""The length of an entity's tangent vector at the beginning; d between two of them is about twice that, times 1.4."""


class Hyperboloid(NamedTuple):
    """Points of the ball: centres, and limits."""

    centre_BD: Tensor
    limit_BD: Tensor


@final
class HypE(EntityModel):
    """Queries without negation, as hyperboloids; settings as Query2box's. Parameters are tangent vectors at the origin.

    >>> from tarbox.query.templates import TEMPLATES
    >>> model = HypE(Q2bConfig(dimension=8), Sizes(entities=5, concepts=0, relations=2))
    >>> model.score(TEMPLATES["2i"].shape, torch.tensor([[0, 1, 3, 2]]), slice(0, 5)).shape
    torch.Size([1, 5])
    """

    Config: ClassVar[type[Q2bConfig]] = Q2bConfig
    recipe: ClassVar[str | None] = "hype"
    lacks: frozenset[type[Any]] = BEYOND_SETS | {Not}

    def __init__(self, config: Q2bConfig, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.config = config
        size, bound = config.dimension, _RADIUS * (3 / config.dimension) ** 0.5
        self.entities = nn.Parameter(torch.empty(max(sizes.entities, 1), size).uniform_(-bound, bound))
        self.relations = nn.Parameter(torch.empty(sizes.directed, size).uniform_(-bound, bound))
        self.limits = nn.Parameter(torch.empty(sizes.directed, size).uniform_(0, bound / 10))
        self.log_scale = nn.Parameter(torch.tensor([config.margin / (2.8 * _RADIUS)]).log())
        self.attention = InvariantAttention(size)
        self.gate = OffsetGate(size)

    def score(self, shape: Query, ids_BS: Tensor, nodes: slice) -> Tensor:
        """[B, N] of the nearest alternative, a block of queries at a time."""
        with torch.no_grad():
            points_1ND = to_ball(self.entities[nodes])[None]
            block = max(1, _TERMS_AT_A_TIME // max(points_1ND.numel(), 1))
            near = []
            for query in self.hyperboloids(shape, ids_BS):
                parts = zip(*(torch.split(side, block) for side in query), strict=True)
                near.append(torch.cat([self._distances(points_1ND, Hyperboloid(*part)) for part in parts]))
            return self._scores(near)

    def score_candidates(self, shape: Query, ids_BS: Tensor, candidates_BK: Tensor) -> Tensor:
        """[B, K]"""
        points_BKD = to_ball(functional.embedding(candidates_BK, self.entities))
        return self._scores([self._distances(points_BKD, query) for query in self.hyperboloids(shape, ids_BS)])

    def hyperboloids(self, shape: Query, ids_BS: Tensor) -> tuple[Hyperboloid, ...]:
        """Those of each alternative."""
        return evaluate(shape, Alternatives(_Hyperboloids(self, columns(shape, ids_BS))))

    def _distances(self, points_BND: Tensor, query: Hyperboloid) -> Tensor:
        """[B, N] of these points [B or 1, N, D]."""
        ends = [add(query.centre_BD, sign * query.limit_BD)[:, None] for sign in (-1.0, 1.0)]
        nearest_BND = torch.maximum(torch.minimum(points_BND, torch.maximum(*ends)), torch.minimum(*ends))
        outside = distance(points_BND, nearest_BND)
        return outside + self.config.inside * distance(query.centre_BD[:, None], nearest_BND)

    def _scores(self, distances: Sequence[Tensor]) -> Tensor:
        return self.config.margin - self.log_scale.exp() * least(distances)


def to_ball(tangent: Tensor) -> Tensor:
    """[..., D] the point of the ball that a tangent vector at the origin leads to."""
    length = tangent.square().sum(-1, keepdim=True).add(_TINY).sqrt()
    return tangent * (torch.tanh(length).clamp_max(1 - _EDGE) / length)


def from_ball(points: Tensor) -> Tensor:
    """[..., D] the tangent vector at the origin that leads to a point: the inverse of `to_ball`."""
    length = points.square().sum(-1, keepdim=True).add(_TINY).sqrt()
    return points * (torch.atanh(length.clamp_max(1 - _EDGE)) / length)


def add(x: Tensor, y: Tensor) -> Tensor:
    """[..., D] Moebius addition, kept off the edge of the ball."""
    product = (x * y).sum(-1, keepdim=True)
    of_x, of_y = x.square().sum(-1, keepdim=True), y.square().sum(-1, keepdim=True)
    found = ((1 + 2 * product + of_y) * x + (1 - of_x) * y) / (1 + 2 * product + of_x * of_y).clamp_min(_EDGE)
    length = found.square().sum(-1, keepdim=True).add(_TINY).sqrt()
    return found * (length.clamp_max(1 - _EDGE) / length)


def distance(x: Tensor, y: Tensor) -> Tensor:
    """[...] the hyperbolic distance; arcosh(1 + z) = log(1 + z + sqrt(z (z + 2))), which is exact for small z."""
    room = ((1 - x.square().sum(-1)) * (1 - y.square().sum(-1))).clamp_min(_EDGE * _EDGE)
    z = 2 * (x - y).square().sum(-1) / room
    return torch.log1p(z + (z * (z + 2) + _TINY).sqrt())


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Hyperboloids(Conjunctive[Hyperboloid]):
    """The meaning of the nodes as hyperboloids."""

    model: HypE
    columns: Columns

    def entity(self, name: str) -> Hyperboloid:
        centre_BD = to_ball(functional.embedding(self.columns[name], self.model.entities))
        return Hyperboloid(centre_BD, torch.zeros_like(centre_BD))

    def exists(self, relation: str, direction: Direction, operand: Hyperboloid) -> Hyperboloid:  # noqa: ARG002
        tables = self.model.relations, self.model.limits
        moves = (to_ball(functional.embedding(self.columns[relation], table)) for table in tables)
        return Hyperboloid(*(add(part, move) for part, move in zip(operand, moves, strict=True)))

    def intersection(self, operands: Sequence[Hyperboloid]) -> Hyperboloid:
        centres_OBD = from_ball(torch.stack([one.centre_BD for one in operands]))
        limits_OBD = from_ball(torch.stack([one.limit_BD for one in operands]))
        combined = self.model.attention.combine(centres_OBD), self.model.gate.combine(limits_OBD)
        return Hyperboloid(*map(to_ball, combined))
