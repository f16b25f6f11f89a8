"""The feature map: its bound holds, and the hundred best stay exact."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from tarbox.models.divergence import Halves, similarity
from tarbox.models.features import COARSE, FINE, FeatureMap

ENTITIES = 400
MAPS = pytest.mark.parametrize("features", [COARSE, FINE], ids=["coarse", "fine"])


def random(rows: int) -> Tensor:
    return torch.rand(rows, ENTITIES)


def peaked(rows: int) -> Tensor:
    """A few members each, all others near 0."""
    return torch.sigmoid(6 * torch.randn(rows, ENTITIES) - 8)


def generated(rows: int) -> Tensor:
    """As a model makes them: from generators of few dimensions."""
    entities = torch.randn(8, ENTITIES, generator=torch.Generator().manual_seed(1))
    return torch.sigmoid(1.5 * torch.randn(rows, 8) @ entities)


def nearly_alike(rows: int) -> Tensor:
    return torch.sigmoid(0.05 * torch.randn(rows, ENTITIES))


@MAPS
def test_the_bound_holds_for_every_ratio(features: FeatureMap) -> None:
    ratio = np.linspace(-60, 60, 200_001)
    with np.errstate(over="ignore"):
        kernel = (np.exp(ratio / 2) * np.logaddexp(0, -ratio) + np.exp(-ratio / 2) * np.logaddexp(0, ratio)) / 2
    series = sum(c * np.cos(order * features.period * ratio) for order, c in enumerate(features.weights))
    assert (np.abs(series - kernel / np.log(2)) / np.cosh(ratio / 2)).max() <= features.bound


@MAPS
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("make", [random, peaked, generated, nearly_alike])
def test_approximate_scores_are_within_the_bound(features: FeatureMap, make: Callable[[int], Tensor], p: float) -> None:
    torch.manual_seed(0)
    concepts, queries = (Halves.of(make(n).double(), p, 1e-12) for n in (50, 10))
    error = features.approximate(concepts, queries) - similarity(concepts, queries)
    sums = concepts.values.sum(1) + queries.values.sum(1)[:, None]
    assert (error.abs() <= features.bound * np.log(2) * sums / queries.scale + 1e-6).all()


@MAPS
@pytest.mark.parametrize("make", [random, peaked, generated])
def test_the_hundred_best_stay_exact(features: FeatureMap, make: Callable[[int], Tensor]) -> None:
    torch.manual_seed(0)
    concepts, queries = (Halves.of(make(n), 1, 1e-12) for n in (1500, 12))
    wanted = similarity(concepts, queries).topk(100)
    found = features.nearest(concepts, queries, 100)
    assert found.certain.all()
    torch.testing.assert_close(found.scores, wanted.values, rtol=0, atol=1e-6)
    for rows, exact in zip(found.rows, wanted.indices, strict=True):
        assert len(set(rows.tolist()) ^ set(exact.tolist())) <= 2  # a tie at the hundredth place may fall either way


def test_what_is_not_proven_is_said() -> None:
    """Sets that differ by less than the bound: no claim is made."""
    torch.manual_seed(0)
    concepts, queries = (Halves.of(nearly_alike(n), 1, 1e-12) for n in (300, 4))
    assert not COARSE.nearest(concepts, queries, 5, spare=3).certain.any()


def test_fewer_concepts_than_asked_for() -> None:
    torch.manual_seed(0)
    concepts, queries = (Halves.of(random(n), 1, 1e-12) for n in (7, 4))
    found = FINE.nearest(concepts, queries, 100)
    assert found.rows.shape == (4, 7)
    assert found.certain.all()
    torch.testing.assert_close(found.scores, similarity(concepts, queries).sort(descending=True).values)
