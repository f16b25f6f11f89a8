"""One step: draw, score, differentiate, update; everything on the device, nothing read back.

On a GPU the whole step is recorded once as a CUDA graph and replayed, so that its hundreds of small kernels cost no
launches. That is why the random numbers, the place in the epoch and the sums of losses live in tensors there.
"""

# ruff: noqa: N806 (shape suffixes)

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol, final

import torch
from torch import Tensor, nn

from tarbox.core.config import check_settings
from tarbox.models.base import Task
from tarbox.models.learning.batches import Draw, Portions
from tarbox.models.learning.negatives import Sampler
from tarbox.models.learning.objective import Objective
from tarbox.models.recording import Recorded
from tarbox.models.sharing import sharing
from tarbox.training.adagrad import Adagrad
from tarbox.training.hardware import Hardware

TABLES: Final = frozenset({"entities", "relations"})
"""What the parameters are called that have a row for each entity or relation."""
FACTOR: Final = "factor"
"""In a group of parameters: what the learning rate is multiplied with."""

DECAYS: Final[Mapping[str, Callable[[float], float]]] = MappingProxyType(
    {
        "constant": lambda _: 1.0,
        "linear": lambda done: 1.0 - done,
        "cosine": lambda done: 0.5 + 0.5 * math.cos(math.pi * done),
    }
)
"""How the learning rate falls, by the share of the epochs that are done."""
OPTIMIZERS: Final = ("adam", "adamw", "adagrad")
"""Kingma and Ba 2015, Loshchilov and Hutter 2019, Duchi et al. 2011."""


@final
@dataclass(frozen=True, slots=True)
class OptimizerConfig:
    """The `kind`, with this learning rate, which falls by `decay`; `floor` is its least share. The rest is Adam's.

    `weight_decay` is added to the gradient by adam, and taken from the weights themselves by adamw. The rate of tables
    with a row for each entity or relation is `tables` times the rate of everything else.
    """

    kind: str = "adam"
    rate: float = 1e-3
    decay: str = "constant"
    floor: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    tables: float = 1.0

    def __post_init__(self) -> None:
        check_settings(self, {"kind": OPTIMIZERS, "decay": DECAYS}, ("rate", "tables"))

    def rate_at(self, done: float) -> float:
        """The learning rate when this share of the epochs is done."""
        return self.rate * max(self.floor, DECAYS[self.decay](done))


def build_optimizer(config: OptimizerConfig, module: nn.Module, hardware: Hardware) -> torch.optim.Optimizer:
    """The optimizer of all parameters; on a GPU what changes from step to step are tensors, so it can be recorded."""
    groups: list[dict[str, Any]] = []
    for factor, named in _by_factor(config, module):
        rate = config.rate * factor  # a tensor of its own for each group, since they are set in place
        groups.append(
            {
                "params": named,
                "lr": torch.tensor(rate, device=hardware.device) if hardware.cuda else rate,
                FACTOR: factor,
            }
        )
    if config.kind == "adagrad":
        return Adagrad(groups)
    kind = torch.optim.AdamW if config.kind == "adamw" else torch.optim.Adam
    return kind(
        groups,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        weight_decay=config.weight_decay,
        fused=True,
        capturable=hardware.cuda,
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Change the learning rate, in place where it is a tensor."""
    for group in optimizer.param_groups:
        own = rate * group.get(FACTOR, 1.0)
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(own)
        else:
            group["lr"] = own


def _by_factor(config: OptimizerConfig, module: nn.Module) -> list[tuple[float, list[Tensor]]]:
    """What the rate is multiplied with, and the parameters it is so for, in the module's order."""
    found: dict[float, list[Tensor]] = {}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            factor = config.tables if name.rpartition(".")[2] in TABLES else 1.0
            found.setdefault(factor, []).append(parameter)
    return list(found.items())


Agreement = Callable[[Tensor], Tensor]
"""Between backward pass and update: makes gradients those of all processes, and the losses [4] of the tasks, too."""


def alone(tasks_T: Tensor) -> Tensor:  # noqa: N803
    """The agreement of one process."""
    return tasks_T


class EpochPlan(Protocol):
    """`steps` of `samples` each make an epoch, of these tasks; it goes on where it is told to begin."""

    steps: int
    samples: int
    tasks: list[Task]

    def begin(self, seed: int, epoch: int, step: int) -> None: ...


class Stepper(Protocol):
    """What the loop drives: an `Engine`, or one of several processes (`tarbox.training.sharded`). Its checkpoints are
    written in `shards` files."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    sampler: Sampler
    losses_T: Tensor  # noqa: N815
    shards: int

    @property
    def portions(self) -> EpochPlan: ...

    def operations(self) -> int: ...

    def runner(self, hardware: Hardware) -> Callable[[], None]: ...

    def set_rate(self, rate: float) -> None: ...

    def collect(self) -> None:
        """Bring all weights and what the optimizer knows of them here."""


@final
class Engine:
    """The module, what it learns from, and the update; `losses_T` [4] sums the loss of each task over steps."""

    shards = 1

    def __init__(
        self,
        module: nn.Module,
        portions: Portions,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        sampler: Sampler,
        agree: Agreement = alone,
    ) -> None:
        self.module, self.portions, self.objective = module, portions, objective
        self.optimizer, self.sampler, self._agree = optimizer, sampler, agree
        self.losses_T = torch.zeros(len(Task), dtype=torch.float64, device=sampler.generator.device)

    def runner(self, hardware: Hardware) -> Callable[[], None]:
        """How a step is made on this hardware."""

        def step() -> None:
            self.optimizer.zero_grad(set_to_none=True)
            with hardware.autocast(), sharing():
                loss, tasks_T = self._losses(self._draw())
            loss.backward()  # type: ignore[no-untyped-call]
            tasks_T = self._agree(tasks_T)
            self.optimizer.step()
            self.losses_T.add_(tasks_T)

        recorded = hardware.cuda and hardware.config.graphs and self._agree is alone
        return Recorded(step, self.sampler.generator) if recorded else step

    def operations(self) -> int:
        """About how many multiplications the largest kernel of a step makes: the samples of a portion, by their
        candidates, by the longest row of a table."""
        negatives = self.sampler.config.count
        longest = max((parameter.shape[-1] for parameter in self.module.parameters() if parameter.ndim > 1), default=1)
        portions = zip(self.portions.sources, self.portions.sizes, strict=True)
        cells: int = max(size * source.cells(negatives) for source, size in portions)
        return cells * int(longest)

    def set_rate(self, rate: float) -> None:
        set_rate(self.optimizer, rate)

    def collect(self) -> None:
        """All is here, always."""

    def _draw(self) -> list[Draw]:
        with torch.no_grad():
            rows = self.portions.advance()
            return [source.draw(own, self.sampler) for source, own in zip(self.portions.sources, rows, strict=True)]

    def _losses(self, draws: Sequence[Draw]) -> tuple[Tensor, Tensor]:
        """(the loss, [4] each task's) of the portions drawn."""
        losses = [
            source.loss(self.module, draw, self.objective)
            for source, draw in zip(self.portions.sources, draws, strict=True)
        ]
        return self.objective.combine(losses)
