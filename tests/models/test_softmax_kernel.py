"""The Triton kernel against torch."""

from __future__ import annotations

import pytest
import torch

from tarbox.models import complex as predictor
from tarbox.models.complex import rival_totals
from triton_device import DEVICE, NEEDS_TRITON

pytestmark = NEEDS_TRITON


@pytest.mark.parametrize(("size", "drawn", "scale"), [(5, 7, 1.0), (3, 2500, 30.0), (1, 1, 1.0)])
def test_totals_and_slopes_are_those_of_torch(
    size: int, drawn: int, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    candidates, to = torch.arange(drawn, device=DEVICE) % 9 + 1, torch.arange(size, device=DEVICE)  # 0 is none of them
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
