"""Concept retrieval: the Jensen-Shannon similarity of p-normalised fuzzy sets (Eq. 12 and 13), without B x C x E.

With M = (P + Q) / 2 and the divergence as the mean of both terms (the sign in Eq. 12 is a slip, ADR 0006),

    JS(P, Q) = 1/2 sum P ln(P/M) + 1/2 sum Q ln(Q/M) = 1/2 sum P ln P + 1/2 sum Q ln Q - sum M ln M,

whatever P and Q sum to: under a p-norm other than 1 they do not sum to 1, and nothing here needs it. Only the last sum
depends on the pair. Multiplying the argument of every logarithm by one number t leaves JS as it is, because the sums
of weights cancel: 1/2 P + 1/2 Q - M = 0. So with g(z) = z ln z, x = tP, y = tQ,

    JS(P, Q) = 1/t [1/2 sum g(x) + 1/2 sum g(y) - sum g(x/2 + y/2)].

t = E^(1/p) is the scale at which a constant set has the value 1, where g is 0: nearly constant sets, which is what
training starts from, then meet no cancellation, and single precision is enough (`Halves` holds x/2 and y/2).

Shape letters: E entities, C concepts, B queries, K concepts per query, R rows of a table of concept sets.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Final, TypeAlias, final

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tarbox.models.pairs import runs_triton

TINY_HALF: Final = 1e-30
"""Where a degree is 0 its half is set to this, so that z ln z is 0 and not NaN; it is far below any rounding."""
TERMS_AT_A_TIME: Final = MappingProxyType({"cpu": 1 << 17, "cuda": 1 << 26})
"""How many terms the versions in torch hold at a time: as a CPU's cache holds, or as keep a GPU busy."""

CrossTerms: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""([C, E], [B, E]) -> [B, C]: the sum over entities of z log2 z, z = x/2 + y/2."""


@final
@dataclass(frozen=True, slots=True)
class Engines:
    """What sums over entities: `cross_terms` of all pairs; of some pairs `pair_terms` [B, K], the sum of g(z), and
    `pair_gradients` [R, E], [B, E], its derivatives by concept and by query."""

    cross_terms: CrossTerms
    pair_terms: Callable[[Tensor, Tensor, Tensor], Tensor]
    pair_gradients: Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


@final
@dataclass(frozen=True, slots=True)
class Halves:
    """Normalised fuzzy sets, scaled: `values` [N, E] is t/2 times P (Eq. 13); t is `scale`.

    `sums` are what `own` gives, where they were computed before.
    """

    values: Tensor
    scale: float
    sums: Tensor | None = None

    @classmethod
    def of(cls, sets_NE: Tensor, p: float, epsilon: float) -> Halves:
        """Eq. 13: each set divided by max(its p-norm, epsilon)."""
        scale = float(sets_NE.shape[1]) ** (1 / p)
        factor_N1 = (scale / 2) / _norm(sets_NE, p).clamp_min(epsilon)
        return cls((sets_NE * factor_N1).clamp_min(TINY_HALF), scale)

    def own(self) -> Tensor:
        """[N] 1/2 sum g(x), the part of JS that is the set's own, times t."""
        return _own(self.values) if self.sums is None else self.sums

    def settled(self) -> Halves:
        """The same, to be compared many times."""
        return Halves(self.values, self.scale, self.own())


def similarity(concepts: Halves, queries: Halves, engine: CrossTerms | None = None) -> Tensor:
    """[B, C] S_Con of Eq. 12 for every query and concept; for inference.

    `engine` sums the terms of the pairs; by default the quickest there is for the device and the number format.

    >>> sets = torch.tensor([[0.9, 0.1, 0.0], [0.0, 0.1, 0.9]])
    >>> halves = Halves.of(sets, p=1, epsilon=1e-12)
    >>> similarity(halves, halves).round(decimals=3)
    tensor([[ 0.0000, -0.6240],
            [-0.6240,  0.0000]])
    """
    cross = engine or choose_engines(queries.values).cross_terms
    pairs_BC = cross(concepts.values, queries.values) * math.log(2)
    return (pairs_BC - concepts.own()[None, :] - queries.own()[:, None]).clamp_max(0) / queries.scale


def pair_similarity(concepts: Halves, queries: Halves, rows_BK: Tensor) -> Tensor:
    """[B, K] S_Con of each query with the concepts in the given rows of the table, with gradient.

    Neither direction keeps anything of size B x K x E: the backward pass computes the logarithms again.
    """
    found: Tensor = _PairSimilarity.apply(concepts.values, queries.values, rows_BK)  # type: ignore[no-untyped-call]
    return found / queries.scale


