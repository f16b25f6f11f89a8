"""The Triton kernels against torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tarbox.models import complex as predictor
from tarbox.models.base import Sizes
from tarbox.models.complex import Complex, ComplexConfig, link_products, rival_totals
from triton_device import DEVICE, NEEDS_TRITON

pytestmark = NEEDS_TRITON


@pytest.mark.parametrize(("size", "drawn", "scale"), [(5, 7, 1.0), (3, 2500, 30.0), (1, 1, 1.0)])
def test_totals_and_slopes_are_those_of_torch(
    size: int, drawn: int, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    candidates = torch.arange(drawn, device=DEVICE) % 9 + 1  # 0 is none of them
    to = torch.arange(2 * size, device=DEVICE).view(size, 2)[:, 0]  # a column, as that of a table of links
    start, slopes = scale * torch.randn(size, drawn, device=DEVICE), torch.randn(size, device=DEVICE)
    found = []
    for kernel in (True, False):
        monkeypatch.setattr(predictor, "runs_triton", lambda *_, kernel=kernel: kernel)
        scores = start.clone().requires_grad_()
        totals = rival_totals(scores * 1.0, to, candidates)
        totals.backward(slopes)
        found.append((totals.detach(), scores.grad))
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-5)
    assert float(found[0][1].abs().sum()) > 0


@pytest.mark.parametrize(("size", "experts", "half"), [(5, 2, 3), (1, 1, 8), (70, 3, 33)])
def test_products_and_slopes_are_those_of_torch(
    size: int, experts: int, half: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    rows = [torch.randn(size, experts, 2 * half, device=DEVICE) for _ in range(3)]
    slopes: list[Tensor] = []
    found = []
    for kernel in (True, False):
        monkeypatch.setattr(predictor, "runs_triton", lambda *_, kernel=kernel: kernel)
        leaves = [part.clone().requires_grad_() for part in rows]
        products = link_products(*leaves)
        slopes = slopes or [torch.randn_like(part) for part in products]
        torch.autograd.backward(products, slopes)
        found.append([*(part.detach() for part in products), *(part.grad for part in leaves)])
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("weight", [0.5, 0.0])
def test_a_predictor_learns_as_with_torch(weight: float, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for kernel in (True, False):
        monkeypatch.setattr(predictor, "runs_triton", lambda *_, kernel=kernel: kernel)
        torch.manual_seed(0)
        config = ComplexConfig(rank=6, experts=2, initial=1.0, relation_weight=weight)
        links = Complex(config, Sizes(entities=9, concepts=4, relations=2)).to(DEVICE)
        asked = torch.tensor([[0, 1, 2], [3, 4, 5], [1, 8, 0]], device=DEVICE)
        losses = [
            links.loss(asked, links.places.entities, torch.tensor([0, 2, 5, 7], device=DEVICE)),
            links.loss(asked, links.places.entities, None, share=2.0),
        ]
        torch.autograd.backward(losses)
        found.append([*(loss.detach() for loss in losses), links.nodes.grad, links.relations.grad])
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-5)
