"""A sampled softmax on a GPU (Triton): scores are read once forward, and read and overwritten once backward, where
torch goes over them for each sign. They are most of what a step of the link predictor moves.

Imported on CUDA only, or with TRITON_INTERPRET=1 in tests.
"""

# ruff: noqa: N803 (Triton's constants are upper case)
# Triton reads the annotations of its kernels, so they have none of ours:
# mypy: allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

from typing import Any, Final

import torch
import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch import Tensor

_BLOCK: Final = 2048


def _totals_kernel(scores, to, candidates, totals, WIDTH, BLOCK: tl.constexpr):
    """totals[b] = the logarithm of the sum of exp over the candidates of row b but `to[b]`, in one walk."""
    row = tl.program_id(0).to(tl.int64)
    own = tl.load(to + row)
    highest = tl.full([BLOCK], -1e30, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, WIDTH, BLOCK):
        place = start + tl.arange(0, BLOCK)
        score = tl.load(scores + row * WIDTH + place, mask=place < WIDTH, other=-1e30)
        score = tl.where(tl.load(candidates + place, mask=place < WIDTH, other=-1) == own, -1e30, score)
        higher = tl.maximum(highest, score)
        total = total * tl.exp(highest - higher) + tl.where(score > -1e30, tl.exp(score - higher), 0.0)
        highest = higher
    most = tl.max(highest, 0)
    tl.store(totals + row, most + tl.log(tl.sum(total * tl.exp(highest - most), 0)))


def _slopes_kernel(scores, to, candidates, totals, slopes, WIDTH, BLOCK: tl.constexpr):  # noqa: PLR0913, PLR0917
    """scores[b, k] becomes slopes[b] exp(scores[b, k] - totals[b]), 0 where candidate k is `to[b]`."""
    row = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    score = tl.load(scores + row * WIDTH + place, mask=place < WIDTH, other=-1e30)
    share = tl.exp(score - tl.load(totals + row)) * tl.load(slopes + row)
    same = tl.load(candidates + place, mask=place < WIDTH, other=-1) == tl.load(to + row)
    tl.store(scores + row * WIDTH + place, tl.where(same, 0.0, share), mask=place < WIDTH)


_totals: Any = triton.jit(_totals_kernel)
_slopes: Any = triton.jit(_slopes_kernel)


class RivalTotals(torch.autograd.Function):
    """[B] the logarithm of the sum of exp(scores [B, K]) over all candidates [K] but the one that is `to` [B]. Their
    gradient overwrites the scores: nobody else may need them."""

    @staticmethod
    def forward(ctx: Any, scores_BK: Tensor, to_B: Tensor, candidates_K: Tensor) -> Tensor:
        totals_B = torch.empty(len(scores_BK), device=scores_BK.device)  # noqa: N806
        _totals[(len(scores_BK),)](scores_BK, to_B, candidates_K, totals_B, scores_BK.shape[1], _BLOCK)
        ctx.save_for_backward(scores_BK, to_B, candidates_K, totals_B)
        return totals_B

    @staticmethod
    def backward(ctx: Any, slopes_B: Tensor) -> tuple[Tensor, None, None]:
        scores_BK, to_B, candidates_K, totals_B = ctx.saved_tensors  # noqa: N806
        width = scores_BK.shape[1]
        grid = (len(scores_BK), triton.cdiv(width, _BLOCK))
        _slopes[grid](scores_BK, to_B, candidates_K, totals_B, slopes_B.contiguous(), width, _BLOCK)
        return scores_BK, None, None


def rival_totals(scores_BK: Tensor, to_B: Tensor, candidates_K: Tensor) -> Tensor:
    found: Tensor = RivalTotals.apply(scores_BK, to_B, candidates_K)  # type: ignore[no-untyped-call]
    return found
