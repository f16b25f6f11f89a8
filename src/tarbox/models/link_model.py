"""What `cqd` and `qto` share: a link predictor that learns single links and is asked whole queries."""

# ruff: noqa: N803 (shape suffixes)

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from tarbox.models.base import Model, Sizes, Task
from tarbox.models.complex import Complex, ComplexConfig
from tarbox.models.learning.seam import RunContext, TrainingData

if TYPE_CHECKING:
    from tarbox.models.learning.batches import SampleSource


class LinkModel(Model):
    """ComplEx over entities and concepts; how a query is answered with it is what a subclass says."""

    tasks: ClassVar[frozenset[Task]] = frozenset({Task.ENTITY, Task.INSTANTIATION})

    def __init__(self, config: ComplexConfig, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.links = Complex(config, sizes)

    def sources(self, data: TrainingData, context: RunContext) -> Sequence[SampleSource]:
        """Single links alone: no query is made for it."""
        from tarbox.models.links import link_sources

        return link_sources(data.facts, self.links.config.candidates, context.device)

    def loss(
        self,
        links_B3: Tensor,
        reached: slice,
        candidates_K: Tensor | None,
        sparse: bool = False,
        share: float = 1.0,
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
