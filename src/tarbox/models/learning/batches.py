"""Training samples, resident on the device, and what a step draws from them.

A sample is one positive; a *source* holds all samples of one kind: queries of one shape and level, subsumptions, or
typings. A step draws a portion from every source. In data proportion an epoch passes each sample once; with another
balance it has as many steps, and passes small sources several times, large ones in part. The order of an epoch is a
permutation made on the device from the seed, the epoch and the source alone: a resumed run makes it again. Sizes never
change from step to step.
"""

# ruff: noqa: N803, N815 (shape suffixes)

from __future__ import annotations

import abc
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, cast, final

import torch
from torch import Tensor, nn

from tarbox.benchmark.tables import render_shape
from tarbox.core.config import check_settings
from tarbox.core.errors import BenchmarkError, ConfigError
from tarbox.core.ids import Level
from tarbox.models.base import Model, Task
from tarbox.models.learning.negatives import Drawn, Sampler, Truths, corrupt_answers
from tarbox.models.learning.objective import Objective
from tarbox.query.algebra import Query

TASKS: Final = {Level.ENTITY: Task.ENTITY, Level.CONCEPT: Task.CONCEPT}


@final
@dataclass(frozen=True, slots=True)
class BatchConfig:
    """`size` samples of all tasks together make a step, from each source in proportion to its number of samples to the
    power `balance`: 1 is the proportion of the data, 0 takes as many from each. An epoch has at most `most_steps` steps
    (0: any number); where there are more samples than that, a step takes more of them.

    One-hop queries are made of all assertions, in both `directions` or of the tails alone, the paper's h -r-> ?. A
    sample of them is each of their answers or, by `one_hop_samples`, each of the queries, which draws one of its own.
    Other queries are samples, too, and draw from all of their true answers. `subsampling` weighs the samples of a query
    with n answers by 1 / sqrt(n + 4), as BetaE and its relatives do.
    """

    size: int = 2048
    most_steps: int = 0
    balance: float = 1.0
    one_hop_samples: str = "answers"
    directions: str = "both"
    subsampling: bool = False

    def __post_init__(self) -> None:
        check_settings(self, {"one_hop_samples": ("answers", "queries"), "directions": ("both", "tails")})
        if self.size < 1:
            raise ConfigError(f"batches.size is {self.size}; it must be at least 1")
        if self.most_steps < 0:
            raise ConfigError(f"batches.most_steps is {self.most_steps}; it must be 0 or more")
        if not 0 <= self.balance <= 1:
            raise ConfigError(f"batches.balance is {self.balance}; it must be between 0 and 1")


class Draw(NamedTuple):
    """A portion as tensors: what is compared, the positive in column 0, and which negatives [B, M] are valid.

    For queries `first` are their slots [B, S] and `second` the candidates [B, K]; for pairs both are [B, K].
    `weights_B` are the weights of the samples in the loss of the portion; without them all weigh the same.
    """

    first: Tensor
    second: Tensor
    valid_BM: Tensor
    weights_B: Tensor | None = None


class SampleSource(abc.ABC):
    """Samples of one kind. `draw` gives a portion of them, `loss` what the module has to learn from it; every size is
    the same in each step, so that steps can be recorded."""

    name: str
    task: Task

    @abc.abstractmethod
    def __len__(self) -> int:
        """The number of samples."""

    @abc.abstractmethod
    def draw(self, rows_B: Tensor, sampler: Sampler) -> Draw:
        """The samples at these places, with negatives."""

    @abc.abstractmethod
    def loss(self, module: nn.Module, draw: Draw, objective: Objective) -> Tensor:
        """The mean loss of what was drawn."""

    def cells(self, negatives: int) -> int:
        """How many candidates a sample is compared with, with so many negatives: what a step costs is made of it."""
        return 1 + negatives


