"""Eq. 17 against a loop over samples, and its alternatives against their definitions."""

from __future__ import annotations

import math

import pytest
import torch

from tarbox.core.errors import ConfigError
from tarbox.models.base import Task
from tarbox.models.learning.objective import LOSSES, Objective, ObjectiveConfig, PerTask

CPU = torch.device("cpu")
PORTIONS = [(Task.CONCEPT, 2), (Task.CONCEPT, 3), (Task.ENTITY, 2), (Task.SUBSUMPTION, 1), (Task.INSTANTIATION, 2)]


def scores() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(size, 5, generator=generator) for _, size in PORTIONS]


def slow_loss() -> float:
    """-1/(4m) sum over tasks and negatives of log sigmoid(S+ - S-), one number at a time."""
    total = 0.0
    for task in Task:
        portions = [rows for rows, (own, _) in zip(scores(), PORTIONS, strict=True) if own is task]
        per_sample = [
            [sum(-math.log(1 / (1 + math.exp(-(row[0] - row[i])))) / 4 for i in range(1, 5)) for row in rows.tolist()]
            for rows in portions
        ]
        total += sum(sum(losses) / len(losses) for losses in per_sample) / len(per_sample)
    return total / 4


def test_equation_17() -> None:
    objective = Objective.of(ObjectiveConfig(), [task for task, _ in PORTIONS], CPU)
    losses = [objective.loss_of(rows, torch.ones(len(rows), 4, dtype=torch.bool)) for rows in scores()]
    loss, tasks = objective.combine(losses)
    assert float(loss) == pytest.approx(slow_loss(), rel=1e-6)
    assert float(tasks.mean()) == pytest.approx(float(loss), rel=1e-6)


def test_weights_and_ablation() -> None:
    config = ObjectiveConfig(weights=PerTask(concept=3.0), without=(Task.SUBSUMPTION,))
    assert Task.SUBSUMPTION not in config.tasks(frozenset(Task))
    objective = Objective.of(config, [Task.CONCEPT, Task.ENTITY], CPU)
    loss, _ = objective.combine([torch.tensor(2.0), torch.tensor(4.0)])
    assert float(loss) == pytest.approx((3 * 2 + 4) / 2)


@pytest.mark.parametrize("name", LOSSES)
def test_an_invalid_negative_counts_for_nothing(name: str) -> None:
    positive = torch.tensor([[0.3]])
    negatives = torch.tensor([[0.1, 50.0]], requires_grad=True)
    valid = torch.tensor([[True, False]])
    loss = LOSSES[name](positive, negatives, valid).sum()
    loss.backward()
    assert math.isfinite(loss.item())
    assert float(negatives.grad[0, 1]) == 0.0  # type: ignore[index]
    assert float(negatives.grad[0, 0]) > 0.0  # type: ignore[index]


@pytest.mark.parametrize("name", LOSSES)
def test_a_better_positive_has_a_smaller_loss(name: str) -> None:
    negatives, valid = torch.zeros(1, 4), torch.ones(1, 4, dtype=torch.bool)
    losses = [float(LOSSES[name](torch.tensor([[score]]), negatives, valid)) for score in (-1.0, 0.0, 1.0)]
    assert losses == sorted(losses, reverse=True)


def test_the_margin_loss_of_query2box_and_betae() -> None:
    """-log sigmoid(S+) and the mean of -log sigmoid(-S-), halved; a weighted mean over samples."""
    rows = torch.tensor([[2.0, -1.0, 0.5], [-0.5, 3.0, 0.0]])
    each = [
        (math.log1p(math.exp(-row[0])) + sum(math.log1p(math.exp(score)) for score in row[1:]) / 2) / 2
        for row in rows.tolist()
    ]
    objective = Objective.of(ObjectiveConfig(loss="margin"), [Task.ENTITY], CPU)
    valid = torch.ones(2, 2, dtype=torch.bool)
    assert float(objective.loss_of(rows, valid)) == pytest.approx(sum(each) / 2)
    weighted = objective.loss_of(rows, valid, torch.tensor([1.0, 3.0]))
    assert float(weighted) == pytest.approx((each[0] + 3 * each[1]) / 4)


def test_leaving_out_everything_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing to learn"):
        ObjectiveConfig(without=tuple(Task))
    with pytest.raises(ConfigError, match="no loss 'hinge'; there are pairwise"):
        ObjectiveConfig(loss="hinge")
