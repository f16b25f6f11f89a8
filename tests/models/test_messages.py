"""Sums of messages a block at a time, against all messages at once."""

from __future__ import annotations

import pytest
import torch

from tarbox.models import messages
from tarbox.models.messages import message_moments, message_sums


def at_once(
    state: torch.Tensor, weights: torch.Tensor, links: torch.Tensor, kept: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    near, relation, far = links
    sent = state[near] * weights[relation] * (1 if kept is None else kept[:, :, None])
    return tuple(torch.zeros_like(state).index_add(0, far, power) for power in (sent, sent.square()))  # type: ignore[return-value]


@pytest.mark.parametrize("held", [1, 50, 1 << 20])
@pytest.mark.parametrize("dropped", [False, True])
def test_sums_and_their_gradients(monkeypatch: pytest.MonkeyPatch, held: int, dropped: bool) -> None:
    monkeypatch.setattr(messages, "HELD", {"cpu": held})
    torch.manual_seed(0)
    links = torch.stack([torch.randint(limit, (40,)) for limit in (7, 3, 7)])
    kept = torch.rand(40, 2) < 0.7 if dropped else None
    given = [torch.randn(size, 2, 3, dtype=torch.float64, requires_grad=True) for size in (7, 3)]
    by = [torch.randn(7, 2, 3, dtype=torch.float64) for _ in range(2)]
    found, wanted = (make(*given, links, kept) for make in (message_moments, at_once))
    for one, two in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, two)
    gradients = [torch.autograd.grad(sums, given, by, retain_graph=True) for sums in (found, wanted)]
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two)
    sums = message_sums(*given, links, kept)
    assert torch.equal(sums, found[0])
    alone = [torch.autograd.grad(one, given, by[0]) for one in (sums, wanted[0])]
    for one, two in zip(*alone, strict=True):
        torch.testing.assert_close(one, two)


def test_a_graph_without_links() -> None:
    sums, squares = message_moments(torch.ones(4, 2, 3), torch.ones(1, 2, 3), torch.empty(3, 0, dtype=torch.int64))
    assert not sums.any()
    assert not squares.any()
