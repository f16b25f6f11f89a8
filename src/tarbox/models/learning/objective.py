"""Eq. 17, in one place, and its named alternatives.

    L = -1/(4m) sum over tasks n and negatives i of log sigmoid(S_n+ - S_ni-)

A *portion* is what one step draws from one source of samples: queries of one shape and level, subsumptions, typings.
Its loss is the mean over its positives of 1/m times the sum over negatives. The loss of a task averages its portions,
the loss of a step averages its tasks. So the published code averages over the templates of a task.
"""

# ruff: noqa: N803, N806, N815 (shape suffixes)

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, final

import torch
from torch import Tensor
from torch.nn import functional

from tarbox.core.errors import ConfigError
from tarbox.models.base import Task

LossFunction = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(positive [B, 1], negatives [B, M], valid [B, M]) to the loss of each positive [B]."""


def pairwise(positive_B1: Tensor, negatives_BM: Tensor, valid_BM: Tensor) -> Tensor:
    """Eq. 17: the mean over negatives of -log sigmoid(S+ - S-); an invalid negative counts 0."""
    losses_BM = functional.softplus(negatives_BM - positive_B1)
    return (losses_BM * valid_BM).mean(1)


def softmax(positive_B1: Tensor, negatives_BM: Tensor, valid_BM: Tensor) -> Tensor:
    """Cross entropy of the positive among itself and its negatives."""
    rivals_BM = negatives_BM.masked_fill(~valid_BM, -torch.inf)
    return torch.logsumexp(torch.cat([positive_B1, rivals_BM], 1), 1) - positive_B1.squeeze(1)


def self_adversarial(positive_B1: Tensor, negatives_BM: Tensor, valid_BM: Tensor) -> Tensor:
    """Sun et al. 2019 (RotatE): as `margin`, but harder negatives weigh more."""
    hardness_BM = torch.where(valid_BM, negatives_BM, torch.finfo(negatives_BM.dtype).min).softmax(1).detach()
    losses_B = (hardness_BM * functional.softplus(negatives_BM) * valid_BM).sum(1)
    return (functional.softplus(-positive_B1).squeeze(1) + losses_B) / 2


def margin(positive_B1: Tensor, negatives_BM: Tensor, valid_BM: Tensor) -> Tensor:
    """The loss of Query2box, BetaE and FuzzQE: -log sigmoid(S+) and the mean over negatives of -log sigmoid(-S-).

    Scores hold their margin gamma; an invalid negative counts 0.
    """
    losses_B = (functional.softplus(negatives_BM) * valid_BM).mean(1)
    return (functional.softplus(-positive_B1).squeeze(1) + losses_B) / 2


LOSSES: Final[Mapping[str, LossFunction]] = MappingProxyType(
    {"pairwise": pairwise, "softmax": softmax, "self-adversarial": self_adversarial, "margin": margin}
)


@final
@dataclass(frozen=True, slots=True)
class PerTask:
    """One number for each task."""

    entity: float = 1.0
    concept: float = 1.0
    subsumption: float = 1.0
    instantiation: float = 1.0

    def of(self, task: Task) -> float:
        return float(getattr(self, task.value))


@final
@dataclass(frozen=True, slots=True)
class ObjectiveConfig:
    """The loss, and the weight of each task.

    `without` names tasks to leave out: the paper's ablations leave out `subsumption` or `instantiation`.
    """

    loss: str = "pairwise"
    weights: PerTask = field(default_factory=PerTask)
    without: tuple[Task, ...] = ()

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise ConfigError(f"no loss {self.loss!r}; there are {', '.join(LOSSES)}")
        if len(set(self.without)) == len(Task):
            raise ConfigError("objective.without leaves out every task: there would be nothing to learn")

    def tasks(self, able: frozenset[Task]) -> tuple[Task, ...]:
        """The tasks that are trained, of those the model is able to learn."""
        return tuple(task for task in Task if task in able and task not in self.without)


@final
@dataclass(frozen=True, slots=True)
class Objective:
    """The loss of a step: `shares_PT` [P, 4] is the share of each portion in the average of each task, `weights_T` [4]
    the share of each task in the loss. Both are on the device beforehand: a recorded step copies nothing to it.
    """

    config: ObjectiveConfig
    shares_PT: Tensor
    weights_T: Tensor

    @classmethod
    def of(cls, config: ObjectiveConfig, portions: Sequence[Task], device: torch.device) -> Objective:
        """For portions of these tasks."""
        counts = Counter(portions)
        shares = [[1 / counts[task] if task is own else 0.0 for task in Task] for own in portions]
        weights = [config.weights.of(task) / len(counts) if task in counts else 0.0 for task in Task]
        return cls(config, torch.tensor(shares, device=device), torch.tensor(weights, device=device))

    def loss_of(self, scores_BK: Tensor, valid_BM: Tensor, weights_B: Tensor | None = None) -> Tensor:
        """The mean loss of one portion, by these weights; column 0 of the scores is the positive's."""
        wide_BK = scores_BK.float()
        losses_B = LOSSES[self.config.loss](wide_BK[:, :1], wide_BK[:, 1:], valid_BM)
        return losses_B.mean() if weights_B is None else (losses_B * weights_B).sum() / weights_B.sum()

    def combine(self, losses: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """(the loss of the step, [4] the loss of each task) of the portions' losses."""
        # Sums of products, since autocast would round a matrix product to bfloat16.
        tasks_T = (torch.stack(list(losses))[:, None] * self.shares_PT).sum(0)
        return (tasks_T * self.weights_T).sum(), tasks_T.detach()
