"""A small model of the right kind, for tests of training: translations and dot products; it can fail on purpose."""

# ruff: noqa: N803, ARG002 (shape suffixes)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar, final

import torch
from torch import Tensor

from tarbox.core.ids import Level
from tarbox.execution.interpreter import evaluate
from tarbox.models.base import Model, Sizes, Task, columns, on_device
from tarbox.query.algebra import Direction, Query


@final
@dataclass(frozen=True, slots=True)
class TinyConfig:
    """`fail` at the n-th scoring of `after`: "" never, "number" for NaN, or "memory"."""

    dimension: int = 16
    fail: str = ""
    after: int = 0


@final
class Tiny(Model):
    """e + r for projections, the mean for the rest; scores are dot products."""

    Config: ClassVar[type[TinyConfig]] = TinyConfig
    tasks: ClassVar[frozenset[Task]] = frozenset(Task)

    def __init__(self, config: TinyConfig, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.config = config
        self.entities = torch.nn.Embedding(sizes.entities, config.dimension)
        self.concepts = torch.nn.Embedding(sizes.concepts, config.dimension)
        self.relations = torch.nn.Embedding(max(sizes.directed, 1), config.dimension)
        self.scored = 0

    def query(self, shape: Query, ids_BS: Tensor) -> Tensor:
        return evaluate(shape, _Means(self, columns(shape, ids_BS)))

    def score(self, shape: Query, ids_BS: object, level: Level) -> Tensor:
        table = {Level.ENTITY: self.entities, Level.CONCEPT: self.concepts}[level].weight
        with torch.no_grad():
            return self.query(shape, on_device(ids_BS, table.device)) @ table.T  # type: ignore[arg-type]

    def score_candidates(self, shape: Query, ids_BS: Tensor, level: Level, candidates_BK: Tensor) -> Tensor:
        self.scored += 1
        failing = bool(self.config.fail) and self.scored > self.config.after
        if failing and self.config.fail == "memory":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 TiB")
        table = {Level.ENTITY: self.entities, Level.CONCEPT: self.concepts}[level]
        scores = (self.query(shape, ids_BS)[:, None] * table(candidates_BK)).sum(2)
        return scores * float("nan") if failing else scores

    def subsumption(self, subs_BK: Tensor, supers_BK: Tensor) -> Tensor:
        return (self.concepts(subs_BK) * self.concepts(supers_BK).roll(1, 2)).sum(2)

    def instantiation(self, entities_BK: Tensor, concepts_BK: Tensor) -> Tensor:
        return (self.entities(entities_BK) * self.concepts(concepts_BK)).sum(2)


@final
@dataclass(frozen=True, slots=True)
class _Means:
    model: Tiny
    ids: dict[str, Tensor]

    def entity(self, name: str) -> Tensor:
        return self.model.entities(self.ids[name])

    def concept(self, name: str) -> Tensor:
        return self.model.concepts(self.ids[name])

    def exists(self, relation: str, direction: Direction, operand: Tensor) -> Tensor:
        return operand + self.model.relations(self.ids[relation])

    def intersection(self, operands: Sequence[Tensor]) -> Tensor:
        return reduce(torch.add, operands) / len(operands)

    def union(self, operands: Sequence[Tensor]) -> Tensor:
        return self.intersection(operands)

    def complement(self, operand: Tensor) -> Tensor:
        return -operand
