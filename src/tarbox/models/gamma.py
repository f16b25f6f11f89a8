"""The functions of Beta distributions that BetaE's distance needs, with derivatives written out.

psi is the digamma function, the derivative of ln Gamma, and psi' its own. As torch composes it, the gradient of the
features takes nine special functions and some fifty passes over the table of entities; written out it takes three.

Shape letters: N rows, D distributions of each, in 2D columns: the alphas before the betas.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def features(entities_NF: Tensor) -> tuple[Tensor, Tensor]:
    """([N, 2D], [N]): what an entity's parameters give to the distance; see the head of `tarbox.models.beta`.

    The product of the first with a query's parameters is taken from the distance, the second is added to it:
    psi(a) - psi(a + b) beside psi(b) - psi(a + b), and the sum over dimensions of
    a psi(a) + b psi(b) - (a + b) psi(a + b) - ln B(a, b).
    """
    found: tuple[Tensor, Tensor] = _Features.apply(entities_NF)  # type: ignore[no-untyped-call]
    return found


def log_beta(parameters_NF: Tensor) -> Tensor:
    """[N] the sum over dimensions of ln B(a, b).

    >>> log_beta(torch.tensor([[1.0, 2.0, 1.0, 3.0]])).exp()
    tensor([0.0833])
    """
    found: Tensor = _LogBeta.apply(parameters_NF)  # type: ignore[no-untyped-call]
    return found


class _Features(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, entities_NF: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(entities_NF)
        a, b = entities_NF.chunk(2, -1)
        whole = a + b
        at_a, at_b, at_whole = torch.digamma(a), torch.digamma(b), torch.digamma(whole)
        own = a * at_a + b * at_b - whole * at_whole - _log_beta(a, b, whole)
        return torch.cat([at_a - at_whole, at_b - at_whole], -1), own.sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_rows: Tensor, by_own: Tensor) -> Tensor:
        """By a: psi'(a) (G_a + g a) - psi'(a + b) (G_a + G_b + g (a + b)); by b the same with b in front."""
        (entities_NF,) = ctx.saved_tensors
        a, b = entities_NF.chunk(2, -1)
        for_a, for_b = by_rows.chunk(2, -1)
        g, whole = by_own[..., None], a + b
        common = torch.polygamma(1, whole) * (for_a + for_b + g * whole)
        by_a = torch.polygamma(1, a) * (for_a + g * a) - common
        return torch.cat([by_a, torch.polygamma(1, b) * (for_b + g * b) - common], -1)


class _LogBeta(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, parameters_NF: Tensor) -> Tensor:
        ctx.save_for_backward(parameters_NF)
        a, b = parameters_NF.chunk(2, -1)
        return _log_beta(a, b, a + b).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_N: Tensor) -> Tensor:
        """psi(a) - psi(a + b) and psi(b) - psi(a + b), times the gradient."""
        (parameters_NF,) = ctx.saved_tensors
        a, b = parameters_NF.chunk(2, -1)
        at_whole = torch.digamma(a + b)
        return torch.cat([torch.digamma(a) - at_whole, torch.digamma(b) - at_whole], -1) * grad_N[..., None]


def _log_beta(a: Tensor, b: Tensor, whole: Tensor) -> Tensor:
    return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(whole)
