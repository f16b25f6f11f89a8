"""A small model that is put together from parts, for tests of the seam: one link predictor, fitted twice, then sums."""

# ruff: noqa: ARG002

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tarbox.core.ids import Level
from tarbox.kb.facts import Facts, Ids
from tarbox.models.base import Sizes
from tarbox.models.complex import Complex, ComplexConfig
from tarbox.models.learning.seam import Learner, RunContext, Stage, TrainingData
from tarbox.models.links import link_sources
from tarbox.models.saved import sizes_of
from tarbox.query.algebra import Query

FIRST, SECOND, LAST = "fitting a link predictor", "fitting it again", "summing up"


@final
@dataclass(frozen=True, slots=True)
class PartedConfig:
    """`rank` 0 leaves it to the hardware; `host` and `device` are the bytes that it claims to want."""

    rank: int = 0
    host: int = 0
    epochs: int = 2
    device: int = 0


@final
@dataclass(frozen=True, slots=True)
class Parted(Learner):
    """Scores every candidate by the sum of its embedding."""

    Config: ClassVar[type[PartedConfig]] = PartedConfig
    in_processes: ClassVar[bool] = True
    sizes: Sizes
    sums: NDArray[np.float32]

    @classmethod
    def resolve(cls, config: PartedConfig, sizes: Sizes, device: torch.device) -> PartedConfig:  # noqa: ARG003
        return config if config.rank else replace(config, rank=4)

    @classmethod
    def learn(cls, config: PartedConfig, data: TrainingData, context: RunContext) -> Mapping[str, Tensor]:
        context.require_memory(config.host, 0, "Lower it with --set model.host=0.")
        home = context.home_of_tables(config.device, config.device, 0)
        context.plan({FIRST: 2.0, SECOND: 1.0, LAST: 1.0})
        links = Complex(ComplexConfig(rank=config.rank, initial=0.1), sizes_of(data.facts)).to(home)
        sources = link_sources(data.facts, 0, context.device)
        context.begin(FIRST)
        context.fit(links, sources, Stage("first", config.epochs))
        context.begin(SECOND)
        weights = context.fit(links, sources, Stage("second", config.epochs))
        context.begin(LAST)
        context.progress(0.5)
        return {"sums": weights["nodes"].sum(1)}

    @classmethod
    def of_arrays(cls, facts: Facts, arrays: Mapping[str, NDArray[Any]], config: PartedConfig, device: str) -> Parted:  # noqa: ARG003
        return cls(sizes_of(facts), arrays["sums"])

    def candidates(self, level: Level) -> int:
        return {Level.ENTITY: self.sizes.entities, Level.CONCEPT: self.sizes.concepts}[level]

    def supports(self, shape: Query) -> bool:
        return True

    def score(self, shape: Query, ids: Ids, level: Level) -> NDArray[np.float32]:
        first = 0 if level is Level.ENTITY else self.sizes.entities
        return np.tile(self.sums[first : first + self.candidates(level)], (len(ids), 1))
