"""The terms of Eq. 12 on a GPU (Triton): the only sums that depend on pairs of a concept and a query.

`cross_terms` sums z log2 z over entities for all pairs. A program owns a tile of [TB, TC] pairs and keeps [TB, TC, TE]
partial sums in registers, one per pair and lane of entities, so that the loop has no reduction: an addition, a
logarithm on the special-function unit and a multiply-add per term. Those units set the limit (16 a clock and
multiprocessor). The long sum is thereby taken in TE parts, which keeps single precision accurate.

`pair_terms` and `pair_gradients` do the same for the few concepts of each query in training, and its derivatives. The
gradient by concept goes through the pairs sorted by concept: no atomic additions, the same bits in every run.

Imported on CUDA only, or with TRITON_INTERPRET=1 in tests.
"""

# ruff: noqa: N803, N806 (shape suffixes, see STYLE.md; Triton's constants are upper case)
# Triton reads the annotations of its kernels, so they have none of ours:
# mypy: allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, final

import torch
import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch import Tensor

INTERPRETED: Final = os.environ.get("TRITON_INTERPRET") == "1"
LN2: Final = 0.6931471805599453
_PROGRAMS: Final = 132 * 16  # enough for every multiprocessor of the largest device to hold several
_BLOCK: Final = 1024


@final
@dataclass(frozen=True, slots=True)
class Tile:
    """What a program of `cross_terms` owns: TB queries, TC concepts, TE entities at a time; powers of two."""

    queries: int
    concepts: int
    entities: int
    warps: int


TILE: Final = Tile(16, 16, 32, 8)
"""The best by `benchmarks/concept_ranking.py --tune`; fixed, since tuning at run time would cost more than it gains."""


def _jit(function: Callable[..., Any]) -> Any:
    return triton.jit(function)


@_jit
def _log2(z, EXACT: tl.constexpr):
    """The approximation of the special-function unit without its detour for subnormals, of which there are none."""
    if EXACT:
        return tl.log2(z)
    return tl.inline_asm_elementwise("lg2.approx.ftz.f32 $0, $1;", "=f,f", [z], dtype=tl.float32, is_pure=True, pack=1)


