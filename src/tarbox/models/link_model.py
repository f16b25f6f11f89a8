"""What `cqd` and `qto` share: a link predictor that learns single links and is asked whole queries."""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import torch
from torch import Tensor

from tarbox.core.ids import Level
from tarbox.execution.interpreter import Algebra, evaluate
from tarbox.models.base import Columns, Model, Sizes, Task, columns, on_device
from tarbox.models.complex import Complex, ComplexConfig
from tarbox.models.learning.seam import RunContext, TrainingData
from tarbox.query.algebra import Direction, Query

if TYPE_CHECKING:
    from tarbox.kb.arrays import Ids
    from tarbox.models.learning.batches import SampleSource

_SCORES_AT_A_TIME: Final = 1 << 26
"""Scores held at a time: a block has as many queries, or rows of a matrix, as this allows."""


def rows_at_a_time(width: int) -> int:
    """How many rows of so many scores are held at a time."""
    return max(1, _SCORES_AT_A_TIME // max(width, 1))


@dataclass(frozen=True, slots=True, eq=False)
class LinkAlgebra(Algebra[Tensor]):
    """The meaning of the nodes as fuzzy sets [B, E] of entities."""

    links: Complex
    columns: Columns
    size: int

    def entity(self, name: str) -> Tensor:
        return self.nothing(self.links.places.entities).scatter(1, self.columns[name][:, None], 1.0)

    def exists(self, relation: str, direction: Direction, operand: Tensor) -> Tensor:  # noqa: ARG002
        return self.follow(self.columns[relation], operand, self.links.places.entities)

    @abc.abstractmethod
    def follow(self, relations_B: Tensor, operand_BE: Tensor, reached: slice) -> Tensor:
        """[B, N] the best way to each node from a member of the set."""

    def nothing(self, reached: slice) -> Tensor:
        """[B, N] the empty sets of these nodes."""
        return self.links.nodes.new_zeros(self.size, reached.stop - reached.start)


class LinkModel(Model):
    """ComplEx over entities and concepts; a subclass says by which algebra, which holds `ways` to every entity, a query
    is answered with it."""

    tasks: ClassVar[frozenset[Task]] = frozenset({Task.ENTITY, Task.INSTANTIATION})

    def __init__(self, config: ComplexConfig, sizes: Sizes, ways: int = 1) -> None:
        super().__init__(sizes)
        self.links, self.ways = Complex(config, sizes), ways

    @abc.abstractmethod
    def algebra(self, columns: Columns, size: int) -> LinkAlgebra:
        """That of a batch of so many queries, whose ids `columns` holds by placeholder."""

    def score(self, shape: Query, ids_BS: Ids | Tensor, level: Level) -> Tensor:
        """[B, N] degrees, a block of queries at a time."""
        self.require(shape)
        ids = on_device(ids_BS, self.links.nodes.device)
        with torch.no_grad():
            blocks: Sequence[Tensor] = torch.split(ids, rows_at_a_time(self.ways * self.sizes.entities))
            return torch.cat([self.degrees(shape, block, level) for block in blocks])

    def degrees(self, shape: Query, ids_BS: Tensor, level: Level) -> Tensor:
        """[B, N]; a concept answers a query by one more hop."""
        algebra = self.algebra(columns(shape, ids_BS), len(ids_BS))
        entities_BE = evaluate(shape, algebra)
        if level is Level.ENTITY:
            return entities_BE
        typing_B = ids_BS.new_full((len(ids_BS),), self.links.places.concepts_of)
        return algebra.follow(typing_B, entities_BE, self.links.places.concepts)

    def sources(self, data: TrainingData, context: RunContext) -> Sequence[SampleSource]:
        """Single links alone: no query is made for it."""
        from tarbox.models.links import link_sources

        return link_sources(data.facts, self.links.config.candidates, context.device)

    def loss(
        self, links_B3: Tensor, reached: slice, candidates_K: Tensor | None, sparse: bool = False, share: float = 1.0
    ) -> Tensor:
        """That of its link predictor."""
        return self.links.loss(links_B3, reached, candidates_K, sparse, share)

    def subsumption(self, subs_BK: Tensor, supers_BK: Tensor) -> Tensor:
        first = self.sizes.entities
        return self._pairs(self.links.places.wider, first + subs_BK, first + supers_BK)

    def instantiation(self, entities_BK: Tensor, concepts_BK: Tensor) -> Tensor:
        return self._pairs(self.links.places.concepts_of, entities_BK, self.sizes.entities + concepts_BK)

    def _pairs(self, relation: int, near_BK: Tensor, far_BK: Tensor) -> Tensor:
        questions = self.links.questions(relation, near_BK)
        return (questions * self.links.nodes[far_BK]).sum(-1)
