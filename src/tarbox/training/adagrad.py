"""Adagrad (Duchi et al. 2011), with rates that are tensors and gradients of few of many rows.

torch's own is not recorded with such a rate. Of a row-sparse gradient only the rows that it has are touched: where a
step sees few rows of a table, the others cost nothing. In those rows the update is the one that the same gradient,
written out, would make.
"""

# ruff: noqa: N806 (shape suffixes)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

import torch
from torch import Tensor

from tarbox.models.pairs import runs_triton

SQUARES: Final = "squares"
"""What is known of a parameter: the sums of the squares of its gradients."""
EPSILON: Final = 1e-10
"""Added to what is divided by."""


@final
class Adagrad(torch.optim.Optimizer):
    """Divides every gradient by the root of the sum of its squares so far.

    `awaited` parameters are updated last; what it has for one is called first, and brings the gradient.
    """

    def __init__(self, groups: Sequence[dict[str, Any]]) -> None:
        super().__init__(groups, {})
        self.awaited: dict[Tensor, Callable[[], None]] = {}

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # noqa: ARG002
        given = [(own, group["lr"]) for group in self.param_groups for own in group["params"] if own.grad is not None]
        for parameter, rate in sorted(given, key=lambda pair: pair[0] in self.awaited):
            if parameter in self.awaited:
                self.awaited.pop(parameter)()
            state = self.state[parameter]
            if not state:
                state[SQUARES] = torch.zeros_like(parameter)
            _update(parameter, state[SQUARES], rate)


def _update(table: Tensor, squares: Tensor, rate: float | Tensor) -> None:
    gradient = table.grad
    assert gradient is not None
    if runs_triton(table) and isinstance(rate, Tensor):
        from tarbox.training.adagrad_kernel import update

        if gradient.is_sparse:
            rows_R, values_RD, last = merge_rows(gradient)
            update(table, squares, values_RD, rate, (rows_R, last))
        else:
            update(table, squares, gradient.contiguous(), rate, None)
    elif gradient.is_sparse:
        summed = gradient.coalesce()
        rows_R, values_RD = summed.indices()[0], summed.values()
        squares.index_add_(0, rows_R, values_RD * values_RD)
        table.index_add_(0, rows_R, values_RD / (squares[rows_R].sqrt() + EPSILON) * -rate)
    else:
        squares.addcmul_(gradient, gradient)
        table.sub_(gradient / (squares.sqrt() + EPSILON) * rate)


def merge_rows(gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(rows [R], their sums [R, D], the place of the last) of a sparse gradient, as many as it has entries: where some
    are of one row, the places behind the last say nothing. To read back how many differ, a host would wait in every
    step, and the step could not be recorded."""
    entries_R = gradient._indices()[0]
    sorted_R, order_R = entries_R.sort()
    sorted_places_R = torch.cat([sorted_R.new_zeros(1), (sorted_R[1:] != sorted_R[:-1]).long().cumsum(0)])
    places_R = torch.empty_like(order_R).scatter_(0, order_R, sorted_places_R)
    values_RD = gradient._values()
    sums_RD = torch.zeros_like(values_RD).index_add_(0, places_R, values_RD)
    return sorted_R.clone().scatter_(0, sorted_places_R, sorted_R), sums_RD, sorted_places_R[-1]
