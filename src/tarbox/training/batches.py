"""Training samples, resident on the device, and what a step draws from them.

A sample is one positive; a *source* holds all samples of one kind: queries of one shape and level, subsumptions, or
typings. A step draws a portion from every source. In data proportion an epoch passes each sample once; with another
balance it has as many steps, and passes small sources several times, large ones in part. The order of an epoch is a
permutation made on the device from the seed, the epoch and the source alone: a resumed run makes it again. Sizes never
change from step to step.

One-hop queries are made from the assertions (the training queries that a benchmark samples are then left out): each
assertion at entity level; at concept level each distinct query with each concept of an answer, under closure.
"""

# ruff: noqa: N803, N815 (shape suffixes, see STYLE.md)

from __future__ import annotations

import abc
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tarbox.benchmark.tables import OUTSIDE, Batch, Lists, QueryTable, render_shape
from tarbox.core.errors import BenchmarkError, ConfigError
from tarbox.core.ids import Level
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.models.base import Model, Task
from tarbox.query.algebra import Query
from tarbox.query.templates import TEMPLATES
from tarbox.training.negatives import (
    Drawn,
    Sampler,
    Truths,
    corrupt_answers,
    corrupt_subsumptions,
    corrupt_typings,
    distinct,
)

ONE_HOP: Final = TEMPLATES["1p"].shape
TASKS: Final = {Level.ENTITY: Task.ENTITY, Level.CONCEPT: Task.CONCEPT}
Keys = NDArray[np.int64]


class Positives(Enum):
    """Which true answers of a training query are positives."""

    TARGET = "target"
    ALL = "all"


class Directions(Enum):
    """In which directions assertions become one-hop queries; `tails` alone is the paper's h -r-> ?."""

    TAILS = "tails"
    BOTH = "both"


@final
@dataclass(frozen=True, slots=True)
class BatchConfig:
    """`size` samples of all tasks together make a step, from each source in proportion to its number of samples to the
    power `balance`: 1 is the proportion of the data, 0 takes as many from each.

    `one_hop` makes one-hop queries of all assertions, in these `directions`. `positives` says whether a query's
    positive is drawn from its targets or from all of its true answers.
    """

    size: int = 2048
    balance: float = 1.0
    one_hop: bool = True
    directions: Directions = Directions.BOTH
    positives: Positives = Positives.ALL

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(f"batches.size is {self.size}; it must be at least 1")
        if not 0 <= self.balance <= 1:
            raise ConfigError(f"batches.balance is {self.balance}; it must be between 0 and 1")


class Draw(NamedTuple):
    """A portion as tensors: what is compared, the positive in column 0, and which negatives [B, M] are valid.

    For queries `first` are their slots [B, S] and `second` the candidates [B, K]; for pairs both are [B, K].
    """

    first: Tensor
    second: Tensor
    valid_BM: Tensor


class Source(abc.ABC):
    """Samples of one kind. `draw` gives positives with their negatives, `score` the model's opinion of both."""

    name: str
    task: Task

    @abc.abstractmethod
    def __len__(self) -> int:
        """The number of samples."""

    @abc.abstractmethod
    def draw(self, rows_B: Tensor, sampler: Sampler) -> Draw:
        """The samples at these places, with negatives."""

    @abc.abstractmethod
    def score(self, model: Model, draw: Draw) -> Tensor:
        """[B, 1 + m] the positive's score, then the negatives'."""


@final
class QuerySource(Source):
    """Queries of one shape: row i asks query `groups[i]`, whose positives are `values` from `starts[i]`, `sizes[i]`."""

    def __init__(self, level: Level, shape: Query, queries_GS: Tensor, rows: Rows, truths: Truths) -> None:
        self.name = f"{level.value}: {render_shape(shape)}"
        self.task = TASKS[level]
        self._level, self._shape = level, shape
        self._queries_GS, self._rows, self._truths = queries_GS, rows, truths

    def __len__(self) -> int:
        return len(self._rows.groups)

    def draw(self, rows_B: Tensor, sampler: Sampler) -> Draw:
        rows = self._rows
        groups, sizes = rows.groups[rows_B], rows.sizes[rows_B]
        chosen = (sampler.fractions((len(rows_B),)) * sizes).long().minimum(sizes - 1)
        positive = rows.values[rows.starts[rows_B] + chosen]
        negatives = corrupt_answers(sampler, self._truths, groups)
        candidates = torch.cat([positive[:, None], negatives.ids_BM], 1)
        return Draw(self._queries_GS[groups], candidates, negatives.valid_BM)

    def score(self, model: Model, draw: Draw) -> Tensor:
        return model.score_candidates(self._shape, draw.first, self._level, draw.second)


