"""Runs a model over a query table and keeps every single rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, final

import numpy as np

from tarbox.benchmark.tables import Batch, QueryTable, render_shape
from tarbox.core.ids import Level
from tarbox.evaluation.ranks import NO_IDS, Ranks, filtered_ranks
from tarbox.kb.arrays import Ids, Places
from tarbox.models.scorer import Scorer

RankingProgress = Callable[[int], object]
"""Called with the number of queries that were just ranked."""

NO_EXCLUSIONS: Final[Mapping[Level, Ids]] = MappingProxyType({})
_SCORES_AT_A_TIME: Final = 1 << 23


@final
@dataclass(frozen=True, slots=True)
class Ranked:
    """A table and the rank of each of its targets [T], in the table's order: list after list of `target`.

    A target outside the vocabulary has an infinite rank, whose reciprocal is 0. `left_out` are the templates that the
    model has no meaning for, or the shapes of queries without one: their queries are not in the table.
    """

    table: QueryTable
    ranks: Ranks
    left_out: tuple[str, ...] = ()

    def rows(self) -> Places:
        """[T] the query of each target."""
        return self.table.lists("target").owners()


def rank_table(
    scorer: Scorer,
    table: QueryTable,
    excluded: Mapping[Level, Ids] = NO_EXCLUSIONS,
    progress: RankingProgress = lambda _: None,
    cells: int = _SCORES_AT_A_TIME,
) -> Ranked:
    """Rank every target of `table`, but for queries that the model has no meaning for.

    `excluded` are no candidates (the top concepts, under the honest protocol). The model scores as many queries at a
    time as make `cells` scores.
    """
    whole, (table, left_out) = len(table), answerable(scorer, table)
    progress(whole - len(table))
    starts = table.lists("target").offsets
    ranks = np.empty(starts[-1])
    for group in table.batches():
        candidates = scorer.candidates(group.level)
        for batch in group.split(max(1, cells // max(candidates, 1))):
            found = _rank(scorer, batch, candidates, excluded.get(batch.level, NO_IDS))
            ranks[_places(batch, starts)] = found
            progress(len(batch))
    return Ranked(table, ranks, left_out)


def answerable(scorer: Scorer, table: QueryTable) -> tuple[QueryTable, tuple[str, ...]]:
    """(the queries that the model has a meaning for, the templates or shapes of the others, each once)."""
    lacking = [batch for batch in table.batches() if not scorer.supports(batch.shape)]
    if not lacking:
        return table, ()
    kept = np.setdiff1d(np.arange(len(table)), np.concatenate([batch.rows for batch in lacking]))
    names, templates = [], table.texts("template")
    for batch in lacking:
        names += [templates[row] or render_shape(batch.shape) for row in batch.rows.tolist()]
    return table.take(kept), tuple(dict.fromkeys(names))


def _rank(scorer: Scorer, batch: Batch, candidates: int, excluded: Ids) -> Ranks:
    if candidates == 0:  # then every target is outside the vocabulary
        return np.full(len(batch.targets.values), np.inf)
    return filtered_ranks(scorer.score(batch.shape, batch.ids, batch.level), batch.targets, batch.known, excluded)


def _places(batch: Batch, starts: Places) -> Places:
    """Where the targets of a batch stand among all targets of the table."""
    shift = starts[batch.rows] - batch.targets.offsets[:-1]
    return np.arange(len(batch.targets.values)) + np.repeat(shift, batch.targets.sizes())
