"""Functions of Beta distributions against torch in double precision: values and gradients."""

from __future__ import annotations

import torch

from tarbox.models.gamma import features, log_beta


def parameters(rows: int = 6, dimension: int = 300) -> torch.Tensor:
    """From 0.05 to 1e4, evenly in the logarithm, and the smallest and the roundest."""
    torch.manual_seed(0)
    drawn = torch.empty(rows, 2 * dimension).uniform_(-3, 9.2).exp().clamp(0.05, 1e4)
    drawn[0, :8] = torch.tensor([0.05, 1.0, 2.0, 5.999, 6.0, 6.001, 1e4, 1.4616])
    return drawn


def plain_features(entities: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As the formula has it, differentiated by torch."""
    a, b = entities.chunk(2, -1)
    at_a, at_b, at_whole = torch.digamma(a), torch.digamma(b), torch.digamma(a + b)
    own = a * at_a + b * at_b - (a + b) * at_whole - torch.lgamma(a) - torch.lgamma(b) + torch.lgamma(a + b)
    return torch.cat([at_a - at_whole, at_b - at_whole], -1), own.sum(-1)


def plain_log_beta(queries: torch.Tensor) -> torch.Tensor:
    a, b = queries.chunk(2, -1)
    return (torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)).sum(-1)


def test_values_and_gradients_are_those_of_torch() -> None:
    given = parameters().double().requires_grad_()
    weights = torch.randn_like(given), torch.randn(len(given)).double()
    found, wanted = features(given), plain_features(given)
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs)
    gradients = [torch.autograd.grad(outputs, given, weights)[0] for outputs in (found, wanted)]
    torch.testing.assert_close(*gradients, rtol=1e-7, atol=1e-9)
    sums = log_beta(given), plain_log_beta(given)
    torch.testing.assert_close(*sums)
    torch.testing.assert_close(*(torch.autograd.grad(one, given, weights[1])[0] for one in sums))


def test_gradients_against_differences() -> None:
    given = torch.empty(3, 4, dtype=torch.float64).uniform_(0.1, 4).requires_grad_()
    assert torch.autograd.gradcheck(features, (given,))
    assert torch.autograd.gradcheck(log_beta, (given,))


def test_any_number_of_leading_dimensions() -> None:
    given = parameters(6, 5)
    rows, own = features(given.view(2, 3, 10))
    torch.testing.assert_close(rows.view(6, 10), features(given)[0])
    torch.testing.assert_close(own.view(6), features(given)[1])