def choose_engines(like: Tensor) -> Engines:
    """The quickest engines for tensors like this one: Triton on CUDA, numba on CPU, both in single precision only."""
    if runs_triton(like):
        from tarbox.models import kernels

        return Engines(kernels.cross_terms, kernels.pair_terms, kernels.pair_gradients)
    if like.device.type == "cpu" and like.dtype is torch.float32 and _has_numba():
        from tarbox.models import host_kernels

        return Engines(host_kernels.cross_terms, host_kernels.pair_terms, host_kernels.pair_gradients)
    return EAGER


def cross_eager(concepts_CE: Tensor, queries_BE: Tensor) -> Tensor:
    """The reference engine, in torch alone: a few queries and concepts at a time."""
    terms, entities = _chunk(queries_BE), max(concepts_CE.shape[1], 1)
    out_BC = queries_BE.new_empty(len(queries_BE), len(concepts_CE))
    wide = max(1, min(len(concepts_CE), terms // entities))
    high = max(1, terms // (entities * wide))
    for top in range(0, len(queries_BE), high):
        for left in range(0, len(concepts_CE), wide):
            tile = (slice(top, top + high), slice(left, left + wide))
            z_BCE = queries_BE[tile[0], None, :] + concepts_CE[None, tile[1], :]
            out_BC[tile] = (z_BCE * z_BCE.log2()).sum(2)
    return out_BC


@final
class _PairSimilarity(torch.autograd.Function):
    """t S_Con for pairs, from halves h = x/2 and k = y/2: sum z ln z - h ln 2h - k ln 2k, z = h + k.

    Its derivatives are ln z - ln 2h by h and ln z - ln 2k by k.
    """

    @staticmethod
    def forward(ctx: Any, concepts_RE: Tensor, queries_BE: Tensor, rows_BK: Tensor) -> Tensor:
        ctx.save_for_backward(concepts_RE, queries_BE, rows_BK)
        pairs_BK = choose_engines(queries_BE).pair_terms(concepts_RE, queries_BE, rows_BK)
        return pairs_BK - _own(concepts_RE)[rows_BK] - _own(queries_BE)[:, None]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BK: Tensor) -> tuple[Tensor, Tensor, None]:
        concepts_RE, queries_BE, rows_BK = ctx.saved_tensors
        grads = choose_engines(queries_BE).pair_gradients(concepts_RE, queries_BE, rows_BK, grad_BK.contiguous())
        return (*grads, None)


def _forward_eager(concepts_RE: Tensor, queries_BE: Tensor, rows_BK: Tensor) -> Tensor:
    out_BK = queries_BE.new_empty(rows_BK.shape)
    for part in _chunks(queries_BE, rows_BK):
        z_bKE = concepts_RE[rows_BK[part]] + queries_BE[part, None]
        out_BK[part] = (z_bKE.log() * z_bKE).sum(2)
    return out_BK


def _backward_eager(concepts_RE: Tensor, queries_BE: Tensor, rows_BK: Tensor, grad_BK: Tensor) -> tuple[Tensor, Tensor]:
    by_row_R = grad_BK.new_zeros(len(concepts_RE)).index_add_(0, rows_BK.flatten(), grad_BK.flatten())
    by_concept_RE = (2 * concepts_RE).log_().mul_(-by_row_R[:, None])
    by_query_BE = (2 * queries_BE).log_().mul_(-grad_BK.sum(1, keepdim=True))
    for part in _chunks(queries_BE, rows_BK):
        log_bKE = (concepts_RE[rows_BK[part]] + queries_BE[part, None]).log_().mul_(grad_BK[part, :, None])
        by_query_BE[part] += log_bKE.sum(1)
        by_concept_RE.index_add_(0, rows_BK[part].flatten(), log_bKE.flatten(0, 1))
    return by_concept_RE, by_query_BE


EAGER: Final = Engines(cross_eager, _forward_eager, _backward_eager)
"""In torch alone: for any device and precision, and what the others are tested against."""


def _chunks(queries_BE: Tensor, rows_BK: Tensor) -> list[slice]:
    """Slices of the batch with some `TERMS_AT_A_TIME` terms each."""
    step = max(1, _chunk(queries_BE) // max(rows_BK.shape[1] * queries_BE.shape[1], 1))
    return [slice(start, start + step) for start in range(0, len(queries_BE), step)]


def _chunk(like: Tensor) -> int:
    return TERMS_AT_A_TIME["cpu" if like.device.type == "cpu" else "cuda"]


def _own(halves_NE: Tensor) -> Tensor:
    """[N] sum of 1/2 g(2h) = h ln(2h)."""
    return (halves_NE * (2 * halves_NE).log_()).sum(1)


def _norm(sets_NE: Tensor, p: float) -> Tensor:
    """[N, 1] the p-norm of non-negative rows."""
    if p == 1:
        return sets_NE.sum(1, keepdim=True)
    norm_N1: Tensor = torch.linalg.vector_norm(sets_NE, ord=p, dim=1, keepdim=True)
    return norm_N1


@cache
def _has_numba() -> bool:
    return find_spec("numba") is not None
