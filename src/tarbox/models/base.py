"""What every trainable model is: primitives for scoring and for the four tasks of TAR's Algorithm 1.

A `Model` answers at both levels. An `EntityModel` knows entities alone, as those of the literature do;
`tarbox.models.one_more_hop` makes a `Model` of it.

A model answers a *batch*: one shape and a table of ids [B, S], one column per slot (relations directed, see
`tarbox.execution.rows`). It gives the nodes of a shape a meaning by an algebra of its own, run by
`tarbox.execution.interpreter.evaluate`; no template name ever reaches it. Nothing is kept on the model during a call,
so requests can share it. Initial values come from torch's global generator, which the trainer seeds.

Shape letters: B queries of a batch, S slots of the shape, K candidates per query, N all candidates of a level,
E entities, C concepts, D dimension.
"""

# ruff: noqa: N803 (shape suffixes)

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, final

import numpy as np
import torch
from torch import Tensor

from tarbox.core.errors import QueryError, StoreDamaged
from tarbox.core.ids import Level
from tarbox.models.learning.seam import Learner, RunContext, TrainingData
from tarbox.query.algebra import AtLeast, Concept, DataRange, Exists, HasSelf, Not, Or, Query, slots, walk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tarbox.kb.facts import Facts, Ids
    from tarbox.models.learning.batches import SampleSource

Columns: TypeAlias = "dict[str, Tensor]"
"""The ids [B] in the slot of each placeholder."""


class Task(Enum):
    """What a sample teaches: Con, Ent, Sub and Ins of the paper, Section 3.3."""

    ENTITY = "entity"
    CONCEPT = "concept"
    SUBSUMPTION = "subsumption"
    INSTANTIATION = "instantiation"


ALL_TASKS = frozenset(Task)
WORDS: Final[Mapping[type[Any], str]] = MappingProxyType(
    {
        Not: "negation ('not')",
        Or: "disjunction ('or')",
        Concept: "concepts inside a query",
        Exists: "relations",
        AtLeast: "counts ('min', 'max', 'exactly')",
        HasSelf: "'Self'",
        DataRange: "ranges of literals",
    }
)
"""How a message calls the kinds of node that a model may lack."""
BEYOND_SETS: Final[frozenset[type[Any]]] = frozenset({AtLeast, HasSelf, DataRange})
"""What no model of the literature has a meaning for: single facts and values are not in its sets."""


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


class Trainable(torch.nn.Module, Learner):
    """What is made from a frozen `Config` and the sizes of a vocabulary, and learns by gradient.

    Queries with a node that it `lacks` a meaning for are left out of training and tables, and an error where a person
    asks one.
    """

    tasks: ClassVar[frozenset[Task]]
    lacks: frozenset[type[Any]] = BEYOND_SETS
    sizes: Sizes

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes

    @classmethod
    @abc.abstractmethod
    def build(cls, config: Any, sizes: Sizes) -> Model:
        """A new model of both levels, on the CPU, with initial values from torch's global generator."""

    @final
    @classmethod
    def begin(cls, config: Any, facts: Facts) -> Model:
        """A new model that has seen the facts it is to answer from."""
        from tarbox.models.saved import sizes_of

        model = cls.build(config, sizes_of(facts))
        model.observe(facts)
        return model

    @final
    @classmethod
    def learn(cls, config: Any, data: TrainingData, context: RunContext) -> Mapping[str, Tensor]:
        """The best weights, by gradient steps over the model's own sources."""
        model = cls.begin(config, data.facts).to(context.device)
        return context.fit(model, model.sources(data, context))

    @final
    @classmethod
    def of_arrays(cls, facts: Facts, arrays: Mapping[str, NDArray[Any]], config: Any, device: str) -> Model:
        model = cls.begin(config, facts)
        try:
            model.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})
        except RuntimeError as error:
            raise StoreDamaged(str(error).strip().splitlines()[-1].strip()) from None
        return model.to(device).eval()

    def supports(self, shape: Query) -> bool:
        """Whether the model has a meaning for every node of the query."""
        return not any(type(node) in self.lacks for node in walk(shape))

    def require(self, shape: Query, name: str | None = None) -> None:
        """Raise where the model lacks a meaning for a node; `name` is what the message calls the model."""
        lacking = {type(node): None for node in walk(shape) if type(node) in self.lacks}
        if lacking:
            from tarbox.models.registry import name_of

            words = " and ".join(WORDS[kind] for kind in lacking)
            raise QueryError(
                f"{name or name_of(type(self))} does not support {words}. "
                f"Leave it out, or ask a model that has: {', '.join(models_with(frozenset(lacking)))}."
            )


