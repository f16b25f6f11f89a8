"""Query2box: a query is a box (Ren, Hu and Leskovec 2020).

A box has a centre and an offset, a half width of at least 0 in every dimension; an entity is a box of no width. A
relation moves the centre and widens the box. The centre of an intersection is a mean under learnt attention, its offset
the least of the operands' made smaller by a gate. An entity is near a box if it is near its inside: distances count in
full outside of it and by a share alpha within.

Shape letters: B queries, K candidates per query, N nodes, D dimension, O operands of an intersection.
"""

# ruff: noqa: N803, N806, N815 (shape suffixes)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from tarbox.core.config import check_settings
from tarbox.core.errors import ConfigError
from tarbox.execution.interpreter import evaluate
from tarbox.models.alternatives import Alternatives, Conjunctive, least
from tarbox.models.base import BEYOND_SETS, Columns, EntityModel, Sizes, columns
from tarbox.models.gqe import SLACK
from tarbox.models.pairs import box_distances, box_pairs
from tarbox.models.translation import InvariantAttention, xavier
from tarbox.query.algebra import Direction, Not, Query


@final
@dataclass(frozen=True, slots=True)
class Q2bConfig:
    """The settings of `Q2b` and `HypE`; the defaults are those of the BetaE paper's comparison.

    `margin` is gamma, `inside` is alpha: the share that a distance within the box counts.
    """

    dimension: int = 400
    margin: float = 24.0
    inside: float = 0.02

    def __post_init__(self) -> None:
        check_settings(self, {}, ("dimension", "margin"))
        if not 0 <= self.inside <= 1:
            raise ConfigError(f"inside = {self.inside}: it must be between 0 and 1")


class Box(NamedTuple):
    """The boxes of a batch: centres and half widths, which are 0 or more."""

    centre_BD: Tensor
    offset_BD: Tensor


@final
class Q2b(EntityModel):
    """Queries without negation, as boxes.

    >>> from tarbox.query.templates import TEMPLATES
    >>> model = Q2b(Q2bConfig(dimension=8), Sizes(entities=5, concepts=0, relations=2))
    >>> model.score(TEMPLATES["2i"].shape, torch.tensor([[0, 1, 3, 2]]), slice(0, 5)).shape
    torch.Size([1, 5])
    """

    Config: ClassVar[type[Q2bConfig]] = Q2bConfig
    recipe: ClassVar[str | None] = "q2b"
    lacks: frozenset[type[Any]] = BEYOND_SETS | {Not}

    def __init__(self, config: Q2bConfig, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.config = config
        bound = (config.margin + SLACK) / config.dimension
        self.entities = nn.Parameter(torch.empty(max(sizes.entities, 1), config.dimension).uniform_(-bound, bound))
        self.relations = nn.Parameter(torch.empty(sizes.directed, config.dimension).uniform_(-bound, bound))
        self.widths = nn.Parameter(torch.empty(sizes.directed, config.dimension).uniform_(0, bound))
        self.attention = InvariantAttention(config.dimension)
        self.gate = OffsetGate(config.dimension)

    def score(self, shape: Query, ids_BS: Tensor, nodes: slice) -> Tensor:
        """[B, N] gamma less the distance from the nearest alternative."""
        with torch.no_grad():
            near = [box_distances(box, self.entities[nodes], self.config.inside) for box in self.boxes(shape, ids_BS)]
            return self.config.margin - least(near)

    def score_candidates(self, shape: Query, ids_BS: Tensor, candidates_BK: Tensor) -> Tensor:
        """[B, K]"""
        boxes = self.boxes(shape, ids_BS)
        near = [box_pairs(box, self.entities, candidates_BK, self.config.inside) for box in boxes]
        return self.config.margin - least(near)

    def boxes(self, shape: Query, ids_BS: Tensor) -> tuple[Box, ...]:
        """The box of each alternative."""
        return evaluate(shape, Alternatives(_Boxes(self, columns(shape, ids_BS))))


@final
class OffsetGate(nn.Module):
    """The offset of an intersection: the least of the operands', times sigma(DeepSets of them), which is below 1."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.inner = nn.Linear(dimension, dimension)
        self.outer = nn.Linear(dimension, dimension)
        xavier(self)

    def combine(self, offsets_OBD: Tensor) -> Tensor:
        """[B, D]"""
        gate_BD = torch.sigmoid(self.outer(torch.relu(self.inner(offsets_OBD)).mean(0)))
        return offsets_OBD.amin(0) * gate_BD


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Boxes(Conjunctive[Box]):
    """The meaning of the nodes as boxes."""

    model: Q2b
    columns: Columns

    def entity(self, name: str) -> Box:
        centre_BD = functional.embedding(self.columns[name], self.model.entities)
        return Box(centre_BD, torch.zeros_like(centre_BD))

    def exists(self, relation: str, direction: Direction, operand: Box) -> Box:  # noqa: ARG002
        ids_B = self.columns[relation]
        # The absolute value keeps widths from below 0, where the published code lets them go (docs/baselines.md).
        width_BD = functional.embedding(ids_B, self.model.widths).abs()
        return Box(operand.centre_BD + functional.embedding(ids_B, self.model.relations), operand.offset_BD + width_BD)

    def intersection(self, operands: Sequence[Box]) -> Box:
        centres_OBD = torch.stack([box.centre_BD for box in operands])
        offsets_OBD = torch.stack([box.offset_BD for box in operands])
        return Box(self.model.attention.combine(centres_OBD), self.model.gate.combine(offsets_OBD))
