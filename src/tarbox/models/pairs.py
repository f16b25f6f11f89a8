"""Sums over dimensions for pairs of a query and a row of a table: distances from points, boxes and cones; products.

Training scores a few rows of the entity table for each query; the rows are different for every query, so that memory
traffic is all the cost. On a GPU a Triton kernel reads each row once and keeps nothing of size B x K x D
(`tarbox.models.pair_kernels`); elsewhere torch does it.

Shape letters: B queries, K rows for each, N rows of the table, D dimensions.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

SumTerm: TypeAlias = Callable[[Tensor, Sequence[Tensor], float], Tensor]
"""(rows [B, K, D], the query's parts [B, 1, D], a number) to the terms [B, K, D] of the sum."""


def _box_term(rows: Tensor, parts: Sequence[Tensor], inside: float) -> Tensor:
    centre, offset = parts
    apart = (rows - centre).abs()
    return (apart - offset).relu() + inside * torch.minimum(apart, offset)


def _cone_term(rows: Tensor, parts: Sequence[Tensor], inside: float) -> Tensor:
    axis, half = parts
    turned, wide = (rows - axis) / 2, half / 2
    height, sine = torch.sin(turned).abs(), torch.sin(wide)
    outside = (height * torch.cos(wide) - torch.cos(turned).abs() * sine).relu()
    return outside + inside * torch.minimum(height, sine)


TERMS: Final[Mapping[str, SumTerm]] = MappingProxyType(
    {
        "dot": lambda rows, parts, _: rows * parts[0],
        "l1": lambda rows, parts, _: (rows - parts[0]).abs(),
        "box": _box_term,
        "cone": _cone_term,
    }
)
"""What is summed over dimensions, in torch; `pair_kernels` has the same in Triton."""
WIDE: Final = frozenset({"box", "cone"})
"""Where a query has a second part: how far it reaches to both sides of the first."""
_TERMS_AT_A_TIME: Final = 1 << 25
"""Dimensions of pairs that torch holds at a time where every row is compared."""


def dot_pairs(queries_BD: Tensor, table_ND: Tensor, rows_BK: Tensor) -> Tensor:
    """[B, K] the product of each query with the rows of the table that are named for it."""
    if runs_triton(queries_BD, table_ND):
        fused: Tensor = _fused("dot", (queries_BD,), table_ND, rows_BK)
        return fused
    with torch.autocast(queries_BD.device.type, enabled=False):  # differences of products need all digits
        found: Tensor = torch.einsum("bd,bkd->bk", queries_BD, functional.embedding(rows_BK, table_ND))
    return found


def l1_pairs(queries_BD: Tensor, table_ND: Tensor, rows_BK: Tensor) -> Tensor:
    """[B, K] the L1 distance of each query from its rows.

    >>> l1_pairs(torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, 0.0], [3.0, 3.0]]), torch.tensor([[0, 1]]))
    tensor([[1., 5.]])
    """
    return _sums("l1", (queries_BD,), table_ND, rows_BK)


def box_pairs(box: tuple[Tensor, Tensor], table_ND: Tensor, rows_BK: Tensor, inside: float) -> Tensor:
    """[B, K] the distance of each box (centres, offsets >= 0) from its rows: outside, plus a share of it inside.

    >>> box = torch.tensor([[0.0]]), torch.tensor([[2.0]])
    >>> box_pairs(box, torch.tensor([[1.0], [5.0]]), torch.tensor([[0, 1]]), inside=0.5)
    tensor([[0.5000, 4.0000]])
    """
    return _sums("box", box, table_ND, rows_BK, inside)


def cone_pairs(cone: tuple[Tensor, Tensor], table_ND: Tensor, rows_BK: Tensor, inside: float) -> Tensor:
    """[B, K] the distance of each cone (axes, half apertures in [0, pi]) from its rows, which are angles: the chords
    outside, plus a share of those inside (`tarbox.models.cone`).

    >>> cone = torch.tensor([[0.0]]), torch.tensor([[1.0]])
    >>> cone_pairs(cone, torch.tensor([[0.5], [2.0]]), torch.tensor([[0, 1]]), inside=0.0)
    tensor([[0.0000, 0.4794]])
    """
    return _sums("cone", cone, table_ND, rows_BK, inside)


def cone_distances(cone: tuple[Tensor, Tensor], table_ND: Tensor, inside: float) -> Tensor:
    """[B, N] the distance of each cone from every row, a block of queries at a time."""
    block = max(1, _TERMS_AT_A_TIME // max(table_ND.numel(), 1))
    rows_N = torch.arange(len(table_ND), device=table_ND.device)
    parts = zip(*(torch.split(side, block) for side in cone), strict=True)
    return torch.cat(
        [cone_pairs((axes, halves), table_ND, rows_N.expand(len(axes), -1), inside) for axes, halves in parts]
    )


def box_distances(box: tuple[Tensor, Tensor], table_ND: Tensor, inside: float) -> Tensor:
    """[B, N] the distance of each box from every row, for inference.

    The distance from an interval [l, u] is (|x - l| + |x - u| - (u - l)) / 2, so three L1 distances are enough, which
    `cdist` takes without anything of size B x N x D.
    """
    centres_BD, offsets_BD = box
    lower, upper = (torch.cdist(corner, table_ND, p=1) for corner in (centres_BD - offsets_BD, centres_BD + offsets_BD))
    outside_BN = lower.add_(upper).div_(2).sub_(offsets_BD.sum(1, keepdim=True))
    return outside_BN.mul_(1 - inside).add_(torch.cdist(centres_BD, table_ND, p=1), alpha=inside)


def _sums(kind: str, parts: tuple[Tensor, ...], table_ND: Tensor, rows_BK: Tensor, number: float = 0.0) -> Tensor:
    if runs_triton(parts[0], table_ND):
        fused: Tensor = _fused(kind, parts, table_ND, rows_BK, number)
        return fused
    chosen_BKD = functional.embedding(rows_BK, table_ND)
    return TERMS[kind](chosen_BKD, [part[:, None] for part in parts], number).sum(-1)


def _fused(kind: str, parts: tuple[Tensor, ...], table_ND: Tensor, rows_BK: Tensor, number: float = 0.0) -> Tensor:
    found: Tensor = _PairSums.apply(kind, parts[0], parts[-1], table_ND, rows_BK, number)  # type: ignore[no-untyped-call]
    return found


class _PairSums(torch.autograd.Function):
    """The sums by Triton; the backward pass reads the rows again instead of keeping the differences.

    Where a query has one part, it stands for the second, too, whose gradient is then 0.
    """

    @staticmethod
    def forward(ctx: Any, kind: str, *given: Any) -> Tensor:
        from tarbox.models.pair_kernels import Pairs, pair_sums

        first, second, table_ND, rows_BK, ctx.number = given
        ctx.kind, parts = kind, (first.contiguous(), second.contiguous())
        ctx.save_for_backward(*parts, table_ND, rows_BK)
        return pair_sums(Pairs(kind, parts, table_ND, rows_BK, ctx.number))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BK: Tensor) -> tuple[Tensor | None, ...]:
        from tarbox.models.pair_kernels import Pairs, pair_gradients

        first, second, table_ND, rows_BK = ctx.saved_tensors
        pairs = Pairs(ctx.kind, (first, second), table_ND, rows_BK, ctx.number)
        by_parts, by_table = pair_gradients(pairs, grad_BK.float().contiguous())
        return None, by_parts[0], by_parts[1] if ctx.kind in WIDE else None, by_table, None, None


def runs_triton(*given: Tensor) -> bool:
    """Whether our kernels take these tensors: single precision, on a GPU."""
    return all(one.is_cuda and one.dtype is torch.float32 for one in given) and _has_triton()


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
