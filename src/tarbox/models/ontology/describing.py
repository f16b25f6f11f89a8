"""How a model of memberships answers queries at both levels (ADR 59).

Embeddings of ontologies say how far an entity is an instance of a concept; queries they do not know. So a query is what
the known facts answer, at most `most` entities, and a concept is scored by the mean over them of the model's degree:
counting, with a degree in the place of a known typing. Where the facts answer nothing, the entities that most often
stand at the end of the query's last relation take their place, as in the prior of counting. At entity level a candidate
is scored by the mean of its nearness to the answers.

Shape letters: B queries, S slots, N candidates of a level, A answers that some queries have, U entities, K candidates.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import numpy as np
import torch
from torch import Tensor, nn

from tarbox.core.ids import Level
from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.kb.arrays import Doubles, Ids
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows, pair_keys
from tarbox.models.base import Model, Sizes, Task
from tarbox.models.priors import Priors
from tarbox.query.algebra import Query

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CELLS: Final = 1 << 24
"""Numbers held at a time: degrees of all answers in a block of candidates, or their differences in every dimension."""
_NEAR_CELLS: Final = 1 << 19
"""The latter on a processor: what its cache holds."""


@final
@dataclass(frozen=True, slots=True)
class AnswerSets:
    """What the known facts answer."""

    index: Index
    priors: Priors
    most: int

    @classmethod
    def of(cls, facts: Facts, most: int) -> AnswerSets:
        index = Index.of(facts)
        return cls(index, Priors.of(index, Level.ENTITY), most)

    def weights(self, shape: Query, ids: Ids) -> Rows:
        """[B, E] the weights of the answers of each query; they add up to 1, unless there is none at all."""
        known, _, _ = answer_rows(shape, ids, self.index)
        rows, columns = known.coordinates()
        kept = _evenly(known, self.most)
        empty = np.flatnonzero(known.sizes() == 0)
        places: list[tuple[NDArray[Any], ...]] = [(rows[kept], columns[kept], np.ones(int(kept.sum())))]
        at_once = max(1, _CELLS // max(self.index.entities, 1))
        for start in range(0, len(empty), at_once):
            block = empty[start : start + at_once]
            places.append(self._usual(shape, ids[block], block))
        row, column, weight = (np.concatenate(part) for part in zip(*places, strict=True))
        sums = np.bincount(row, weight, len(ids))
        return Rows.of_values(
            pair_keys(row, column, self.index.entities), weight / sums[row], len(ids), self.index.entities
        )

    def _usual(self, shape: Query, ids: Ids, block: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """(queries, entities, weights) of those that most often stand where the answers do."""
        frequent = self.priors.relative(shape, ids)
        rows, columns = np.nonzero(_greatest(frequent, self.most) & (frequent > 0))
        return block[rows], columns, frequent[rows, columns]


def _evenly(known: Rows, most: int) -> NDArray[np.bool_]:
    """Which entries to keep so that no row has more than so many: they lie as far apart as can be.

    >>> _evenly(Rows(np.array([0, 4, 5]), np.array([3, 5, 6, 9, 2])), 2).tolist()
    [False, True, False, True, True]
    """
    sizes = np.repeat(known.sizes(), known.sizes())
    within = np.arange(len(known.columns)) - np.repeat(known.offsets[:-1], known.sizes())
    kept: NDArray[np.bool_] = (within + 1) * most // sizes > within * most // sizes
    return kept


def _greatest(values: Doubles, most: int) -> NDArray[np.bool_]:
    """[B, N] which are the greatest of each row, at most so many; of equal ones the first. No row is sorted.

    >>> _greatest(np.array([[1.0, 3.0, 1.0, 2.0]]), 3).tolist()
    [[True, True, False, True]]
    """
    if most >= values.shape[1]:
        return np.ones(values.shape, np.bool_)
    least = np.partition(values, -most, axis=1)[:, -most, None]
    above, equal = values > least, values == least
    kept: NDArray[np.bool_] = above | (equal & (equal.cumsum(1) <= most - above.sum(1, keepdims=True)))
    return kept


class DescribingModel(Model):
    """A model of memberships: a subclass says what an entity's point is, and how far an entity is in a concept.

    `instantiation` takes ids that broadcast and gives the log-odds of membership; `subsumption` takes such ids, too.
    """

    tasks: ClassVar[frozenset[Task]] = frozenset({Task.ENTITY, Task.SUBSUMPTION, Task.INSTANTIATION})
    lacks: frozenset[type[Any]] = frozenset()

    def __init__(self, sizes: Sizes, most: int) -> None:
        super().__init__(sizes)
        self._most = most
        self._sets: AnswerSets | None = None

    @abc.abstractmethod
    def points(self) -> Tensor:
        """[E, D] where the entities are; those near each other are alike."""

    @abc.abstractmethod
    def memberships(self, entities_U: Tensor, concepts: slice) -> Tensor:
        """[U, N] the log-odds that entities are in these concepts."""

    @final
    def observe(self, facts: Facts) -> None:
        self._sets = AnswerSets.of(facts, self._most)

    @final
    def score(self, shape: Query, ids_BS: Ids | Tensor, level: Level) -> Tensor:
        """[B, N]"""
        self.require(shape)
        with torch.no_grad():
            return self._means(shape, ids_BS, level)

    @final
    def score_candidates(self, shape: Query, ids_BS: Tensor, level: Level, candidates_BK: Tensor) -> Tensor:
        """[B, K]"""
        return self._means(shape, ids_BS, level).gather(1, candidates_BK)

    def _means(self, shape: Query, ids_BS: Ids | Tensor, level: Level) -> Tensor:
        """By some candidates at a time: an answer that many queries have is met once."""
        assert self._sets is not None, "a model that answers from facts is made by `begin`"
        ids = ids_BS.cpu().numpy() if isinstance(ids_BS, Tensor) else ids_BS
        weights, points = self._sets.weights(shape, ids.astype(np.int32)), self.points()
        used, places = np.unique(weights.columns, return_inverse=True)
        entities_U = torch.from_numpy(used.astype(np.int64)).to(points.device)
        rows, _ = weights.coordinates()
        where = torch.from_numpy(np.stack([rows, places.astype(np.int64)])).to(points.device)
        values = torch.from_numpy(np.asarray(weights.values)).to(points)
        matrix_BU = torch.sparse_coo_tensor(where, values, (len(weights), len(used)), check_invariants=False)
        width, step = self.candidates(level), max(1, _CELLS // max(len(used), 1))
        blocks = [
            torch.sparse.mm(matrix_BU, self._degrees(entities_U, points, level, slice(first, min(first + step, width))))
            for first in range(0, width, step)
        ]
        return torch.cat(blocks, 1) if blocks else points.new_empty(len(ids), 0)

    def _degrees(self, entities_U: Tensor, points_ED: Tensor, level: Level, candidates: slice) -> Tensor:
        """[U, N] of each entity with each of these candidates."""
        if level is Level.ENTITY:
            return 1 / (1 + torch.cdist(points_ED[entities_U], points_ED[candidates]))
        return torch.sigmoid(self.memberships(entities_U, candidates))


def in_parts(rows: Tensor, width: int, table: Callable[[Tensor], Tensor]) -> Tensor:
    """The table [U, C] of rows, where each needs `width` numbers for a while: some rows at a time."""
    cells = _NEAR_CELLS if rows.device.type == "cpu" else _CELLS
    return torch.cat([table(part) for part in torch.split(rows, max(1, cells // max(width, 1)))])


@final
class Platt(nn.Module):
    """Log-odds from scores, greater is better: the scale and the offset of Platt (1999)."""

    def __init__(self) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(2))

    def forward(self, scores: Tensor) -> Tensor:
        return self.values[0].exp() * scores + self.values[1]
