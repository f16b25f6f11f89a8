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
from typing import TYPE_CHECKING, ClassVar, Final, final

import torch
from torch import Tensor

from tarbox.core.errors import ConfigError
from tarbox.core.ids import Level
from tarbox.execution.interpreter import SixNodes, evaluate
from tarbox.execution.rows import EVERYTHING
from tarbox.models.base import Columns, Sizes, columns, on_device
from tarbox.models.complex import Complex, ComplexConfig
from tarbox.models.link_model import LinkModel
from tarbox.query.algebra import Direction, Query

if TYPE_CHECKING:
    from tarbox.kb.arrays import Ids

_SCORES_AT_A_TIME: Final = 1 << 26
"""Scores held at a time: a block has as many queries as this allows."""


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
        super().__init__(config.links(), sizes)
        self.config = config

    def score(self, shape: Query, ids_BS: Ids | Tensor, level: Level) -> Tensor:
        """[B, N] degrees, a block of queries at a time."""
        self.require(shape)
        ids = on_device(ids_BS, self.links.nodes.device)
        rows = max(1, _SCORES_AT_A_TIME // (self.config.beam * max(self.sizes.entities, 1)))
        with torch.no_grad():
            starts = range(0, len(ids), rows)
            blocks = [self._degrees(shape, ids[start : start + rows], level) for start in starts]
        return torch.cat(blocks) if blocks else self.links.nodes.new_empty(0, self.candidates(level))

    def score_candidates(self, shape: Query, ids_BS: Tensor, level: Level, candidates_BK: Tensor) -> Tensor:
        """[B, K] the same degrees, with gradient."""
        return self._degrees(shape, ids_BS, level).gather(1, candidates_BK)

    def _degrees(self, shape: Query, ids_BS: Tensor, level: Level) -> Tensor:
        algebra = BeamAlgebra(self.links, columns(shape, ids_BS), len(ids_BS), self.config.beam)
        entities_BE = evaluate(shape, algebra)
        if level is Level.ENTITY:
            return entities_BE
        typing_B = ids_BS.new_full((len(ids_BS),), self.links.places.concepts_of)
        return algebra.follow(typing_B, entities_BE, self.links.places.concepts)


@final
@dataclass(frozen=True, slots=True)
class BeamAlgebra(SixNodes):
    """Fuzzy sets [B, E] of entities."""

    links: Complex
    columns: Columns
    size: int
    beam: int

    def entity(self, name: str) -> Tensor:
        ids_B = self.columns[name]
        return self.links.nodes.new_zeros(self.size, self._entities).scatter(1, ids_B[:, None], 1.0)

    def concept(self, name: str) -> Tensor:
        ids_B = self.columns[name]
        nodes_B = torch.where(ids_B == EVERYTHING, 0, ids_B + self._entities)  # any node: its degrees are not used
        degrees = torch.sigmoid(self.links.scores(self.links.members(nodes_B), self.links.places.entities))
        return degrees.masked_fill((ids_B == EVERYTHING)[:, None], 1.0)

    def exists(self, relation: str, direction: Direction, operand: Tensor) -> Tensor:  # noqa: ARG002
        return self.follow(self.columns[relation], operand, self.links.places.entities)

    def follow(self, relations_B: Tensor, operand_BE: Tensor, reached: slice) -> Tensor:
        """[B, N] the strongest way to each node, from the strongest members of a set."""
        strength_BK, nodes_BK = operand_BE.topk(min(self.beam, self._entities), dim=1)
        questions_BKD = self.links.questions(relations_B[:, None].expand_as(nodes_BK), nodes_BK)
        degrees_BKN = torch.sigmoid(self.links.scores(questions_BKD, reached))
        return (degrees_BKN * strength_BK[:, :, None]).amax(1)

    def intersection(self, operands: Sequence[Tensor]) -> Tensor:
        return reduce(torch.mul, operands)

    def union(self, operands: Sequence[Tensor]) -> Tensor:
        return 1 - reduce(torch.mul, [1 - operand for operand in operands])

    def complement(self, operand: Tensor) -> Tensor:
        return 1 - operand

    @property
    def _entities(self) -> int:
        return self.links.places.sizes.entities
