"""The Triton kernels against the reference."""

# ruff: noqa: N806 (shape suffixes)

from __future__ import annotations

import pytest
import torch

from tarbox.models import divergence
from tarbox.models.divergence import Halves, cross_eager, pair_similarity
from triton_device import DEVICE, INTERPRETED, NEEDS_TRITON

pytestmark = NEEDS_TRITON


def halves(rows: int, entities: int) -> Halves:
    return Halves.of(torch.sigmoid(3 * torch.randn(rows, entities, device=DEVICE) - 2), 1, 1e-12)


@pytest.mark.parametrize(("rows", "batch", "entities"), [(7, 5, 100), (33, 18, 515), (1, 1, 3000), (65, 40, 64)])
def test_all_pairs(rows: int, batch: int, entities: int) -> None:
    from tarbox.models import kernels

    torch.manual_seed(0)
    concepts, queries = halves(rows, entities).values, halves(batch, entities).values
    wanted = cross_eager(concepts.double(), queries.double())
    for tile in (kernels.TILE, kernels.Tile(8, 16, 32, 4), kernels.Tile(8, 8, 64, 4)):
        found = kernels.cross_terms(concepts, queries, tile)
        torch.testing.assert_close(found.double(), wanted, rtol=2e-6, atol=1e-6 * entities)


@pytest.mark.parametrize(("rows", "batch", "entities", "pairs"), [(7, 5, 100, 5), (3, 40, 1500, 5), (50, 2, 33, 1)])
def test_pairs_and_their_gradients(rows: int, batch: int, entities: int, pairs: int) -> None:
    from tarbox.models import kernels

    torch.manual_seed(0)
    concepts, queries = halves(rows, entities).values, halves(batch, entities).values
    rows_BK, grad_BK = torch.randint(rows, (batch, pairs), device=DEVICE), torch.randn(batch, pairs, device=DEVICE)
    double = concepts.double(), queries.double(), rows_BK
    found = kernels.pair_terms(concepts, queries, rows_BK)
    wanted = divergence.EAGER.pair_terms(*double)
    torch.testing.assert_close(found.double(), wanted, rtol=2e-6, atol=1e-6 * entities)
    gradients = kernels.pair_gradients(concepts, queries, rows_BK, grad_BK)
    for found, wanted in zip(gradients, divergence.EAGER.pair_gradients(*double, grad_BK.double()), strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=2e-5)


def test_no_pairs() -> None:
    from tarbox.models import kernels

    assert kernels.cross_terms(halves(3, 10).values, halves(0, 10).values).shape == (0, 3)
    none = torch.empty(0, 5, dtype=torch.int64, device=DEVICE)
    assert kernels.pair_terms(halves(3, 10).values, halves(0, 10).values, none).shape == (0, 5)


@pytest.mark.skipif(INTERPRETED, reason="autograd chooses the kernels on CUDA only")
def test_autograd_uses_the_kernels() -> None:
    torch.manual_seed(0)
    logits_CE, logits_BE = (torch.randn(n, 700, device=DEVICE, requires_grad=True) for n in (9, 30))
    rows_BK = torch.randint(9, (30, 5), device=DEVICE)

    def gradients(dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
        both = (Halves.of(torch.sigmoid(logits.to(dtype)), 1, 1e-12) for logits in (logits_CE, logits_BE))
        scores = pair_similarity(*both, rows_BK)
        return torch.autograd.grad((scores * torch.arange(5, device=DEVICE)).sum(), (logits_CE, logits_BE))

    for single, double in zip(gradients(torch.float32), gradients(torch.float64), strict=True):
        torch.testing.assert_close(single, double, rtol=1e-3, atol=1e-7)
