"""Adagrad's update on a GPU (Triton): every number is read and written once, where torch makes a pass for each sign.

Imported on CUDA only, or with TRITON_INTERPRET=1 in tests.
"""

# ruff: noqa: N803 (Triton's constants are upper case)
# Triton reads the annotations of its kernels, so they have none of ours:
# mypy: allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

from typing import Any, Final

import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch import Tensor

from tarbox.training.adagrad import EPSILON

_BLOCK: Final = 1024


def _update_kernel(  # noqa: PLR0913, PLR0917
    table, squares, gradient, rate, rows, last, WIDTH, BLOCKS,
    SOME: tl.constexpr, EPSILON: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of a row of the gradient, one up to `last`, and of table row `rows[own]`; or of one long row of both."""
    own = (tl.program_id(0) // BLOCKS).to(tl.int64)
    place = (tl.program_id(0) % BLOCKS).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    used, there = place < WIDTH, place
    if SOME:
        used = used & (own <= tl.load(last))
        there = tl.load(rows + own) * WIDTH + place
    slope = tl.load(gradient + own * WIDTH + place, mask=used, other=0.0)
    total = tl.load(squares + there, mask=used, other=1.0) + slope * slope
    before = tl.load(table + there, mask=used, other=0.0)
    tl.store(squares + there, total, mask=used)
    tl.store(table + there, before - tl.load(rate) * slope / (tl.sqrt(total) + EPSILON), mask=used)


_kernel: Any = triton.jit(_update_kernel)


def update(
    table: Tensor, squares: Tensor, gradient: Tensor, rate: Tensor, chosen: tuple[Tensor, Tensor] | None
) -> None:
    """In place, of all rows of a table [N, D], or of those `chosen`: (rows [R], the place of the last that counts)."""
    rows, last = chosen or (rate, rate)
    width = gradient.shape[1] if chosen else gradient.numel()
    blocks = triton.cdiv(width, _BLOCK)
    grid = (gradient.numel() // width * blocks,)
    _kernel[grid](table, squares, gradient, rate, rows, last, width, blocks, chosen is not None, EPSILON, _BLOCK)
