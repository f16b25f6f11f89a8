"""Eq. 12 and 13 as they are written: what every engine is tested against."""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

import torch
from torch import Tensor


def reference(concepts_CE: Tensor, queries_BE: Tensor, p: float, epsilon: float) -> Tensor:
    """[B, C] the similarity of each query with each concept, from degrees."""
    p_CE, q_BE = (sets / sets.norm(p, dim=1, keepdim=True).clamp_min(epsilon) for sets in (concepts_CE, queries_BE))
    rows = []
    for q_E in q_BE:
        mean_CE = (p_CE + q_E) / 2
        rows.append(-(_kl(p_CE, mean_CE) + _kl(q_E.expand_as(p_CE), mean_CE)) / 2)
    return torch.stack(rows) if rows else queries_BE.new_empty(0, len(concepts_CE))


def _kl(p_NE: Tensor, m_NE: Tensor) -> Tensor:
    """[N] sum p ln(p/m), where 0 ln 0 = 0."""
    return (torch.xlogy(p_NE, p_NE) - torch.xlogy(p_NE, m_NE)).sum(1)