@_jit
def _cross_kernel(  # noqa: PLR0913, PLR0917
    concepts, queries, out, C, B, E, span,
    TB: tl.constexpr, TC: tl.constexpr, TE: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """out[part, b, c] = the sum over the part's `span` entities; a half beyond the edge is 1/2, whose term is 0."""
    c = tl.program_id(0) * TC + tl.arange(0, TC)
    b = tl.program_id(1) * TB + tl.arange(0, TB)
    part = tl.program_id(2)
    lanes = tl.arange(0, TE)
    x_rows = concepts + c.to(tl.int64)[:, None] * E
    y_rows = queries + b.to(tl.int64)[:, None] * E
    total = tl.zeros([TB, TC, TE], dtype=tl.float32)
    for start in range(part * span, tl.minimum(part * span + span, E), TE):
        e = start + lanes
        inside = e < tl.minimum(part * span + span, E)
        x = tl.load(x_rows + e[None, :], mask=(c < C)[:, None] & inside[None, :], other=0.5)
        y = tl.load(y_rows + e[None, :], mask=(b < B)[:, None] & inside[None, :], other=0.5)
        z = y[:, None, :] + x[None, :, :]
        total += z * _log2(z, EXACT)
    sums = tl.sum(total, axis=2)
    places = out + (part.to(tl.int64) * B + b.to(tl.int64)[:, None]) * C + c[None, :]
    tl.store(places, sums, mask=(b < B)[:, None] & (c < C)[None, :])


@_jit
def _pair_kernel(  # noqa: PLR0913, PLR0917
    concepts, queries, rows, out, E,
    K: tl.constexpr, KP: tl.constexpr, TE: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """out[b, k] = the sum over entities of z log2 z, for the concept in row rows[b, k]."""
    b = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, KP)
    lanes = tl.arange(0, TE)
    row = tl.load(rows + b * K + k, mask=k < K, other=0).to(tl.int64)
    total = tl.zeros([KP, TE], dtype=tl.float32)
    for start in range(0, E, TE):
        e = start + lanes
        x = tl.load(concepts + row[:, None] * E + e[None, :], mask=(k < K)[:, None] & (e < E)[None, :], other=0.5)
        y = tl.load(queries + b * E + e, mask=e < E, other=0.5)
        z = x + y[None, :]
        total += z * _log2(z, EXACT)
    tl.store(out + b * K + k, tl.sum(total, axis=1), mask=k < K)


@_jit
def _query_gradient_kernel(  # noqa: PLR0913, PLR0917
    concepts, queries, rows, grad, out, E,
    K: tl.constexpr, TE: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """out[b, e] = the sum over k of grad[b, k] (log2 z - log2 2y)."""
    b = tl.program_id(0).to(tl.int64)
    e = tl.program_id(1) * TE + tl.arange(0, TE)
    inside = e < E
    y = tl.load(queries + b * E + e, mask=inside, other=0.5)
    own = _log2(2 * y, EXACT)
    total = tl.zeros([TE], dtype=tl.float32)
    for k in tl.static_range(K):
        row = tl.load(rows + b * K + k).to(tl.int64)
        x = tl.load(concepts + row * E + e, mask=inside, other=0.5)
        total += tl.load(grad + b * K + k) * (_log2(x + y, EXACT) - own)
    tl.store(out + b * E + e, total, mask=inside)


@_jit
def _concept_gradient_kernel(  # noqa: PLR0913, PLR0917
    concepts, queries, order, starts, grad, out, E,
    K: tl.constexpr, TE: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """out[r, e] = the sum of grad (log2 z - log2 2x) over the pairs of row r: order[starts[r]:starts[r + 1]]."""
    r = tl.program_id(0).to(tl.int64)
    e = tl.program_id(1) * TE + tl.arange(0, TE)
    inside = e < E
    x = tl.load(concepts + r * E + e, mask=inside, other=0.5)
    own = _log2(2 * x, EXACT)
    total = tl.zeros([TE], dtype=tl.float32)
    for place in range(tl.load(starts + r), tl.load(starts + r + 1)):
        pair = tl.load(order + place)
        y = tl.load(queries + (pair // K) * E + e, mask=inside, other=0.5)
        total += tl.load(grad + pair) * (_log2(x + y, EXACT) - own)
    tl.store(out + r * E + e, total, mask=inside)


def cross_terms(concepts_CE: Tensor, queries_BE: Tensor, tile: Tile = TILE) -> Tensor:
    """[B, C] the sum over entities of z log2 z, z = concept + query: `CrossTerms` of `tarbox.models.divergence`.

    Where there are few pairs, the entities are split among programs and the parts added.
    """
    concepts_CE, queries_BE = concepts_CE.contiguous(), queries_BE.contiguous()
    (C, E), B = concepts_CE.shape, len(queries_BE)
    if B == 0 or C == 0:
        return queries_BE.new_zeros(B, C)
    tiles = (triton.cdiv(C, tile.concepts), triton.cdiv(B, tile.queries))
    parts = max(1, min(_PROGRAMS // (tiles[0] * tiles[1]), triton.cdiv(E, 8 * tile.entities)))
    span = triton.cdiv(triton.cdiv(E, parts), tile.entities) * tile.entities
    parts = triton.cdiv(E, span)
    out = torch.empty(parts, B, C, device=queries_BE.device, dtype=torch.float32)
    _cross_kernel[(*tiles, parts)](
        concepts_CE, queries_BE, out, C, B, E, span,
        TB=tile.queries, TC=tile.concepts, TE=tile.entities, EXACT=INTERPRETED,
        num_warps=tile.warps,
    )  # fmt: skip
    return out[0] if parts == 1 else out.sum(0)


def pair_terms(concepts_RE: Tensor, queries_BE: Tensor, rows_BK: Tensor) -> Tensor:
    """[B, K] the sum over entities of z ln z, for the concept in each given row."""
    B, K = rows_BK.shape
    out_BK = torch.empty(B, K, device=queries_BE.device, dtype=torch.float32)
    if out_BK.numel():
        width = triton.next_power_of_2(K)
        _pair_kernel[(B,)](
            concepts_RE.contiguous(), queries_BE.contiguous(), rows_BK.contiguous(), out_BK, queries_BE.shape[1],
            K=K, KP=width, TE=max(32, 2048 // width), EXACT=INTERPRETED, num_warps=4,
        )  # fmt: skip
    return out_BK * LN2


def pair_gradients(concepts_RE: Tensor, queries_BE: Tensor, rows_BK: Tensor, grad_BK: Tensor) -> tuple[Tensor, Tensor]:
    """[R, E] and [B, E]: grad (ln z - ln 2x) summed by concept, and grad (ln z - ln 2y) summed by query."""
    concepts_RE, queries_BE, rows_BK = (part.contiguous() for part in (concepts_RE, queries_BE, rows_BK))
    (R, E), (B, K) = concepts_RE.shape, rows_BK.shape
    scaled_BK = (grad_BK * LN2).float().contiguous()
    by_concept_RE, by_query_BE = torch.empty_like(concepts_RE), torch.empty_like(queries_BE)
    blocks = triton.cdiv(E, _BLOCK)
    if B:
        _query_gradient_kernel[(B, blocks)](
            concepts_RE, queries_BE, rows_BK, scaled_BK, by_query_BE, E,
            K=K, TE=_BLOCK, EXACT=INTERPRETED, num_warps=4,
        )  # fmt: skip
    sorted_rows, order = rows_BK.flatten().sort(stable=True)
    starts = torch.searchsorted(sorted_rows, torch.arange(R + 1, device=rows_BK.device))
    if R:
        _concept_gradient_kernel[(R, blocks)](
            concepts_RE, queries_BE, order, starts, scaled_BK, by_concept_RE, E,
            K=K, TE=_BLOCK, EXACT=INTERPRETED, num_warps=4,
        )  # fmt: skip
    return by_concept_RE, by_query_BE
