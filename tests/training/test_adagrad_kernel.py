"""The Triton kernel against torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tarbox.training import adagrad
from tarbox.training.adagrad import Adagrad
from triton_device import DEVICE, NEEDS_TRITON

pytestmark = NEEDS_TRITON


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(("rows", "width", "drawn"), [(9, 5, 7), (40, 1500, 64), (3, 1, 1)])
def test_updates_are_those_of_torch(
    sparse: bool, rows: int, width: int, drawn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    start = torch.randn(rows, width, device=DEVICE)
    draws = [torch.randint(rows, (drawn,), device=DEVICE) for _ in range(3)]
    found: list[Tensor] = []
    for kernel in (True, False):
        monkeypatch.setattr(adagrad, "runs_triton", lambda *_, kernel=kernel: kernel)
        table = torch.nn.Parameter(start.clone())
        optimizer = Adagrad([{"params": [table], "lr": torch.tensor(0.3, device=DEVICE)}])
        for chosen in draws:
            optimizer.zero_grad(set_to_none=True)
            # two uses of the table: their gradients are added up
            uses = (torch.nn.functional.embedding(ids, table, sparse=sparse) for ids in (chosen, chosen[:1]))
            sum(own.square().sum() for own in uses).backward()  # type: ignore[union-attr]
            optimizer.step()
        found.append(table.detach())
    torch.testing.assert_close(*found)
    assert not torch.equal(found[0], start)
