"""JOIE: an instance view and an ontology view, joined by a mapping (Hao et al. 2019).

Assertions are the instance view, links and subsumptions between concepts the ontology view, and typings lead from one
to the other (the paper's JOIE-HATransE-CT, or with `score = "distmult"` JOIE-HAMult-CT):

    {a} ⊑ ∃r.{b}     |a + v_r - b|, or - sum a v_r b        C ⊑ ∃r.D    the same, with a vector of its own for r
    {a} ⊑ C          |tanh(W a + w) - c|                    C ⊑ D       |tanh(H c + h) - d|

A true row is to have a gap less than that of false ones by `margin`; vectors keep to the unit sphere.
"""

# ruff: noqa: N803 (shape suffixes)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from tarbox.core.config import check_settings
from tarbox.kb.normal_forms import NormalForm
from tarbox.models.base import Sizes
from tarbox.models.ontology.elem import length
from tarbox.models.ontology.forms import Gap, NormalFormModel, mean_of


@final
@dataclass(frozen=True, slots=True)
class JoieConfig:
    """`score` of both views is translation or distmult; `answers` of a query are compared at most."""

    dimension: int = 100
    margin: float = 0.5
    score: str = "translation"
    answers: int = 32

    def __post_init__(self) -> None:
        check_settings(self, {"score": ("translation", "distmult")}, ("dimension", "margin", "answers"))


@final
class Joie(NormalFormModel):
    """Two views and two mappings; a relation has a vector for each view."""

    Config: ClassVar[type[JoieConfig]] = JoieConfig
    recipe: ClassVar[str | None] = "ontology"

    def __init__(self, config: JoieConfig, sizes: Sizes) -> None:
        super().__init__(sizes, config.answers, (config.dimension, 2 * config.dimension))
        self.config = config
        self.across = nn.Linear(config.dimension, config.dimension)
        self.upwards = nn.Linear(config.dimension, config.dimension)

    def points(self) -> Tensor:
        return functional.normalize(self.nodes[: self.sizes.entities], dim=-1)

    def cost(self, own_B1: Tensor, others_BM: Tensor, valid_BM: Tensor) -> Tensor:
        return mean_of(functional.relu(self.config.margin + own_B1 - others_BM), valid_BM)

    def regularization(self, nodes_BN: Tensor) -> Tensor:
        """None: `vector` puts all on the sphere."""
        return self.nodes.new_zeros(nodes_BN.shape[:0])

    def vector(self, nodes: Tensor) -> Tensor:
        return functional.normalize(functional.embedding(nodes, self.nodes), dim=-1)

    def of_type(self, entities: Tensor, concepts: Tensor) -> Tensor:
        return length(torch.tanh(self.across(self.vector(entities))) - self.vector(concepts))

    def below(self, lower: Tensor, upper: Tensor) -> Tensor:
        return length(torch.tanh(self.upwards(self.vector(lower))) - self.vector(upper))

    def asserted(self, relation: Tensor, near: Tensor, far: Tensor) -> Tensor:
        return self._scored(functional.embedding(relation, self.relations).chunk(2, -1)[0], near, far)

    def linked(self, relation: Tensor, near: Tensor, far: Tensor) -> Tensor:
        return self._scored(functional.embedding(relation, self.relations).chunk(2, -1)[1], near, far)

    def _scored(self, vectors: Tensor, near: Tensor, far: Tensor) -> Tensor:
        if self.config.score == "distmult":
            return -(self.vector(near) * vectors * self.vector(far)).sum(-1)
        return length(self.vector(near) + vectors - self.vector(far))

    gaps: ClassVar[Mapping[NormalForm, Gap]] = MappingProxyType(
        {
            NormalForm.TYPING: of_type,
            NormalForm.SUBSUMPTION: below,
            NormalForm.ASSERTION: asserted,
            NormalForm.LINK: linked,
        }
    )
