"""The Triton kernel against torch; on CUDA, or on a CPU with TRITON_INTERPRET=1 (which needs numpy < 2.4)."""

from __future__ import annotations

import os

import pytest
import torch

from tarbox.models import complex as predictor
from tarbox.models.complex import rival_totals

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = [
    pytest.mark.skipif(
        not (torch.cuda.is_available() or INTERPRETED), reason="no CUDA device, and TRITON_INTERPRET is not set"
    ),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Triton's interpreter converts arrays to scalars
]
DEVICE = "cpu" if INTERPRETED else "cuda"


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