class Rows(NamedTuple):
    """The samples of a query source; see there."""

    groups: Tensor
    starts: Tensor
    sizes: Tensor
    values: Tensor


@final
class SubsumptionSource(Source):
    """The asserted subsumptions; what follows from them is no negative."""

    def __init__(self, subs: Tensor, supers: Tensor, truths: Truths) -> None:
        self.name, self.task = Task.SUBSUMPTION.value, Task.SUBSUMPTION
        self._subs, self._supers, self._truths = subs, supers, truths

    def __len__(self) -> int:
        return len(self._subs)

    def draw(self, rows_B: Tensor, sampler: Sampler) -> Draw:
        pair = self._subs[rows_B], self._supers[rows_B]
        return _pairs(pair, corrupt_subsumptions(sampler, self._truths, pair))

    def score(self, model: Model, draw: Draw) -> Tensor:
        return model.subsumption(draw.first, draw.second)


@final
class TypingSource(Source):
    """The typings under closure."""

    def __init__(self, typed: Tensor, types: Tensor, truths: Truths, entities: int) -> None:
        self.name, self.task = Task.INSTANTIATION.value, Task.INSTANTIATION
        self._typed, self._types, self._truths, self._entities = typed, types, truths, entities

    def __len__(self) -> int:
        return len(self._typed)

    def draw(self, rows_B: Tensor, sampler: Sampler) -> Draw:
        pair = self._typed[rows_B], self._types[rows_B]
        return _pairs(pair, corrupt_typings(sampler, self._truths, pair, self._entities))

    def score(self, model: Model, draw: Draw) -> Tensor:
        return model.instantiation(draw.first, draw.second)


@final
class Portions:
    """How much of each source a step takes, and where it is in the order of the epoch.

    `place` is a tensor that every `advance` increments, so that a recorded step moves on by itself.
    """

    def __init__(self, sources: Sequence[Source], config: BatchConfig, device: torch.device) -> None:
        self.sources = tuple(source for source in sources if len(source))
        if not self.sources:
            raise BenchmarkError("there is nothing to train on: no queries, assertions, typings or subsumptions")
        samples = sum(map(len, self.sources))
        self.steps = max(1, round(samples / config.size))
        weights = [len(source) ** config.balance for source in self.sources]
        self.sizes = tuple(math.ceil(round(samples * weight / (self.steps * sum(weights)), 6)) for weight in weights)
        self._place = torch.zeros((), dtype=torch.int64, device=device)
        self._orders = [torch.zeros(len(source), dtype=torch.int64, device=device) for source in self.sources]
        self._within = [torch.arange(size, device=device) for size in self.sizes]

    @property
    def samples(self) -> int:
        """How many samples a step has."""
        return sum(self.sizes)

    def describe(self) -> list[tuple[Task, int]]:
        """The task and size of each portion."""
        return [(source.task, size) for source, size in zip(self.sources, self.sizes, strict=True)]

    def begin(self, seed: int, epoch: int, step: int) -> None:
        """Shuffle every source for this epoch and go to this step of it."""
        for source, order in zip(self.sources, self._orders, strict=True):
            text = f"{seed}/{epoch}/{source.name}"
            own = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1
            generator = torch.Generator(order.device).manual_seed(own)
            order.copy_(torch.randperm(len(source), generator=generator, device=order.device))
        self._place.fill_(step)

    def advance(self) -> list[Tensor]:
        """The places in each source of the next step's samples; the order begins again where it ends."""
        rows = [
            order[(self._place * size + within) % len(order)]
            for order, size, within in zip(self._orders, self.sizes, self._within, strict=True)
        ]
        self._place.add_(1)
        return rows


def build_sources(
    facts: Facts, table: QueryTable | None, config: BatchConfig, tasks: Iterable[Task], device: torch.device
) -> list[Source]:
    """Everything there is to learn from, for the given tasks."""
    wanted = frozenset(tasks)
    instances = Instances.of(facts)
    widths = {Level.ENTITY: len(facts.vocabulary.entities), Level.CONCEPT: len(facts.vocabulary.concepts)}
    levels = [level for level in Level if TASKS[level] in wanted and widths[level]]
    sources: list[Source] = []
    if config.one_hop:
        sources += [_one_hop(facts, instances, level, config.directions, device) for level in levels]
    for batch in table.batches() if table is not None else ():
        if batch.level in levels and not (config.one_hop and batch.shape == ONE_HOP):
            sources.append(_of_batch(batch, widths[batch.level], config.positives, device))
    if Task.SUBSUMPTION in wanted and len(facts.subs):
        sources.append(_subsumptions(facts, instances, device))
    if Task.INSTANTIATION in wanted and len(facts.typed):
        sources.append(_typings(instances, len(facts.vocabulary.entities), device))
    return sources


