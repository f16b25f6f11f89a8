"""Runs a model over a query table and keeps every single rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.benchmark.tables import Batch, QueryTable
from tarbox.core.ids import Level
from tarbox.evaluation.ranks import NO_IDS, Ranks, filtered_ranks
from tarbox.kb.facts import Ids
from tarbox.models.scorer import Scorer

Progress = Callable[[int], object]
"""Called with the number of queries that were just ranked."""

NOTHING: Final[Mapping[Level, Ids]] = MappingProxyType({})
_CELLS: Final = 1 << 23


@final
@dataclass(frozen=True, slots=True)
class Ranked:
    """A table and the rank of each of its targets [T], in the table's order: list after list of `target`.

    A target outside the vocabulary has an infinite rank, whose reciprocal is 0.
    """

    table: QueryTable
    ranks: Ranks

    def rows(self) -> NDArray[np.int64]:
        """[T] the query of each target."""
        return self.table.lists("target").owners()


def rank_table(
    scorer: Scorer,
    table: QueryTable,
    excluded: Mapping[Level, Ids] = NOTHING,
    progress: Progress = lambda _: None,
    cells: int = _CELLS,
) -> Ranked:
    """Rank every target of `table`.

    `excluded` are no candidates (the top concepts, under the honest protocol). The model scores as many queries at a
    time as make `cells` scores.
    """
    starts = table.lists("target").offsets
    ranks = np.empty(starts[-1])
    for group in table.batches():
        candidates = scorer.candidates(group.level)
        for batch in group.split(max(1, cells // max(candidates, 1))):
            found = _rank(scorer, batch, candidates, excluded.get(batch.level, NO_IDS))
            ranks[_places(batch, starts)] = found
            progress(len(batch))
    return Ranked(table, ranks)


def _rank(scorer: Scorer, batch: Batch, candidates: int, excluded: Ids) -> Ranks:
    if candidates == 0:  # then every target is outside the vocabulary
        return np.full(len(batch.targets.values), np.inf)
    return filtered_ranks(scorer.score(batch.shape, batch.ids, batch.level), batch.targets, batch.known, excluded)


def _places(batch: Batch, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the targets of a batch stand among all targets of the table."""
    shift = starts[batch.rows] - batch.targets.offsets[:-1]
    return np.arange(len(batch.targets.values)) + np.repeat(shift, batch.targets.sizes())
