"""Candidates for concept retrieval from one matrix product: an explicit feature map of the Jensen-Shannon kernel.

JS is homogeneous: with k(x, y) = x/2 log2((x + y)/x) + y/2 log2((x + y)/y) = sqrt(xy) K(ln y/x) it is

    JS(P, Q) = ln 2 [1/2 sum P + 1/2 sum Q - sum k(P, Q)],

and K is a positive definite function of the logarithmic ratio (Vedaldi and Zisserman). A cosine series
K(s) ~ c0 + sum cj cos(jLs) makes k a product of features sqrt(x) (1, cos(jL ln x), sin(jL ln x)), so that all pairs are
one matrix product. The coefficients below are not samples of the spectrum but a minimax fit of |series - K| / cosh(s/2)
over all s: since sqrt(xy) cosh(s/2) = (x + y)/2, its greatest value eta bounds the error of JS by
eta ln 2 (sum P + sum Q)/2, for any sets whatever. So the exact scores of the best few prove whether anything better was
left out (`Nearest.certain`).
"""

# ruff: noqa: N803, N806 (shape suffixes, see STYLE.md)
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor

from tarbox.models.divergence import Halves, pair_similarity

_CELLS: Final = 1 << 24
_COLUMNS: Final = 16


@final
@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """The best concepts of each query: `scores` [B, k] exact and decreasing, `rows` [B, k] which concepts they are.

    `certain` [B]: proven to be the k best of all. Where it is false they may be, but the margin is below the bound.
    """

    scores: Tensor
    rows: Tensor
    certain: Tensor


@final
@dataclass(frozen=True, slots=True)
class FeatureMap:
    """`weights` are c0, c1, ...; `period` is L; `bound` is eta."""

    period: float
    weights: tuple[float, ...]
    bound: float

    def features(self, halves_NE: Tensor) -> Tensor:
        """[N, E * F] without the weights; F = 2 * (terms of the series) - 1."""
        root_NE, turn_NE = halves_NE.sqrt(), halves_NE.log() * self.period
        waves = [root_NE]
        for order in range(1, len(self.weights)):
            waves += [root_NE * torch.cos(order * turn_NE), root_NE * torch.sin(order * turn_NE)]
        return torch.cat(waves, dim=1)

    def approximate(self, concepts: Halves, queries: Halves, dtype: torch.dtype = torch.float32) -> Tensor:
        """[B, C] S_Con up to the bound (and the rounding of `dtype`), some entities at a time."""
        C, E = concepts.values.shape
        products_BC = queries.values.new_zeros(len(queries.values), C)
        orders = torch.tensor(self.weights, device=products_BC.device).repeat_interleave(2)[1:]
        step = max(1, _CELLS // (len(orders) * max(C, 1)))
        for start in range(0, E, step):
            part = slice(start, start + step)
            left = self.features(queries.values[:, part]) * orders.repeat_interleave(min(step, E - start))
            products_BC += (left.to(dtype) @ self.features(concepts.values[:, part]).to(dtype).T).to(products_BC.dtype)
        own_BC = concepts.values.sum(1)[None, :] + queries.values.sum(1)[:, None]
        return (2 * products_BC - own_BC) * (math.log(2) / queries.scale)

    def nearest(self, concepts: Halves, queries: Halves, k: int, spare: int = 200) -> Nearest:
        """The k best concepts: k + spare candidates from the features, scored exactly."""
        with torch.no_grad():
            rough_BC = self.approximate(concepts, queries)
            k = min(k, rough_BC.shape[1])
            taken = min(k + spare, rough_BC.shape[1])
            best = rough_BC.topk(min(taken + 1, rough_BC.shape[1]), dim=1)
            rows_BR = best.indices[:, :taken]
            exact_BR = torch.cat(
                [pair_similarity(concepts, queries, rows) for rows in torch.split(rows_BR, _COLUMNS, 1)], 1
            )
            found = exact_BR.topk(k, dim=1)
            return Nearest(
                found.values,
                rows_BR.gather(1, found.indices),
                self._certain(found.values, best.values[:, taken:], concepts, queries),
            )

    def _certain(self, exact_Bk: Tensor, left_out_B1: Tensor, concepts: Halves, queries: Halves) -> Tensor:
        """[B] whether the best that was left out, at its greatest possible score, is below the k-th exact score."""
        if left_out_B1.shape[1] == 0 or exact_Bk.shape[1] == 0:
            return torch.ones(len(exact_Bk), dtype=torch.bool, device=exact_Bk.device)
        sums = concepts.values.sum(1).max() + queries.values.sum(1)
        error_B = self.bound * math.log(2) * sums / queries.scale
        return exact_Bk[:, -1] > left_out_B1[:, 0] + error_B


COARSE: Final = FeatureMap(0.31, (0.43611962, 0.44081607, 0.09417048, 0.02065414, 0.00783914), bound=4.1e-4)
FINE: Final = FeatureMap(
    0.26, (0.3715224, 0.441457, 0.13378464, 0.03720828, 0.01215159, 0.00132484, 0.00246792), bound=8.4e-5
)
