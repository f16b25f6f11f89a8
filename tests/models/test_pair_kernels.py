"""The Triton kernels against torch."""

from __future__ import annotations

import pytest
import torch

from tarbox.models import pairs
from tarbox.models.pairs import TERMS, WIDE
from triton_device import DEVICE, NEEDS_TRITON

pytestmark = NEEDS_TRITON


@pytest.mark.parametrize(("rows", "batch", "dimension", "each"), [(7, 5, 100, 5), (3, 4, 515, 37), (50, 2, 33, 1)])
@pytest.mark.parametrize("kind", TERMS)
def test_sums_and_their_gradients(kind: str, rows: int, batch: int, dimension: int, each: int) -> None:
    from tarbox.models.pair_kernels import Pairs, pair_gradients, pair_sums

    torch.manual_seed(0)
    first, table = torch.randn(batch, dimension, device=DEVICE), torch.randn(rows, dimension, device=DEVICE)
    second = torch.rand(batch, dimension, device=DEVICE) if kind in WIDE else first
    chosen, grad = torch.randint(rows, (batch, each), device=DEVICE), torch.randn(batch, each, device=DEVICE)
    given = Pairs(kind, (first, second), table, chosen, 0.3)
    precise = [part.double().requires_grad_() for part in (first, second, table)]
    parts = [part[:, None] for part in (precise[:2] if kind in WIDE else precise[:1])]
    wanted = TERMS[kind](precise[2][chosen], parts, 0.3).sum(-1)
    torch.testing.assert_close(pair_sums(given).double(), wanted.detach(), rtol=1e-5, atol=1e-4)
    wanted.backward(grad.double())
    (by_first, by_second), by_table = pair_gradients(given, grad)
    found = {"first": by_first, "table": by_table} | ({"second": by_second} if kind in WIDE else {})
    for name, part in zip(("first", "second", "table"), precise, strict=True):
        if name in found:
            torch.testing.assert_close(found[name].double(), part.grad, rtol=1e-4, atol=1e-4, msg=name)


def test_models_learn_by_the_kernels_as_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    query, width, table = (torch.rand(size, 40, device=DEVICE, requires_grad=True) for size in (6, 6, 9))
    chosen, grad = torch.randint(9, (6, 11), device=DEVICE), torch.randn(6, 11, device=DEVICE)
    calls = {
        "l1": lambda: pairs.l1_pairs(query, table, chosen),
        "dot": lambda: pairs.dot_pairs(query, table, chosen),
        "box": lambda: pairs.box_pairs((query, width), table, chosen, 0.1),
        "cone": lambda: pairs.cone_pairs((query, width), table, chosen, 0.1),
    }
    for kind, call in calls.items():
        found = []
        for fused in (False, True):
            monkeypatch.setattr(pairs, "runs_triton", lambda *_, fused=fused: fused)
            learnt = (query, width, table) if kind in WIDE else (query, table)
            sums = call()
            found.append([sums.detach(), *torch.autograd.grad(sums, learnt, grad)])
        for wanted, own in zip(*found, strict=True):
            torch.testing.assert_close(own, wanted, rtol=1e-4, atol=1e-4)


def test_no_pairs() -> None:
    from tarbox.models.pair_kernels import Pairs, pair_gradients, pair_sums

    nothing, table = torch.empty(0, 8, device=DEVICE), torch.randn(3, 8, device=DEVICE)
    given = Pairs("l1", (nothing, nothing), table, torch.empty(0, 4, dtype=torch.int64, device=DEVICE))
    assert pair_sums(given).shape == (0, 4)
    assert not pair_gradients(given, torch.empty(0, 4, device=DEVICE))[1].any()