class Model(Trainable):
    """A trainable scorer at both levels.

    A subclass is `@final`, sets `Config` and `tasks`, and takes `(config, sizes)`. `asks_typings` says how it learns
    typings: by the queries `{e}` for concepts and `C` for entities, or as pairs, by `instantiation`.
    """

    tasks: ClassVar[frozenset[Task]] = ALL_TASKS
    asks_typings: ClassVar[bool] = False

    @classmethod
    def build(cls, config: Any, sizes: Sizes) -> Model:
        construct: Any = cls
        model: Model = construct(config, sizes)
        return model

    def observe(self, facts: Facts) -> None:
        """Keep what the model needs of the facts beside its weights: nothing, unless it says otherwise."""

    def sources(self, data: TrainingData, context: RunContext) -> Sequence[SampleSource]:
        """What the model learns from; unless it says otherwise, facts and queries for the tasks of the settings."""
        from tarbox.models.learning.sources import build_sources

        tasks = context.objective.tasks(self.tasks)
        return build_sources(data.facts, data.queries(), context.batches, tasks, context.device, self)

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


class EntityModel(Trainable):
    """A trainable scorer of entities, for queries without concepts: `sizes.concepts` is 0, every node is an entity.

    A subclass is `@final`, sets `Config`, and takes `(config, sizes)`.
    """

    tasks: ClassVar[frozenset[Task]] = frozenset({Task.ENTITY, Task.CONCEPT, Task.INSTANTIATION})

    @final
    @classmethod
    def build(cls, config: Any, sizes: Sizes) -> Model:
        """It answers at both levels by one more hop."""
        from tarbox.models.one_more_hop import OneMoreHop, enlarged
        from tarbox.models.registry import name_of

        construct: Any = cls
        return OneMoreHop(construct(config, enlarged(sizes)), sizes, name_of(cls))

    def observe(self, facts_F3: Tensor) -> None:
        """Keep what the model needs of the facts (head, relation, tail): nothing, unless it says otherwise."""

    @abc.abstractmethod
    def score(self, shape: Query, ids_BS: Tensor, nodes: slice) -> Tensor:
        """[B, N] the scores of the nodes in a range with a start and a stop, greater is better; without gradient."""

    @abc.abstractmethod
    def score_candidates(self, shape: Query, ids_BS: Tensor, candidates_BK: Tensor) -> Tensor:
        """[B, K] the scores of the given nodes, with gradient."""


def models_with(kinds: frozenset[type[Any]]) -> list[str]:
    """The registered models that have a meaning for all of these kinds of node."""
    from tarbox.models.registry import MODELS, find_model

    return [name for name in MODELS if not kinds & find_model(name).lacks]


def on_device(ids: Ids | Tensor, device: torch.device) -> Tensor:
    """The ids as int64 on the device, from a numpy array or a tensor."""
    found = torch.from_numpy(np.ascontiguousarray(ids)) if isinstance(ids, np.ndarray) else ids
    return found.to(device=device, dtype=torch.int64)


def columns(shape: Query, ids_BS: Tensor) -> Columns:
    """The ids [B] of each placeholder of `shape`, by name."""
    return {slot.name: ids_BS[:, place] for place, slot in enumerate(slots(shape))}
