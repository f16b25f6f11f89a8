"""GQE: a query is a point (Hamilton et al. 2018), as re-implemented for the comparisons of Query2box and BetaE.

An entity is a vector; a relation translates it; an intersection is the mean
of its operands under learnt attention. The score of an entity is gamma less its L1 distance from the query.

Shape letters: B queries, K candidates per query, N nodes, D dimension, O operands of an intersection.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from tarbox.core.config import check_settings
from tarbox.execution.interpreter import evaluate
from tarbox.models.alternatives import Alternatives, Conjunctive, least
from tarbox.models.base import BEYOND_SETS, Columns, EntityModel, Sizes, columns
from tarbox.models.pairs import l1_pairs
from tarbox.models.translation import InvariantAttention
from tarbox.query.algebra import Direction, Not, Query

SLACK: Final = 2.0
"""Initial values are uniform within +-(gamma + SLACK) / D, as in all models of this family."""


@final
@dataclass(frozen=True, slots=True)
class GqeConfig:
    """The settings of `Gqe`; the defaults are those of the BetaE paper's comparison. `margin` is gamma."""

    dimension: int = 800
    margin: float = 24.0

    def __post_init__(self) -> None:
        check_settings(self, {}, ("dimension", "margin"))


@final
class Gqe(EntityModel):
    """Queries without negation, as points.

    >>> from tarbox.query.templates import TEMPLATES
    >>> model = Gqe(GqeConfig(dimension=8), Sizes(entities=5, concepts=0, relations=2))
    >>> model.score(TEMPLATES["2i"].shape, torch.tensor([[0, 1, 3, 2]]), slice(0, 5)).shape
    torch.Size([1, 5])
    """

    Config: ClassVar[type[GqeConfig]] = GqeConfig
    recipe: ClassVar[str | None] = "gqe"
    lacks: frozenset[type[Any]] = BEYOND_SETS | {Not}

    def __init__(self, config: GqeConfig, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.config = config
        bound = (config.margin + SLACK) / config.dimension
        self.entities = nn.Parameter(torch.empty(max(sizes.entities, 1), config.dimension).uniform_(-bound, bound))
        self.relations = nn.Parameter(torch.empty(sizes.directed, config.dimension).uniform_(-bound, bound))
        self.attention = InvariantAttention(config.dimension)

    def score(self, shape: Query, ids_BS: Tensor, nodes: slice) -> Tensor:
        """[B, N] gamma - |q - e|, of the nearest alternative; `cdist` holds nothing greater than its result."""
        with torch.no_grad():
            nearest_BN = least([torch.cdist(q, self.entities[nodes], p=1) for q in self._points(shape, ids_BS)])
            return self.config.margin - nearest_BN

    def score_candidates(self, shape: Query, ids_BS: Tensor, candidates_BK: Tensor) -> Tensor:
        """[B, K]"""
        points = self._points(shape, ids_BS)
        return self.config.margin - least([l1_pairs(q, self.entities, candidates_BK) for q in points])

    def _points(self, shape: Query, ids_BS: Tensor) -> tuple[Tensor, ...]:
        """[B, D] of each alternative."""
        return evaluate(shape, Alternatives(_Points(self, columns(shape, ids_BS))))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Points(Conjunctive[Tensor]):
    """The meaning of the nodes as vectors [B, D]."""

    model: Gqe
    columns: Columns

    def entity(self, name: str) -> Tensor:
        return functional.embedding(self.columns[name], self.model.entities)

    def exists(self, relation: str, direction: Direction, operand: Tensor) -> Tensor:  # noqa: ARG002
        return operand + functional.embedding(self.columns[relation], self.model.relations)

    def intersection(self, operands: Sequence[Tensor]) -> Tensor:
        return self.model.attention.combine(torch.stack(list(operands)))
