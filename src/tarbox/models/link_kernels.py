"""What a step of the link predictor does on a GPU (Triton) beside matrix products: all that is made of the rows of a
link in one pass each way, where torch makes one for each sign; and a sampled softmax, whose scores are read once
forward, and read and overwritten once backward. They are most of what a step moves.

Imported on CUDA only, or with TRITON_INTERPRET=1 in tests.
"""

# ruff: noqa: N803, N806 (shape suffixes; Triton's constants are upper case)
# Triton reads the annotations of its kernels, so they have none of ours:
# mypy: allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

from collections.abc import Sequence
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


def _products_kernel(  # noqa: PLR0913, PLR0917
    near, way, far, questions, guesses, own, cubes, HALF, BLOCK: tl.constexpr
):  # fmt: skip
    """Of a link and an expert, with HALF real and then HALF imaginary parts: the two products, and two sums."""
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, BLOCK)
    used = place < HALF
    here = row * 2 * HALF + place
    n_re, n_im = tl.load(near + here, mask=used, other=0.0), tl.load(near + here + HALF, mask=used, other=0.0)
    w_re, w_im = tl.load(way + here, mask=used, other=0.0), tl.load(way + here + HALF, mask=used, other=0.0)
    f_re, f_im = tl.load(far + here, mask=used, other=0.0), tl.load(far + here + HALF, mask=used, other=0.0)
    q_re, q_im = n_re * w_re - n_im * w_im, n_re * w_im + n_im * w_re
    tl.store(questions + here, q_re, mask=used)
    tl.store(questions + here + HALF, q_im, mask=used)
    tl.store(guesses + here, n_re * f_re + n_im * f_im, mask=used)
    tl.store(guesses + here + HALF, n_re * f_im - n_im * f_re, mask=used)
    tl.store(own + row, tl.sum(q_re * f_re + q_im * f_im, 0))
    n_2, w_2, f_2 = n_re * n_re + n_im * n_im, w_re * w_re + w_im * w_im, f_re * f_re + f_im * f_im
    total = n_2 * tl.sqrt(n_2) + w_2 * tl.sqrt(w_2) + f_2 * tl.sqrt(f_2)
    tl.store(cubes + row, tl.sum(total, 0))


def _products_back_kernel(  # noqa: PLR0913, PLR0917
    near, way, far, d_questions, d_guesses, d_own, d_cubes, d_near, d_way, d_far, HALF, BLOCK: tl.constexpr
):  # fmt: skip
    """The slopes of the three rows of a link and an expert."""
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, BLOCK)
    used = place < HALF
    here = row * 2 * HALF + place
    n_re, n_im = tl.load(near + here, mask=used, other=0.0), tl.load(near + here + HALF, mask=used, other=0.0)
    w_re, w_im = tl.load(way + here, mask=used, other=0.0), tl.load(way + here + HALF, mask=used, other=0.0)
    f_re, f_im = tl.load(far + here, mask=used, other=0.0), tl.load(far + here + HALF, mask=used, other=0.0)
    score = tl.load(d_own + row)
    cube = 3 * tl.load(d_cubes + row)
    q_re = tl.load(d_questions + here, mask=used, other=0.0) + score * f_re
    q_im = tl.load(d_questions + here + HALF, mask=used, other=0.0) + score * f_im
    g_re = tl.load(d_guesses + here, mask=used, other=0.0)
    g_im = tl.load(d_guesses + here + HALF, mask=used, other=0.0)
    n_1 = cube * tl.sqrt(n_re * n_re + n_im * n_im)
    w_1 = cube * tl.sqrt(w_re * w_re + w_im * w_im)
    f_1 = cube * tl.sqrt(f_re * f_re + f_im * f_im)
    tl.store(d_near + here, q_re * w_re + q_im * w_im + g_re * f_re + g_im * f_im + n_1 * n_re, mask=used)
    tl.store(d_near + here + HALF, q_im * w_re - q_re * w_im + g_re * f_im - g_im * f_re + n_1 * n_im, mask=used)
    tl.store(d_way + here, q_re * n_re + q_im * n_im + w_1 * w_re, mask=used)
    tl.store(d_way + here + HALF, q_im * n_re - q_re * n_im + w_1 * w_im, mask=used)
    product_re, product_im = n_re * w_re - n_im * w_im, n_re * w_im + n_im * w_re
    tl.store(d_far + here, score * product_re + g_re * n_re - g_im * n_im + f_1 * f_re, mask=used)
    tl.store(d_far + here + HALF, score * product_im + g_re * n_im + g_im * n_re + f_1 * f_im, mask=used)