class ScoredSource(SampleSource):
    """Samples whose positives are told from negatives by their scores, with the loss that the objective names."""

    @abc.abstractmethod
    def score(self, model: Model, draw: Draw) -> Tensor:
        """[B, 1 + m] the positive's score, then the negatives'."""

    @final
    def loss(self, module: nn.Module, draw: Draw, objective: Objective) -> Tensor:
        """`module` is a `Model`."""
        return objective.loss_of(self.score(cast(Model, module), draw), draw.valid_BM, draw.weights_B)


@final
class QuerySource(ScoredSource):
    """Queries of one shape: row i asks query `groups[i]`, whose positives are `values` from `starts[i]`, `sizes[i]`."""

    def __init__(self, kind: Kind, queries_GS: Tensor, rows: SampleRows, truths: Truths) -> None:
        self.name = f"{kind.level.value}: {render_shape(kind.shape)}"
        self.task = kind.task or TASKS[kind.level]
        self._level, self._shape = kind.level, kind.shape
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
        weights = None if rows.weights is None else rows.weights[rows_B]
        return Draw(self._queries_GS[groups], candidates, negatives.valid_BM, weights)

    def score(self, model: Model, draw: Draw) -> Tensor:
        return model.score_candidates(self._shape, draw.first, self._level, draw.second)


class Kind(NamedTuple):
    """What a query source holds; `task` is that of the level unless another is given."""

    level: Level
    shape: Query
    task: Task | None = None


class SampleRows(NamedTuple):
    """The samples of a query source; see there."""

    groups: Tensor
    starts: Tensor
    sizes: Tensor
    values: Tensor
    weights: Tensor | None = None


Pair = tuple[Tensor, Tensor]


@final
class PairSource(ScoredSource):
    """True pairs: the asserted subsumptions, or the typings under closure. `corrupt` makes false pairs of true ones."""

    def __init__(self, task: Task, pairs: Pair, corrupt: Callable[[Sampler, Pair], tuple[Drawn, Drawn]]) -> None:
        self.name, self.task = task.value, task
        self._pairs, self._corrupt = pairs, corrupt

    def __len__(self) -> int:
        return len(self._pairs[0])

    def draw(self, rows_B: Tensor, sampler: Sampler) -> Draw:
        """The true pair in column 0, the false ones behind it."""
        pair = self._pairs[0][rows_B], self._pairs[1][rows_B]
        negatives = self._corrupt(sampler, pair)
        first, second = (torch.cat([own[:, None], drawn.ids_BM], 1) for own, drawn in zip(pair, negatives, strict=True))
        return Draw(first, second, negatives[0].valid_BM)

    def score(self, model: Model, draw: Draw) -> Tensor:
        degree = model.subsumption if self.task is Task.SUBSUMPTION else model.instantiation
        return degree(draw.first, draw.second)


def steps_of(samples: int, config: BatchConfig) -> int:
    """How many steps an epoch of so many samples has."""
    steps = max(1, round(samples / config.size))
    return min(steps, config.most_steps) if config.most_steps else steps


@final
class Portions:
    """How much of each source a step takes, of which task it is, and where it is in the order of the epoch. `samples`
    are those of a step.

    `place` is a tensor that every `advance` increments, so that a recorded step moves on by itself.
    """

    def __init__(self, sources: Sequence[SampleSource], config: BatchConfig, device: torch.device) -> None:
        self.sources = tuple(source for source in sources if len(source))
        if not self.sources:
            raise BenchmarkError("there is nothing to train on: no queries, assertions, typings or subsumptions")
        samples = sum(map(len, self.sources))
        self.steps = steps_of(samples, config)
        weights = [len(source) ** config.balance for source in self.sources]
        self.sizes = tuple(math.ceil(round(samples * weight / (self.steps * sum(weights)), 6)) for weight in weights)
        self.samples: int = sum(self.sizes)
        self.tasks = [source.task for source in self.sources]
        self._place = torch.zeros((), dtype=torch.int64, device=device)
        self._orders = [torch.zeros(len(source), dtype=torch.int64, device=device) for source in self.sources]
        self._within = [torch.arange(size, device=device) for size in self.sizes]

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
