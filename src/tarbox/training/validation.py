"""Validation while training: the mean reciprocal rank, averaged as docs/benchmarks.md says, without intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np

from tarbox.benchmark.tables import QueryTable
from tarbox.core.errors import ConfigError
from tarbox.core.ids import Level
from tarbox.evaluation.evaluator import NO_EXCLUSIONS, Ranked, rank_table
from tarbox.kb.facts import Ids
from tarbox.models.scorer import Scorer


@final
@dataclass(frozen=True, slots=True)
class ValidationConfig:
    """Validate `every` so many epochs and at the end; stop after `tolerance` validations without a better MRR.

    `queries` limits the queries of each template and level (0: all); `tolerance` 0 never stops early.
    """

    every: int = 50
    tolerance: int = 3
    queries: int = 0

    def __post_init__(self) -> None:
        if self.every < 1 or self.tolerance < 0 or self.queries < 0:
            raise ConfigError("validation.every must be at least 1, validation.tolerance and .queries at least 0")


@final
@dataclass(frozen=True, slots=True)
class Validator:
    """Ranks a table; the score of a model is the mean over levels of its MRR."""

    table: QueryTable
    excluded: Mapping[Level, Ids] = field(default_factory=lambda: NO_EXCLUSIONS)

    def __call__(self, scorer: Scorer) -> dict[str, float]:
        """The MRR of each level, averaged over a query's answers, then queries, then templates."""
        return average_mrr(rank_table(scorer, self.table, self.excluded))


def average_mrr(ranked: Ranked) -> dict[str, float]:
    """The MRR of each level that has queries."""
    rows = ranked.rows()
    counts = np.bincount(rows, minlength=len(ranked.table))
    per_query = np.bincount(rows, 1.0 / ranked.ranks, len(ranked.table)) / np.maximum(counts, 1)
    found: dict[Level, list[float]] = {}
    for (level, _), places in ranked.table.groups().items():
        found.setdefault(level, []).append(per_query[places].mean())
    return {level.value: float(np.mean(found[level])) for level in Level if level in found}
