"""Functions of Beta distributions against torch in double precision: values, gradients, and the Triton kernels."""

from __future__ import annotations

import os

import pytest
import torch

from tarbox.models import gamma
from tarbox.models.gamma import features, log_beta

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
FUSED = pytest.mark.skipif(
    not (torch.cuda.is_available() or INTERPRETED), reason="no CUDA device, and TRITON_INTERPRET is not set"
)
QUIET = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")  # of Triton's interpreter


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


@QUIET
@FUSED
def test_the_kernels_of_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gamma, "runs_triton", lambda *given: given[0].dtype is torch.float32)
    given = parameters().to(DEVICE).requires_grad_()
    precise = given.detach().double().requires_grad_()
    (rows, own), (wanted_rows, wanted_own) = features(given), plain_features(precise)
    torch.testing.assert_close(rows.double(), wanted_rows, rtol=1e-5, atol=2e-6)
    torch.testing.assert_close(own.double(), wanted_own, rtol=1e-5, atol=1e-3)
    weights = torch.randn_like(rows), torch.zeros_like(own)
    for chosen in (weights, (torch.zeros_like(rows), torch.randn_like(own))):
        (found,) = torch.autograd.grad((rows, own), given, chosen, retain_graph=True)
        (wanted,) = torch.autograd.grad(
            (wanted_rows, wanted_own), precise, [one.double() for one in chosen], retain_graph=True
        )
        torch.testing.assert_close(found.double(), wanted, rtol=2e-5, atol=2e-5)


@QUIET
@FUSED
def test_the_kernels_of_log_beta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gamma, "runs_triton", lambda *given: given[0].dtype is torch.float32)
    given = parameters().clamp_max(60).to(DEVICE).requires_grad_()
    precise, grad = given.detach().double().requires_grad_(), torch.randn(len(given), device=DEVICE)
    found, wanted = log_beta(given), plain_log_beta(precise)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-3)
    gradients = torch.autograd.grad(found, given, grad)[0], torch.autograd.grad(wanted, precise, grad.double())[0]
    torch.testing.assert_close(gradients[0].double(), gradients[1], rtol=1e-5, atol=2e-6)


@QUIET
@FUSED
def test_special_functions_one_by_one() -> None:
    """digamma and its derivative from 0.05 to 1e4, and no rows at all."""
    from tarbox.models.gamma_kernels import fused_features, fused_features_gradient

    a, great = parameters(1, 500)[0, :500], torch.full((500,), 1e4)
    given = torch.stack([torch.cat([a, great])]).to(DEVICE)
    rows, _ = fused_features(given)
    digamma = rows[0, :500].double() + torch.digamma(given[0, :500].double() + 1e4)
    torch.testing.assert_close(digamma, torch.digamma(given[0, :500].double()), rtol=1e-5, atol=2e-6)
    ones, nothing = torch.ones_like(given), torch.zeros(1, device=DEVICE)
    trigamma = fused_features_gradient(given, ones, nothing)[0, :500].double()
    whole = torch.polygamma(1, given[0, :500].double() + 1e4)
    torch.testing.assert_close(trigamma + 2 * whole, torch.polygamma(1, given[0, :500].double()), rtol=1e-5, atol=1e-8)
    assert fused_features(given[:0])[1].shape == (0,)
