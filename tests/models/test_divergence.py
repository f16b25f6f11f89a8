"""Eq. 12 and 13: every engine against the sums written down, and the gradient against differences."""

# ruff: noqa: N806 (shape suffixes)

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from similarity import reference
from tarbox.models import divergence
from tarbox.models.divergence import (
    Halves,
    choose_engines,
    cross_eager,
    pair_similarity,
    similarity,
)

EPSILON = 1e-12


def sigmoids(rows: int, entities: int, spread: float, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.sigmoid(spread * torch.randn(rows, entities, dtype=dtype) - 1)


def with_zeros(rows: int, entities: int, spread: float, dtype: torch.dtype = torch.float64) -> Tensor:
    """As the Łukasiewicz t-norm makes them: many exact zeros, and a set that is empty."""
    sets = (sigmoids(rows, entities, spread, dtype) - 0.3).clamp_min(0)
    sets[0] = 0
    return sets


def by_loops(concept: list[float], query: list[float], p: float) -> float:
    """Eq. 12 and 13, term by term."""

    def normalised(degrees: list[float]) -> list[float]:
        norm = max(sum(degree**p for degree in degrees) ** (1 / p), EPSILON)
        return [degree / norm for degree in degrees]

    first, second = normalised(concept), normalised(query)
    total = 0.0
    for x, y in zip(first, second, strict=True):
        mean = (x + y) / 2
        total += 0.5 * (x * math.log(x / mean) if x else 0.0)
        total += 0.5 * (y * math.log(y / mean) if y else 0.0)
    return -total


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(3)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
@pytest.mark.parametrize("make", [sigmoids, with_zeros])
def test_similarities_follow_the_equations(p: float, make: Callable[..., Tensor]) -> None:
    concepts, queries = make(4, 23, 2.0), make(3, 23, 3.0)
    wanted = [[by_loops(concept.tolist(), query.tolist(), p) for concept in concepts] for query in queries]
    wanted_BC = torch.tensor(wanted, dtype=torch.float64)
    torch.testing.assert_close(reference(concepts, queries, p, EPSILON), wanted_BC)
    both = Halves.of(concepts, p, EPSILON), Halves.of(queries, p, EPSILON)
    torch.testing.assert_close(similarity(*both), wanted_BC)
    rows_BK = torch.tensor([[3, 0], [1, 1], [2, 3]])
    torch.testing.assert_close(pair_similarity(*both, rows_BK), wanted_BC.gather(1, rows_BK))


def test_the_similarity_is_a_bounded_and_symmetric_one() -> None:
    halves = Halves.of(sigmoids(6, 40, 4.0), 1, EPSILON)
    scores = similarity(halves, halves)
    torch.testing.assert_close(scores, scores.T)
    torch.testing.assert_close(scores.diagonal(), torch.zeros(6, dtype=torch.float64))
    assert ((scores <= 0) & (scores >= -math.log(2))).all()


@pytest.mark.parametrize("entities", [1, 15, 1024, 2500])
@pytest.mark.parametrize(("rows", "batch"), [(1, 1), (5, 3), (70, 2), (3, 70)])
def test_the_engine_of_the_cpu_equals_the_reference(entities: int, rows: int, batch: int) -> None:
    concepts, queries = sigmoids(rows, entities, 3.0, torch.float32), with_zeros(batch, entities, 3.0, torch.float32)
    pytest.importorskip("numba")
    assert choose_engines(queries).cross_terms.__module__ == "tarbox.models.host_kernels"
    found = similarity(Halves.of(concepts, 1, EPSILON), Halves.of(queries, 1, EPSILON))
    torch.testing.assert_close(found, reference(concepts.double(), queries.double(), 1, EPSILON).float())


def test_several_threads_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    from tarbox.models import host_kernels

    x_CE, y_BE = torch.rand(9, 300) + 1e-3, torch.rand(7, 300)
    alone = host_kernels.cross_terms(x_CE, y_BE)
    monkeypatch.setattr(host_kernels, "_WORTH", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    torch.testing.assert_close(host_kernels.cross_terms(x_CE, y_BE), alone, rtol=0, atol=0)
    torch.testing.assert_close(host_kernels.cross_terms(x_CE, y_BE[:2]), alone[:2], rtol=0, atol=0)


def test_nearly_constant_sets_meet_no_cancellation() -> None:
    """What training starts from: similarities near 1e-8 keep their order in single precision."""
    concepts, queries = (torch.sigmoid(1e-2 * torch.randn(n, 20_000, dtype=torch.float64)) for n in (8, 4))
    found = similarity(*(Halves.of(sets.float(), 1, EPSILON) for sets in (concepts, queries)))
    wanted = reference(concepts, queries, 1, EPSILON)
    assert wanted.abs().max() < 1e-4
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=2e-8)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    concepts, queries = (Halves.of(sigmoids(n, 50, 2.0), 1, EPSILON) for n in (7, 5))
    rows_BK = torch.randint(7, (5, 3))
    whole = cross_eager(concepts.values, queries.values), pair_similarity(concepts, queries, rows_BK)
    monkeypatch.setattr(divergence, "TERMS_AT_A_TIME", {"cpu": 60})
    torch.testing.assert_close(cross_eager(concepts.values, queries.values), whole[0])
    torch.testing.assert_close(pair_similarity(concepts, queries, rows_BK), whole[1])


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("chunk", [1 << 22, 40])
def test_the_gradient_of_pairs(p: float, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divergence, "TERMS_AT_A_TIME", {"cpu": chunk})
    logits_CE, logits_BE = (torch.randn(n, 11, dtype=torch.float64, requires_grad=True) for n in (4, 3))
    rows_BK = torch.tensor([[0, 2, 2], [3, 0, 1], [2, 2, 0]])

    def scores(concepts: Tensor, queries: Tensor) -> Tensor:
        both = (Halves.of(torch.sigmoid(logits), p, EPSILON) for logits in (concepts, queries))
        return pair_similarity(*both, rows_BK)

    assert torch.autograd.gradcheck(scores, (logits_CE, logits_BE))


@pytest.mark.parametrize("p", [1, 2])
def test_the_gradient_is_a_number_where_sets_are_empty(p: float) -> None:
    sets = with_zeros(3, 20, 2.0).requires_grad_()
    halves = Halves.of(sets, p, EPSILON)
    pair_similarity(halves, halves, torch.tensor([[1], [2], [0]])).sum().backward()
    assert sets.grad is not None
    assert sets.grad.isfinite().all()


@pytest.mark.parametrize(("entities", "batch", "pairs"), [(1, 1, 1), (700, 9, 5), (2100, 3, 2)])
@pytest.mark.parametrize("worth", [0, 1 << 30])
def test_the_gradient_of_the_cpu_equals_the_reference(
    entities: int, batch: int, pairs: int, worth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    from tarbox.models import host_kernels

    monkeypatch.setattr(host_kernels, "_WORTH", worth)
    concepts, queries = (Halves.of(sigmoids(n, entities, 3.0, torch.float32), 1, EPSILON).values for n in (4, batch))
    rows_BK, grad_BK = torch.randint(4, (batch, pairs)), torch.randn(batch, pairs)
    double = concepts.double(), queries.double(), rows_BK
    found = host_kernels.pair_terms(concepts, queries, rows_BK)
    torch.testing.assert_close(found.double(), divergence.EAGER.pair_terms(*double), rtol=1e-5, atol=1e-4)
    wanted = divergence.EAGER.pair_gradients(*double, grad_BK.double())
    for single, exact in zip(host_kernels.pair_gradients(concepts, queries, rows_BK, grad_BK), wanted, strict=True):
        torch.testing.assert_close(single.double(), exact, rtol=1e-4, atol=1e-5)


def test_no_concepts_no_queries() -> None:
    some, none = (Halves.of(torch.rand(n, 5), 1, EPSILON) for n in (2, 0))
    assert similarity(none, some).shape == (2, 0)
    assert similarity(some, none).shape == (0, 2)
