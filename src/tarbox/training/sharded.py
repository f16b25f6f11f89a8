"""Steps of a link predictor in shards, of several processes (ADR 55) or of one whose tables are elsewhere (ADR 61).

Who has which nodes and links is in `sharding`, how rows get there in `shard_tables`.

A `Member` is what every process has of a fit. The leader has the whole tables beside it, and a `ShardedEngine` in the
place of an `Engine`: what the loop asks of it becomes an order, which all members obey alike.

Rivals of a link are drawn from the nodes that its process has, which stand for all. Gradients of relations are averaged
in every step, those of nodes concern one process alone. What is random comes from the seed, the epoch, the step and the
process, so that a resumed fit with as many processes goes on bit by bit.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import IntEnum
from typing import Any, cast, final

import torch
from torch import Tensor, nn

from tarbox.core.config import read_config, to_table
from tarbox.core.errors import ConfigError
from tarbox.models.base import Sizes, Task
from tarbox.models.complex import Complex, ComplexConfig
from tarbox.models.learning.batches import Portions, SampleSource, steps_of
from tarbox.models.learning.negatives import Sampler
from tarbox.models.learning.objective import Objective
from tarbox.models.links import Lifts, LinkSource, Rivals
from tarbox.models.registry import find_model
from tarbox.training.adagrad import Adagrad
from tarbox.training.group import ProcessGroup, ProcessLost, torchrun_rank
from tarbox.training.hardware import Hardware, numerics, threads
from tarbox.training.memory import kept
from tarbox.training.settings import Settings, resolve
from tarbox.training.shard_tables import ShardTables, WholeTables
from tarbox.training.sharding import NodeShards, Rounds
from tarbox.training.step import Engine, build_optimizer, set_rate


class LeaderOrder(IntEnum):
    """What the leader tells; QUIT and FIT between fits, the others within one."""

    QUIT = 0
    FIT = 1
    PLACE = 2
    EPOCH = 3
    STEP = 4
    COLLECT = 5
    RELEASE = 6


@final
class Member:
    """What a process has of a fit: two shards of the nodes, the relations, and all links."""

    def __init__(
        self,
        group: ProcessGroup,
        settings: Settings,
        config: ComplexConfig,
        sizes: Sizes,
        sources: Sequence[LinkSource],
    ) -> None:
        self.group, self.settings, self.sources = group, settings, sources
        self.hardware = Hardware(replace(settings.hardware, graphs=False), group.device)
        self._sampler = Sampler(settings.negatives, torch.Generator(group.device))
        self._epoch = self._step = 0
        rounds = Rounds.of(group.size, settings.hardware.shards)
        self.shards = NodeShards.of(sizes, rounds, self._count_links(sizes))
        with torch.device("meta"):
            module = Complex(config, self.shards.local_sizes)
        self.module = module.to_empty(device=group.device)
        self.optimizer = cast(Adagrad, build_optimizer(settings.optimizer, self.module, self.hardware))
        self.tables = ShardTables(group, self.shards, WholeTables.of(self.module, self.optimizer))
        self._objective = Objective.of(settings.objective, [own.task for own in sources], group.device)
        self.round_steps = steps_of_round(settings, sources, group.size, len(rounds))
        self.losses_T = torch.zeros(len(Task), dtype=torch.float64, device=group.device)
        self._nobody = torch.empty(0, dtype=torch.int64, device=group.device)
        self._drawn: list[tuple[LinkSource, Tensor, Tensor]] = []
        self._run: Callable[[], None] = self._idle

    def _count_links(self, sizes: Sizes) -> Tensor:
        """[nodes] the links of each, as those of one epoch are drawn."""
        self._reseed("links")
        links = torch.cat([own.lift(own.links_L3, self._sampler)[:, 1:] for own in self.sources])
        return torch.bincount(links.flatten(), minlength=sizes.entities + sizes.concepts)

    @classmethod
    def join(cls, group: ProcessGroup, about: Mapping[str, Any], tensors: Sequence[Tensor]) -> Member:
        """As the leader says, in another process."""
        rest, sources = iter(tensors), []
        for own in about["sources"]:
            links_L3 = next(rest)
            lifts = Lifts(own["typing"], next(rest), next(rest)) if own["typing"] is not None else None
            rivals = Rivals(slice(*own["reached"]), own["drawn"])
            sources.append(LinkSource(Task(own["task"]), links_L3, rivals, own["sparse"], lifts))
        config = read_config(ComplexConfig, about["model"])
        return cls(group, resolve([about["settings"]]), config, Sizes(**about["sizes"]), sources)

    @property
    def steps(self) -> int:
        """Of an epoch."""
        return self.round_steps * len(self.shards.rounds)

    @property
    def round(self) -> int:
        return self._step // self.round_steps

    def obey(self, kind: float, *numbers: float) -> None:
        """Everybody does the same; the leader has the tables at home beside."""
        match LeaderOrder(int(kind)):
            case LeaderOrder.PLACE:
                self.tables.place(int(numbers[0]))
            case LeaderOrder.EPOCH:
                set_rate(self.optimizer, numbers[2])
                self._begin(int(numbers[0]), int(numbers[1]))
            case LeaderOrder.STEP:
                self._advance()
            case LeaderOrder.COLLECT:
                self.tables.collect()
            case other:
                raise AssertionError(other)

    def _begin(self, epoch: int, step: int) -> None:
        """Draw the links of an epoch, the same everywhere, and see which are whose. One that was killed between its
        last step and its end has no step left."""
        self._epoch, self._step = epoch, step
        self._reseed("links")
        self._drawn = []
        for own in self.sources:
            links_L3 = own.lift(own.links_L3, self._sampler)
            self._drawn.append((own, links_L3, self.shards.turns(links_L3, self.group.rank)))
        if self._step < self.steps:
            self._open_round()

    def _open_round(self) -> None:
        """The links of this round, in the rows that are here for their nodes."""
        number, places = self.round, self.module.places
        reached = {Task.ENTITY: places.entities, Task.INSTANTIATION: places.concepts}
        sources: list[SampleSource] = []
        present = []
        for place, (own, links_L3, turns_L) in enumerate(self._drawn):
            links = self.shards.localize(links_L3[turns_L == number], number)
            if len(links):
                rivals = Rivals(reached[own.task], own.rivals.drawn, self.shards.rounds.shards / 2)
                sources.append(LinkSource(own.task, links, rivals, own.sparse))
                present.append(place)
        self._nobody = self.shards.nobody(number, self.group.rank)
        self._run = self._idle
        if sources:
            size = max(1, sum(map(len, sources)) // self.round_steps)
            batches = replace(self.settings.batches, size=size, most_steps=self.round_steps)
            portions = Portions(sources, batches, self.group.device)
            portions.begin(self.settings.seed, self._epoch, self._step % self.round_steps)
            objective = replace(self._objective, shares_PT=self._objective.shares_PT[present])
            engine = Engine(self.module, portions, objective, self.optimizer, self._sampler, self._agree)
            engine.losses_T = self.losses_T
            self._run = engine.runner(self.hardware)
        self.module.train()

    def _advance(self) -> None:
        self._reseed(f"{self._step}/{self.group.rank}")
        self._run()
        self.module.nodes.detach()[self._nobody] = 0.0  # a rival that is nobody learns nothing
        self._step += 1
        if self._step % self.round_steps == 0:
            self.tables.move(self.round)
            if self._step < self.steps:
                self._open_round()

    def _idle(self) -> None:
        """The step of a process that has no link in this round: relations change with those of others."""
        self.optimizer.zero_grad(set_to_none=True)
        self.module.relations.grad = torch.zeros_like(self.module.relations)
        tasks_T = self._agree(torch.zeros(len(Task), device=self.group.device))
        self.optimizer.step()
        self.losses_T.add_(tasks_T)

    def _agree(self, tasks_T: Tensor) -> Tensor:
        """The mean gradient of relations, and the mean losses, of all processes: they are there when the optimizer has
        come to the relations. What is on its way is waited for after the nodes, which are this process's alone."""
        gradient = self.module.relations.grad
        assert gradient is not None
        together = torch.cat([gradient.flatten(), tasks_T.to(gradient.dtype)])
        wait = self.group.add_up(together)

        def receive() -> None:
            wait()
            together.div_(self.group.size)
            gradient.copy_(together[: gradient.numel()].view_as(gradient))

        self.optimizer.awaited[self.module.relations] = receive
        return together[gradient.numel() :]

    def _reseed(self, what: str) -> None:
        text = f"{self.settings.seed}/{self._epoch}/{what}"
        own = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1
        self._sampler.generator.manual_seed(own)


