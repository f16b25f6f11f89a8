"""EmEL++: ELEm with axioms about relations (Mondal et al. 2021).

    r ⊑ s            |v_r - v_s|
    r ∘ s ⊑ t        |v_r + v_s - v_t|

An ontology without such axioms makes it the same model as ELEm.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, final

from torch import Tensor

from tarbox.kb.normal_forms import NormalForm
from tarbox.models.ontology.elem import BALLS, BallModel, length, vector
from tarbox.models.ontology.forms import Gap, NormalFormModel


def included(model: NormalFormModel, lower: Tensor, upper: Tensor) -> Tensor:
    return length(vector(model, lower) - vector(model, upper))


def chained(model: NormalFormModel, first: Tensor, second: Tensor, upper: Tensor) -> Tensor:
    return length(vector(model, first) + vector(model, second) - vector(model, upper))


@final
class Emel(BallModel):
    """Balls, with inclusions and chains of relations."""

    gaps: ClassVar[Mapping[NormalForm, Gap]] = MappingProxyType(
        {**BALLS, NormalForm.INCLUSION: included, NormalForm.CHAIN: chained}
    )
