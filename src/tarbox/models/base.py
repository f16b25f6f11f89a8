"""What every trainable model is: primitives for scoring and for the four tasks of TAR's Algorithm 1.

A model answers a *batch*: one shape and a table of ids [B, S], one column per slot (relations directed, see
`tarbox.execution.rows`). It gives the nodes of a shape a meaning by an algebra of its own, run by
`tarbox.execution.interpreter.evaluate`; no template name ever reaches it. Nothing is kept on the model during a call,
so requests can share it. Initial values come from torch's global generator, which the trainer seeds.

Shape letters: B queries of a batch, S slots of the shape, K candidates per query, N all candidates of a level,
E entities, C concepts, D dimension.
"""

# ruff: noqa: N803 (shape suffixes, see STYLE.md)

from __future__ import annotations

import abc
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, final

import numpy as np
import torch
from torch import Tensor

from tarbox.core.ids import Level
from tarbox.query.algebra import Query, slots

if TYPE_CHECKING:
    from tarbox.kb.facts import Ids

Columns: TypeAlias = "dict[str, Tensor]"
"""The ids [B] in the slot of each placeholder."""


class Task(Enum):
    """What a sample teaches: Con, Ent, Sub and Ins of the paper, Section 3.3."""

    ENTITY = "entity"
    CONCEPT = "concept"
    SUBSUMPTION = "subsumption"
    INSTANTIATION = "instantiation"


ALL_TASKS = frozenset(Task)


@final
@dataclass(frozen=True, slots=True)
class Sizes:
    """How many of each kind the vocabulary has. Relations are counted undirected; directed ids are 2 * r + inverse."""

    entities: int
    concepts: int
    relations: int

    @property
    def directed(self) -> int:
        """The number of directed relations."""
        return 2 * self.relations


class Model(torch.nn.Module, abc.ABC):
    """A trainable scorer, made from its frozen `Config` and the sizes of the vocabulary.

    A subclass is `@final`, sets `Config` and `tasks`, and takes `(config, sizes)`.
    """

    Config: ClassVar[type[Any]]
    tasks: ClassVar[frozenset[Task]] = ALL_TASKS
    sizes: Sizes

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes

    def candidates(self, level: Level) -> int:
        """How many there are: the entities or the concepts of the vocabulary."""
        return {Level.ENTITY: self.sizes.entities, Level.CONCEPT: self.sizes.concepts}[level]

    @abc.abstractmethod
    def score(self, shape: Query, ids_BS: Ids | Tensor, level: Level) -> Tensor:
        """[B, N] the scores of all candidates, greater is better; for inference, without gradient."""

    @abc.abstractmethod
    def score_candidates(self, shape: Query, ids_BS: Tensor, level: Level, candidates_BK: Tensor) -> Tensor:
        """[B, K] the scores of the given candidates, with gradient: S_Con or S_Ent of Eq. 17."""

    @abc.abstractmethod
    def subsumption(self, subs_BK: Tensor, supers_BK: Tensor) -> Tensor:
        """[B, K] the degree to which each first concept is included in the second: S_Sub, Eq. 15."""

    @abc.abstractmethod
    def instantiation(self, entities_BK: Tensor, concepts_BK: Tensor) -> Tensor:
        """[B, K] the degree to which each entity is an instance of the concept: S_Ins, Eq. 16."""


def on_device(ids: Ids | Tensor, device: torch.device) -> Tensor:
    """The ids as int64 on the device, from a numpy array or a tensor."""
    found = torch.from_numpy(np.ascontiguousarray(ids)) if isinstance(ids, np.ndarray) else ids
    return found.to(device=device, dtype=torch.int64)


def columns(shape: Query, ids_BS: Tensor) -> Columns:
    """The ids [B] of each placeholder of `shape`, by name."""
    return {slot.name: ids_BS[:, place] for place, slot in enumerate(slots(shape))}