@final
class ShardedEngine:
    """The leader's: drives a `Member` of its own and, by orders, all others. It is its own `portions`."""

    def __init__(
        self,
        group: ProcessGroup,
        settings: Settings,
        module: Complex,
        sources: Sequence[SampleSource],
        hardware: Hardware,
    ) -> None:
        self.module: nn.Module = module
        self.sampler = Sampler(settings.negatives, torch.Generator(group.device).manual_seed(settings.seed))
        self.optimizer = build_optimizer(settings.optimizer, module, hardware)
        self.losses_T = torch.zeros(len(Task), dtype=torch.float64, device=group.device)
        self._group, self._settings, self._complex = group, settings, module
        self._sources = [cast(LinkSource, own) for own in sources]
        self._rate = settings.optimizer.rate
        self.member: Member | None = None
        rounds = Rounds.of(group.size, settings.hardware.shards)
        self.steps = steps_of_round(settings, self._sources, group.size, len(rounds)) * len(rounds)
        self.samples = math.ceil(sum(map(len, sources)) / self.steps)
        self.tasks = [own.task for own in sources]
        self.shards = rounds.shards

    @property
    def portions(self) -> ShardedEngine:
        return self

    def operations(self) -> int:
        cells = max(own.cells(0) for own in self._sources) / (self.shards / 2)
        return int(self.samples / self._group.size * cells * self._complex.nodes.shape[1])

    def set_rate(self, rate: float) -> None:
        self._rate = rate

    def begin(self, seed: int, epoch: int, step: int) -> None:  # noqa: ARG002 (the settings have it)
        """The members begin with the first epoch: what was restored before goes to them."""
        if self.member is None:
            self.member = self._gather()
            self.member.tables.lead(WholeTables.of(self._complex, self.optimizer))
            self._order(LeaderOrder.PLACE, step // self.member.round_steps)
            self.member.losses_T = self.losses_T
        self._order(LeaderOrder.EPOCH, epoch, step, self._rate)

    def runner(self, hardware: Hardware) -> Callable[[], None]:  # noqa: ARG002
        return lambda: self._order(LeaderOrder.STEP)

    def collect(self) -> None:
        if self.member is not None:
            self._order(LeaderOrder.COLLECT)

    def release(self) -> None:
        """The members forget this fit."""
        if self.member is not None:
            with suppress(ProcessLost):
                self._group.tell(LeaderOrder.RELEASE)

    def _order(self, order: LeaderOrder, *numbers: float) -> None:
        assert self.member is not None
        self._group.tell(order, *numbers, wait=order is not LeaderOrder.STEP)
        self.member.obey(order, *numbers)

    def _gather(self) -> Member:
        """Tell all what is to be fitted."""
        self._group.tell(LeaderOrder.FIT)
        about, tensors = [], []
        for own in self._sources:
            lifts, reached = own.lifts, own.rivals.reached
            tensors += [own.links_L3, *(() if lifts is None else lifts[1:])]
            row = {"task": own.task.value, "sparse": own.sparse, "typing": None if lifts is None else lifts.typing}
            about.append(row | {"reached": [reached.start, reached.stop], "drawn": own.rivals.drawn})
        sizes, config = self._complex.places.sizes, self._complex.config
        told = {"sources": about, "sizes": to_table(sizes), "model": to_table(config), "operations": self.operations()}
        self._group.spread(told | {"settings": self._settings.table()}, tensors)
        return Member(self._group, self._settings, config, sizes, self._sources)


def follow(group: ProcessGroup) -> None:
    """What all processes but the leader do."""
    while group.hear()[0] == LeaderOrder.FIT:
        about, tensors = group.spread()
        member = Member.join(group, about, tensors)
        with numerics(member.hardware), threads(member.hardware, about["operations"]), kept():
            while (order := group.hear())[0] != LeaderOrder.RELEASE:
                member.obey(*order)


def check_processes(settings: Settings) -> None:
    """Refuse what several processes, or one with shards, cannot do."""
    if settings.hardware.processes == 1 and not settings.hardware.shards and torchrun_rank() is None:
        return
    if not find_model(settings.model_name).in_processes:
        raise ConfigError(f"{settings.model_name} is trained in one process, without shards; credo can be in several")
    if settings.optimizer.kind != "adagrad":
        raise ConfigError(
            f"optimizer.kind is {settings.optimizer.kind!r}: several processes, and shards, are trained with adagrad. "
            "Leave out --processes and hardware.shards, or --set optimizer.kind=adagrad."
        )


def steps_of_round(settings: Settings, sources: Sequence[SampleSource], processes: int, rounds: int) -> int:
    """So that each process has a batch of one (ADR 55)."""
    steps = steps_of(sum(map(len, sources)), settings.batches)
    return max(1, round(steps / (processes * rounds)))