def one_hop_pairs(facts: Facts, instances: Instances, level: Level, directions: Directions) -> tuple[Keys, Keys]:
    """(queries [G] as `directed relation * E + anchor`, sorted pairs as `query number * candidates + answer`)."""
    entities = max(len(facts.vocabulary.entities), 1)
    heads, tails, relations = (column.astype(np.int64) for column in (facts.heads, facts.tails, facts.relations))
    asked, answers = [(2 * relations + 1) * entities + heads], [tails]
    if directions is Directions.BOTH:
        asked, answers = [*asked, 2 * relations * entities + tails], [*answers, heads]
    queries, numbers = np.unique(np.concatenate(asked), return_inverse=True)
    answer = np.concatenate(answers)
    if level is Level.CONCEPT:
        origin, concepts = instances.concepts_of.gather(answer.astype(np.int32))
        return queries, distinct(numbers[origin] * len(instances.hierarchy) + concepts)
    return queries, distinct(numbers * entities + answer)


def _one_hop(
    facts: Facts, instances: Instances, level: Level, directions: Directions, device: torch.device
) -> QuerySource:
    queries, pairs = one_hop_pairs(facts, instances, level, directions)
    width = {Level.ENTITY: len(facts.vocabulary.entities), Level.CONCEPT: len(facts.vocabulary.concepts)}[level]
    slots = np.stack(np.divmod(queries, max(len(facts.vocabulary.entities), 1)), axis=1)
    groups, answers = np.divmod(pairs, width)
    rows = Rows(
        _tensor(groups, device),
        torch.arange(len(pairs), device=device),
        torch.ones(len(pairs), dtype=torch.int64, device=device),
        _tensor(answers, device),
    )
    return QuerySource(level, ONE_HOP, _tensor(slots, device), rows, Truths.of_keys(pairs, width, device))


def _of_batch(batch: Batch, width: int, positives: Positives, device: torch.device) -> QuerySource:
    """The queries of a table that have a positive."""
    inside = [_keys(lists, width) for lists in (batch.targets, batch.known)]
    truths = distinct(np.concatenate(inside))
    pairs = truths if positives is Positives.ALL else distinct(inside[0])
    groups, values = np.divmod(pairs, width)
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    asked, sizes = groups[starts], np.diff(starts, append=len(groups))
    rows = Rows(*(_tensor(column, device) for column in (asked, starts, sizes, values)))
    return QuerySource(
        batch.level, batch.shape, _tensor(batch.ids, device), rows, Truths.of_keys(truths, width, device)
    )


def _keys(lists: Lists, width: int) -> Keys:
    """`query * width + answer` of all answers in the vocabulary."""
    inside = lists.values != OUTSIDE
    keys: Keys = lists.owners()[inside] * width + lists.values[inside].astype(np.int64)
    return keys


def _subsumptions(facts: Facts, instances: Instances, device: torch.device) -> SubsumptionSource:
    size = len(instances.hierarchy)
    below, above = instances.hierarchy.ancestors.coordinates()
    truths = Truths.of_keys(below.astype(np.int64) * size + above, size, device)
    return SubsumptionSource(_tensor(facts.subs, device), _tensor(facts.supers, device), truths)


def _typings(instances: Instances, entities: int, device: torch.device) -> TypingSource:
    size = len(instances.hierarchy)
    typed, types = instances.concepts_of.coordinates()
    truths = Truths.of_keys(typed.astype(np.int64) * size + types, size, device)
    return TypingSource(_tensor(typed, device), _tensor(types, device), truths, entities)


def _tensor(column: NDArray[np.int32] | Keys, device: torch.device) -> Tensor:
    return torch.from_numpy(np.array(column, np.int64)).to(device)


def _pairs(pair: tuple[Tensor, Tensor], negatives: tuple[Drawn, Drawn]) -> Draw:
    """The true pair in column 0, the false ones behind it."""
    first, second = (torch.cat([own[:, None], drawn.ids_BM], 1) for own, drawn in zip(pair, negatives, strict=True))
    return Draw(first, second, negatives[0].valid_BM)
