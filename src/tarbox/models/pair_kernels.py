"""The sums of `tarbox.models.pairs` on a GPU (Triton): for each query, over a few rows of a table.

Forward, a program owns some rows of one query and walks along the dimensions. Backward, the gradient by query has a
program for every query and block of dimensions, and that by row one for every row, which goes through its pairs sorted
by row: no atomic additions, the same bits in every run. Lanes beyond an edge hold zeros, of which every term is 0.

Imported on CUDA only, or with TRITON_INTERPRET=1 in tests.
"""

# ruff: noqa: N803, N806 (shape suffixes, see STYLE.md; Triton's constants are upper case)
# Triton reads the annotations of its kernels, so they have none of ours:
# mypy: allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, final

import torch
import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch import Tensor

TERM_CODES: Final[Mapping[str, int]] = MappingProxyType({"dot": 0, "l1": 1, "box": 2, "cone": 3})
_ROWS: Final = 8
_WIDTH: Final = 256


def _jit(function: Callable[..., Any]) -> Any:
    return triton.jit(function)


@_jit
def _sign(x):
    return tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, 0.0))


@_jit
def _term(x, q, o, inside, KIND: tl.constexpr):
    """What is summed: x q, |x - q|, or the distance from the box with centre q and offset o, or from the cone with
    axis q and half aperture o."""
    if KIND == 0:
        return x * q
    if KIND == 1:
        return tl.abs(x - q)
    if KIND == 3:
        height, sine = tl.abs(tl.sin((x - q) / 2)), tl.sin(o / 2)
        outside = height * tl.cos(o / 2) - tl.abs(tl.cos((x - q) / 2)) * sine
        return tl.maximum(outside, 0.0) + inside * tl.minimum(height, sine)
    apart = tl.abs(x - q)
    return tl.maximum(apart - o, 0.0) + inside * tl.minimum(apart, o)


@_jit
def _by_row(x, q, o, inside, KIND: tl.constexpr):
    """The derivative of the term by x; for distances that by q is its opposite."""
    if KIND == 0:
        return q + 0.0 * x
    if KIND == 1:
        return _sign(x - q)
    if KIND == 3:
        s, c = tl.sin((x - q) / 2), tl.cos((x - q) / 2)
        rise = _sign(s) * c / 2
        leaves = rise * tl.cos(o / 2) + _sign(c) * s * tl.sin(o / 2) / 2
        return tl.where(tl.abs(s) > tl.sin(o / 2), leaves, inside * rise)
    return _sign(x - q) * tl.where(tl.abs(x - q) > o, 1.0, inside)


@_jit
def _by_query(x, q, o, inside, KIND: tl.constexpr):
    """The derivative of the term by q."""
    if KIND == 0:
        return x
    return -_by_row(x, q, o, inside, KIND)


@_jit
def _by_offset(x, q, o, inside, KIND: tl.constexpr):
    """The derivative of the term by o."""
    if KIND == 3:
        s, c = tl.abs(tl.sin((x - q) / 2)), tl.abs(tl.cos((x - q) / 2))
        sine, cosine = tl.sin(o / 2), tl.cos(o / 2)
        return tl.where(s > sine, ((inside - c) * cosine - s * sine) / 2, 0.0)
    return tl.where(tl.abs(x - q) > o, inside - 1.0, 0.0)


