"""Filtered realistic ranks (docs/benchmarks.md).

The candidates of a query are the whole vocabulary of its level, without the excluded ones, the known answers and the
query's other targets. Among them, rank = 1 + the number of better ones + half the number of equal ones: the mean of
the best and the worst rank that a sort could give, PyKEEN's "realistic" rank. Scores may be a numpy array or a torch
tensor on any device; the work is done where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tarbox.benchmark.tables import OUTSIDE, Lists
from tarbox.core.errors import BenchmarkError
from tarbox.kb.arrays import Doubles, Ids, Places

Ranks = Doubles
NO_IDS: Final = np.empty(0, np.int32)


def filtered_ranks(scores: Any, targets: Lists, known: Lists, excluded: Ids = NO_IDS) -> Ranks:
    """[T] the rank of every target, list after list; infinite for a target outside the vocabulary.

    `scores` is [B, N], greater is better; `targets` and `known` have one list per query, and `excluded` are no
    candidates of any.

    >>> scores = np.array([[0.9, 0.5, 0.5, 0.1]])
    >>> filtered_ranks(scores, Lists.of([[1]]), Lists.of([[0]])).tolist()
    [1.5]
    """
    if bool((scores != scores).any()):  # noqa: PLR0124 (true for NaN only, in numpy and in torch)
        raise BenchmarkError("the model gives scores that are not numbers (NaN), which no rank can be made of")
    inside = np.flatnonzero(targets.values != OUTSIDE)
    owners, columns = targets.owners()[inside], targets.values[inside].astype(np.int64)
    sizes = np.bincount(owners, minlength=len(targets))
    order = np.argsort(-sizes, kind="stable")
    rivals = _rivals(scores, order, [(owners, columns), (known.owners(), known.values.astype(np.int64))], excluded)
    ranks = np.full(len(targets.values), np.inf)
    ranks[inside] = _count(scores, rivals, (order, sizes, columns))
    return ranks


def _count(scores: Any, rivals: Any, layout: tuple[Places, Places, Places]) -> Ranks:
    """The ranks of targets inside the vocabulary.

    Queries stand in `order`, those with the most targets first. So round k compares the k-th target of the queries
    that have one with the first rows of `rivals`, which need not be copied. NaN is neither greater nor equal.
    """
    order, sizes, columns = layout
    starts = (np.cumsum(sizes) - sizes)[order]
    ranks = np.empty(len(columns))
    for turn in range(int(sizes.max(initial=0))):
        having = int(np.count_nonzero(sizes > turn))
        places = starts[:having] + turn
        own = scores[_like(order[:having], scores), _like(columns[places], scores)][:, None]
        others = rivals[:having]
        ranks[places] = 1.0 + _numpy((others > own).sum(1)) + 0.5 * _numpy((others == own).sum(1))
    return ranks


def _rivals(scores: Any, order: Places, filtered: Sequence[tuple[Places, Places]], excluded: Ids) -> Any:
    """The rows of `scores` in this order, with NaN for what is no candidate."""
    rivals = scores[_like(order, scores)]
    row_of = np.argsort(order)
    for rows, columns in filtered:
        rivals[_like(row_of[rows], scores), _like(columns, scores)] = np.nan
    rivals[:, _like(excluded.astype(np.int64), scores)] = np.nan
    return rivals


def _like(indices: Places, scores: Any) -> Any:
    """Indices of the kind that index `scores`."""
    if isinstance(scores, np.ndarray):
        return indices
    import torch

    return torch.from_numpy(np.ascontiguousarray(indices)).to(scores.device)


def _numpy(counts: Any) -> Doubles:
    array = counts if isinstance(counts, np.ndarray) else counts.cpu().numpy()
    return array.astype(np.float64)