_totals: Any = triton.jit(_totals_kernel)
_slopes: Any = triton.jit(_slopes_kernel)
_products: Any = triton.jit(_products_kernel)
_products_back: Any = triton.jit(_products_back_kernel)


class RivalTotals(torch.autograd.Function):
    """[B] the logarithm of the sum of exp(scores [B, K]) over all candidates [K] but the one that is `to` [B]. Their
    gradient overwrites the scores: nobody else may need them."""

    @staticmethod
    def forward(ctx: Any, scores_BK: Tensor, to_B: Tensor, candidates_K: Tensor) -> Tensor:
        scores_BK, to_B, candidates_K = (given.contiguous() for given in (scores_BK, to_B, candidates_K))
        totals_B = torch.empty(len(scores_BK), device=scores_BK.device)
        _totals[(len(scores_BK),)](scores_BK, to_B, candidates_K, totals_B, scores_BK.shape[1], _BLOCK)
        ctx.save_for_backward(scores_BK, to_B, candidates_K, totals_B)
        return totals_B

    @staticmethod
    def backward(ctx: Any, slopes_B: Tensor) -> tuple[Tensor, None, None]:
        scores_BK, to_B, candidates_K, totals_B = ctx.saved_tensors
        width = scores_BK.shape[1]
        grid = (len(scores_BK), triton.cdiv(width, _BLOCK))
        _slopes[grid](scores_BK, to_B, candidates_K, totals_B, slopes_B.contiguous(), width, _BLOCK)
        return scores_BK, None, None


def rival_totals(scores_BK: Tensor, to_B: Tensor, candidates_K: Tensor) -> Tensor:
    found: Tensor = RivalTotals.apply(scores_BK, to_B, candidates_K)  # type: ignore[no-untyped-call]
    return found


class LinkProducts(torch.autograd.Function):
    """Of rows [B, X, D] from which, by which and to which links lead, X experts each: questions and guesses [B, X, D],
    scores and cubes [B, X]."""

    @staticmethod
    def forward(ctx: Any, *given_BXD: Tensor) -> tuple[Tensor, ...]:
        rows = [part.contiguous() for part in given_BXD]
        found = [torch.empty_like(rows[0]), torch.empty_like(rows[0])]
        found += [rows[0].new_empty(rows[0].shape[:2]) for _ in range(2)]
        _run_rows(_products, (*rows, *found))
        ctx.save_for_backward(*rows)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, ...]:
        rows = ctx.saved_tensors
        found = [torch.empty_like(part) for part in rows]
        _run_rows(_products_back, (*rows, *(part.contiguous() for part in slopes), *found))
        return tuple(found)


def _run_rows(kernel: Any, given: Sequence[Tensor]) -> None:
    """A program for each link and expert."""
    half = given[0].shape[2] // 2
    kernel[(given[0].shape[:2].numel(),)](*given, half, triton.next_power_of_2(half))


def link_products(near_BXD: Tensor, way_BXD: Tensor, far_BXD: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    found: tuple[Tensor, Tensor, Tensor, Tensor] = LinkProducts.apply(near_BXD, way_BXD, far_BXD)  # type: ignore[no-untyped-call]
    return found
