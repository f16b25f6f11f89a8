"""CQD: a link predictor answers complex queries by beam search (Arakelyan et al. 2021), at both levels.

ComplEx is trained on single links alone. A query is a fuzzy set of entities: a link counts as much as the sigmoid of
its score, an existential variable keeps the `beam` strongest of its candidates, `and` is a product, `or` its dual,
`not` the complement (the last two are not in the paper's beam search). Since concepts are nodes and typing is a
relation, a concept answers a query by one more hop.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar, final

import torch
from torch import Tensor

from tarbox.core.errors import ConfigError
from tarbox.core.ids import Level
from tarbox.execution.rows import EVERYTHING
from tarbox.models.base import Columns, Sizes
from tarbox.models.complex import ComplexConfig
from tarbox.models.link_model import LinkAlgebra, LinkModel
from tarbox.query.algebra import Query


@final
@dataclass(frozen=True, slots=True)
class CqdConfig:
    """`beam` candidates of a variable are followed; the rest is the link predictor's (`ComplexConfig`)."""

    beam: int = 64
    rank: int = 512
    regularization: float = 5e-2
    relation_weight: float = 0.5
    candidates: int = 0
    initial: float = 1e-3

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ConfigError(f"beam is {self.beam}; it must be at least 1")

    def links(self) -> ComplexConfig:
        return ComplexConfig(self.rank, self.regularization, self.relation_weight, self.candidates, self.initial)


@final
class Cqd(LinkModel):
    """The link predictor and its beam search.

    >>> _ = torch.manual_seed(0)
    >>> model = Cqd(CqdConfig(rank=4), Sizes(entities=5, concepts=3, relations=2))
    >>> from tarbox.query.templates import TEMPLATES
    >>> model.score(TEMPLATES["2p"].shape, torch.tensor([[0, 1, 3]]), Level.CONCEPT).shape
    torch.Size([1, 3])
    """

    Config: ClassVar[type[CqdConfig]] = CqdConfig
    recipe: ClassVar[str | None] = "cqd"

    def __init__(self, config: CqdConfig, sizes: Sizes) -> None:
        super().__init__(config.links(), sizes, config.beam)
        self.config = config

    def algebra(self, columns: Columns, size: int) -> LinkAlgebra:
        return BeamAlgebra(self.links, columns, size, self.config.beam)

    def score_candidates(self, shape: Query, ids_BS: Tensor, level: Level, candidates_BK: Tensor) -> Tensor:
        """[B, K] the same degrees, with gradient."""
        return self.degrees(shape, ids_BS, level).gather(1, candidates_BK)


@final
@dataclass(frozen=True, slots=True, eq=False)
class BeamAlgebra(LinkAlgebra):
    """A variable keeps the strongest of its candidates."""

    beam: int

    def concept(self, name: str) -> Tensor:
        ids_B = self.columns[name]
        reached = self.links.places.entities
        nodes_B = torch.where(ids_B == EVERYTHING, 0, ids_B + reached.stop)  # any node: its degrees are not used
        degrees = torch.sigmoid(self.links.scores(self.links.members(nodes_B), reached))
        return degrees.masked_fill((ids_B == EVERYTHING)[:, None], 1.0)

    def follow(self, relations_B: Tensor, operand_BE: Tensor, reached: slice) -> Tensor:
        """[B, N] the strongest way to each node, from the strongest members of a set."""
        strength_BK, nodes_BK = operand_BE.topk(min(self.beam, operand_BE.shape[1]), dim=1)
        questions_BKD = self.links.questions(relations_B[:, None].expand_as(nodes_BK), nodes_BK)
        degrees_BKN = torch.sigmoid(self.links.scores(questions_BKD, reached))
        return (degrees_BKN * strength_BK[:, :, None]).amax(1)

    def intersection(self, operands: Sequence[Tensor]) -> Tensor:
        return reduce(torch.mul, operands)

    def union(self, operands: Sequence[Tensor]) -> Tensor:
        return 1 - reduce(torch.mul, [1 - operand for operand in operands])

    def complement(self, operand: Tensor) -> Tensor:
        return 1 - operand
