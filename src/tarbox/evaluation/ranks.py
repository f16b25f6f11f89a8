"""Filtered realistic ranks (PROTOCOL.md, point 4).

The candidates of a query are the whole vocabulary of its level, without the excluded ones, the known answers and the
query's other targets. Among them, rank = 1 + the number of better ones + half the number of equal ones: the mean of
the best and the worst rank that a sort could give, PyKEEN's "realistic" rank. Scores may be a numpy array or a torch
tensor on any device; the work is done where they are.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tarbox.benchmark.tables import OUTSIDE, Lists
from tarbox.core.errors import BenchmarkError
from tarbox.kb.facts import Ids

Ranks = NDArray[np.float64]
NO_IDS: Final = np.empty(0, np.int32)
_CELLS: Final = 1 << 24


def filtered_ranks(scores: Any, targets: Lists, known: Lists, excluded: Ids = NO_IDS, cells: int = _CELLS) -> Ranks:
    """[T] the rank of every target, list after list; infinite for a target outside the vocabulary.

    `scores` is [B, N], greater is better; `targets` and `known` have one list per query, and `excluded` are no
    candidates of any. At most `cells` comparisons are held in memory at a time.

    >>> scores = np.array([[0.9, 0.5, 0.5, 0.1]])
    >>> filtered_ranks(scores, Lists.of([[1]]), Lists.of([[0]])).tolist()
    [1.5]
    """
    if bool((scores != scores).any()):  # noqa: PLR0124 (true for NaN only, in numpy and in torch)
        raise BenchmarkError("the model gives scores that are not numbers (NaN), which no rank can be made of")
    inside = targets.values != OUTSIDE
    owners, columns = targets.owners()[inside], targets.values[inside].astype(np.int64)
    rivals = _without(scores, owners, columns)
    rivals = _without(rivals, known.owners(), known.values.astype(np.int64), copy=False)
    rivals[:, _like(excluded.astype(np.int64), scores)] = np.nan
    ranks = np.full(len(targets.values), np.inf)
    ranks[inside] = _count(scores, rivals, owners, columns, max(1, cells // scores.shape[1]))
    return ranks


def _count(scores: Any, rivals: Any, owners: NDArray[np.int64], columns: NDArray[np.int64], step: int) -> Ranks:
    """The ranks, `step` targets at a time. NaN is neither greater than anything nor equal to it."""
    ranks = [np.empty(0)]
    for start in range(0, len(owners), step):
        rows = _like(owners[start : start + step], scores)
        own = scores[rows, _like(columns[start : start + step], scores)][:, None]
        others = rivals[rows]
        better, equal = (others > own).sum(1), (others == own).sum(1)
        ranks.append(1.0 + _numpy(better) + 0.5 * _numpy(equal))
    return np.concatenate(ranks)


def _without(scores: Any, rows: NDArray[np.int64], columns: NDArray[np.int64], copy: bool = True) -> Any:
    """The scores with NaN at these places."""
    kept = (scores.copy() if isinstance(scores, np.ndarray) else scores.clone()) if copy else scores
    kept[_like(rows, scores), _like(columns, scores)] = np.nan
    return kept


def _like(indices: NDArray[np.int64], scores: Any) -> Any:
    """Indices of the kind that index `scores`."""
    if isinstance(scores, np.ndarray):
        return indices
    import torch

    return torch.from_numpy(np.ascontiguousarray(indices)).to(scores.device)


def _numpy(counts: Any) -> NDArray[np.float64]:
    array = counts if isinstance(counts, np.ndarray) else counts.cpu().numpy()
    return array.astype(np.float64)