@_jit
def _sum_kernel(  # noqa: PLR0913, PLR0917
    queries, offsets, table, rows, out, D, inside,
    K: tl.constexpr, TK: tl.constexpr, TD: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """out[b, k] = the sum over dimensions of the terms of query b and row rows[b, k]."""
    b = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * TK + tl.arange(0, TK)
    lanes = tl.arange(0, TD)
    row = tl.load(rows + b * K + k, mask=k < K, other=0).to(tl.int64)
    total = tl.zeros([TK, TD], dtype=tl.float32)
    for start in range(0, D, TD):
        d = start + lanes
        q = tl.load(queries + b * D + d, mask=d < D, other=0.0)[None, :]
        o = tl.load(offsets + b * D + d, mask=d < D, other=0.0)[None, :] if KIND >= 2 else q
        x = tl.load(table + row[:, None] * D + d[None, :], mask=(k < K)[:, None] & (d < D)[None, :], other=0.0)
        total += _term(x, q, o, inside, KIND)
    tl.store(out + b * K + k, tl.sum(total, axis=1), mask=k < K)


@_jit
def _query_gradient_kernel(  # noqa: PLR0913, PLR0917
    queries, offsets, table, rows, grad, by_query, by_offset, D, inside,
    K: tl.constexpr, TK: tl.constexpr, TD: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """by_query[b, d] = the sum over k of grad[b, k] times the term's derivative; by_offset that by o."""
    b = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * TD + tl.arange(0, TD)
    q = tl.load(queries + b * D + d, mask=d < D, other=0.0)[None, :]
    o = tl.load(offsets + b * D + d, mask=d < D, other=0.0)[None, :] if KIND >= 2 else q
    total = tl.zeros([TD], dtype=tl.float32)
    widened = tl.zeros([TD], dtype=tl.float32)
    for start in range(0, K, TK):
        k = start + tl.arange(0, TK)
        row = tl.load(rows + b * K + k, mask=k < K, other=0).to(tl.int64)
        g = tl.load(grad + b * K + k, mask=k < K, other=0.0)[:, None]
        x = tl.load(table + row[:, None] * D + d[None, :], mask=(k < K)[:, None] & (d < D)[None, :], other=0.0)
        total += tl.sum(g * _by_query(x, q, o, inside, KIND), axis=0)
        if KIND >= 2:
            widened += tl.sum(g * _by_offset(x, q, o, inside, KIND), axis=0)
    tl.store(by_query + b * D + d, total, mask=d < D)
    if KIND >= 2:
        tl.store(by_offset + b * D + d, widened, mask=d < D)


@_jit
def _row_gradient_kernel(  # noqa: PLR0913, PLR0917
    queries, offsets, table, order, starts, grad, out, D, inside,
    K: tl.constexpr, TK: tl.constexpr, TD: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """out[r, d] = the sum of grad times the derivative over the pairs of row r: order[starts[r]:starts[r + 1]]."""
    r = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * TD + tl.arange(0, TD)
    x = tl.load(table + r * D + d, mask=d < D, other=0.0)[None, :]
    total = tl.zeros([TD], dtype=tl.float32)
    stop = tl.load(starts + r + 1)
    for start in range(tl.load(starts + r), stop, TK):
        place = start + tl.arange(0, TK)
        pair = tl.load(order + place, mask=place < stop, other=0)
        g = tl.load(grad + pair, mask=place < stop, other=0.0)[:, None]
        at = (pair // K).to(tl.int64)[:, None] * D + d[None, :]
        inside_edges = (place < stop)[:, None] & (d < D)[None, :]
        q = tl.load(queries + at, mask=inside_edges, other=0.0)
        o = tl.load(offsets + at, mask=inside_edges, other=0.0) if KIND >= 2 else q
        total += tl.sum(g * _by_row(x, q, o, inside, KIND), axis=0)
    tl.store(out + r * D + d, total, mask=d < D)


@final
@dataclass(frozen=True, slots=True)
class Pairs:
    """What is summed: its kind, the query's parts [B, D] (the second counts for boxes and cones only), the table
    [N, D], the rows [B, K] of it, and the share of a distance within a box or cone.
    """

    kind: str
    parts: tuple[Tensor, Tensor]
    table: Tensor
    rows: Tensor
    inside: float = 0.0


def pair_sums(pairs: Pairs) -> Tensor:
    """[B, K]"""
    (B, K), D = pairs.rows.shape, pairs.table.shape[1]
    out_BK = torch.empty(B, K, device=pairs.table.device, dtype=torch.float32)
    if out_BK.numel():
        _sum_kernel[(B, triton.cdiv(K, _ROWS))](
            *pairs.parts, pairs.table.contiguous(), pairs.rows.contiguous(), out_BK, D, pairs.inside,
            K=K, TK=_ROWS, TD=_WIDTH, KIND=TERM_CODES[pairs.kind], num_warps=4,
        )  # fmt: skip
    return out_BK


def pair_gradients(pairs: Pairs, grad_BK: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """(those by the query's parts [B, D], that by the table [N, D]) of the sums."""
    (B, K), (N, D) = pairs.rows.shape, pairs.table.shape
    table, rows = pairs.table.contiguous(), pairs.rows.contiguous()
    by_query, by_offset = (torch.zeros_like(part) for part in pairs.parts)
    by_table = torch.empty_like(table)
    blocks = triton.cdiv(D, _WIDTH)
    if B:
        _query_gradient_kernel[(B, blocks)](
            *pairs.parts, table, rows, grad_BK, by_query, by_offset, D, pairs.inside,
            K=K, TK=_ROWS, TD=_WIDTH, KIND=TERM_CODES[pairs.kind], num_warps=4,
        )  # fmt: skip
    sorted_rows, order = rows.flatten().to(torch.int32).sort(stable=True)  # half the passes that int64 takes
    starts = torch.searchsorted(sorted_rows, torch.arange(N + 1, device=rows.device, dtype=torch.int32))
    _row_gradient_kernel[(N, blocks)](
        *pairs.parts, table, order, starts, grad_BK, by_table, D, pairs.inside,
        K=K, TK=2 * _ROWS, TD=_WIDTH, KIND=TERM_CODES[pairs.kind], num_warps=4,
    )  # fmt: skip
    return (by_query, by_offset), by_table
