"""The terms of Eq. 12 on a CPU: vectorised by numba, in tiles that stay in the first cache, on several threads.

The threads are Python's, around loops that release the interpreter: unlike numba's own, they may be used by several
requests at once. Importing this module imports numba.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tarbox.execution.compilation import compiled
from tarbox.kb.arrays import Doubles, Floats, Places

_BLOCK: Final = 1024  # entities at a time: 4 KB of a row
_TILE: Final = 4  # concepts at a time, whose blocks share the first cache with one of a query
_WORTH: Final = 1 << 20  # terms below which a second thread costs more than it brings

# log2(1 + f) = f (c0 + c1 f + ... + c7 f^7) for 1 + f in [sqrt(1/2), sqrt(2)); the greatest relative error is 1.7e-7
_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7 = (
    np.float32(c)
    for c in (
        1.4426949619871514,
        -0.7213527880627363,
        0.4809232423162105,
        -0.3602396397502169,
        0.28709869924400283,
        -0.24887686401925957,
        0.23404237255237656,
        -0.1458116934081822,
    )
)
_LN2: Final = 0.6931471805599453
_ROOT_HALF: Final = np.int32(0x3F3504F3)  # the bits of sqrt(1/2)
_MANTISSA: Final = np.int32(23)
_compiled: Final = partial(compiled, fastmath=True)


@partial(_compiled, inline="always")
def _log2(z: np.float32) -> Any:
    """The logarithm of a positive, normal number from its bits; every step is 32 bits wide, so that it vectorises."""
    bits = np.float32(z).view(np.int32)
    exponent = np.int32(np.int32(bits - _ROOT_HALF) >> _MANTISSA)
    f = np.int32(bits - np.int32(exponent << _MANTISSA)).view(np.float32) - np.float32(1)
    series = _C7
    series = series * f + _C6
    series = series * f + _C5
    series = series * f + _C4
    series = series * f + _C3
    series = series * f + _C2
    series = series * f + _C1
    series = series * f + _C0
    return np.float32(exponent) + series * f


@_compiled
def _sum_block(concept: Floats, query: Floats) -> Any:
    """The sum of z log2 z over a block of entities; a function of its own, since only two plain arrays vectorise."""
    total = np.float32(0)
    for entity in range(concept.size):
        z = concept[entity] + query[entity]
        total += z * _log2(z)
    return total


@_compiled
def _fill(concepts_CE: Floats, queries_BE: Floats, out_BC: Doubles) -> None:
    entities = concepts_CE.shape[1]
    for left in range(0, concepts_CE.shape[0], _TILE):
        right = min(left + _TILE, concepts_CE.shape[0])
        for start in range(0, entities, _BLOCK):
            end = min(start + _BLOCK, entities)
            for query in range(queries_BE.shape[0]):
                for concept in range(left, right):
                    out_BC[query, concept] += _sum_block(concepts_CE[concept, start:end], queries_BE[query, start:end])


@_compiled
def _fill_pairs(concepts_RE: Floats, queries_BE: Floats, rows_BK: Places, out_BK: Doubles) -> None:
    entities = concepts_RE.shape[1]
    for query in range(rows_BK.shape[0]):
        for start in range(0, entities, _BLOCK):
            end = min(start + _BLOCK, entities)
            for place in range(rows_BK.shape[1]):
                concept = concepts_RE[rows_BK[query, place], start:end]
                out_BK[query, place] += _sum_block(concept, queries_BE[query, start:end])


@_compiled
def _add_logs(concept: Floats, query: Floats, weight: np.float32, by_concept: Floats, by_query: Floats) -> None:
    """Add weight * log2 z to both gradients, over one block of entities."""
    for entity in range(concept.size):
        term = weight * _log2(concept[entity] + query[entity])
        by_concept[entity] += term
        by_query[entity] += term


@_compiled
def _add_gradients(
    sets: tuple[Floats, Floats],
    rows_BK: Places,
    weights_BK: Floats,
    gradients: tuple[Floats, Floats],
    part: tuple[int, int],
) -> None:
    """The pairs' part of both gradients for some entities: threads that own entities never meet."""
    concepts_RE, queries_BE = sets
    by_concept_RE, by_query_BE = gradients
    for start in range(part[0], part[1], _BLOCK):
        end = min(start + _BLOCK, part[1])
        for query in range(rows_BK.shape[0]):
            for place in range(rows_BK.shape[1]):
                row = rows_BK[query, place]
                _add_logs(
                    concepts_RE[row, start:end],
                    queries_BE[query, start:end],
                    weights_BK[query, place],
                    by_concept_RE[row, start:end],
                    by_query_BE[query, start:end],
                )


def cross_terms(concepts_CE: Tensor, queries_BE: Tensor) -> Tensor:
    """[B, C] the sum over entities of z log2 z, z = concept + query: `CrossTerms` of `tarbox.models.divergence`."""
    concepts, queries = _plain(concepts_CE), _plain(queries_BE)
    out = np.zeros((len(queries), len(concepts)))
    terms = len(concepts) * queries.size

    def fill_queries(part: slice) -> None:
        _fill(concepts, queries[part], out[part])

    def fill_concepts(part: slice) -> None:
        _fill(concepts[part], queries, out[:, part])

    if len(queries) >= torch.get_num_threads():
        _share(fill_queries, len(queries), terms)
    else:
        _share(fill_concepts, len(concepts), terms)
    return torch.from_numpy(out.astype(np.float32))


def pair_terms(concepts_RE: Tensor, queries_BE: Tensor, rows_BK: Tensor) -> Tensor:
    """[B, K] the sum over entities of z ln z, for the concept in each given row."""
    concepts, queries, rows = _plain(concepts_RE), _plain(queries_BE), _plain(rows_BK)
    out = np.zeros(rows.shape)

    def fill(part: slice) -> None:
        _fill_pairs(concepts, queries[part], rows[part], out[part])

    _share(fill, len(rows), rows.size * queries.shape[1])
    return torch.from_numpy((out * _LN2).astype(np.float32))


def pair_gradients(concepts_RE: Tensor, queries_BE: Tensor, rows_BK: Tensor, grad_BK: Tensor) -> tuple[Tensor, Tensor]:
    """[R, E] and [B, E]: grad (ln z - ln 2x) summed by concept, and grad (ln z - ln 2y) summed by query."""
    rows_R = torch.zeros(len(concepts_RE)).index_add_(0, rows_BK.flatten(), grad_BK.flatten())
    by_concept_RE = (2 * concepts_RE).log_().mul_(-rows_R[:, None])
    by_query_BE = (2 * queries_BE).log_().mul_(-grad_BK.sum(1, keepdim=True))
    sets = (_plain(concepts_RE), _plain(queries_BE))
    rows, weights = _plain(rows_BK), _plain(grad_BK * _LN2)
    gradients = (by_concept_RE.numpy(), by_query_BE.numpy())

    def add(part: slice) -> None:
        _add_gradients(sets, rows, weights, gradients, (part.start, part.stop))

    _share(add, concepts_RE.shape[1], rows.size * concepts_RE.shape[1])
    return by_concept_RE, by_query_BE


def _share(work: Callable[[slice], None], size: int, terms: int) -> None:
    """Do the work in as many parts as torch has threads; in one where it is small."""
    threads = torch.get_num_threads() if terms > _WORTH else 1
    parts = [slice(start, end) for start, end in pairwise(np.linspace(0, size, threads + 1).astype(int).tolist())]
    if threads == 1:
        work(parts[0])
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, parts))


def _plain(tensor: Tensor) -> NDArray[Any]:
    return tensor.detach().contiguous().numpy()
