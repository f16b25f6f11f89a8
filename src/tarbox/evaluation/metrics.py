"""Metrics of ranks: averaged over a query's answers, then over queries, then over templates.

Intervals are 95% bootstrap intervals of the MRR over queries; that of an average over templates draws the queries of
each template anew. They are reproducible: the seed and the template decide them, nothing else.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, final

import numpy as np

from tarbox.benchmark.tables import NO_TEMPLATE, in_order
from tarbox.core.ids import Level
from tarbox.evaluation.evaluator import Ranked
from tarbox.evaluation.ranks import Ranks
from tarbox.kb.arrays import Doubles, Flags

METRICS: Final[Mapping[str, Callable[[Ranks], Doubles]]] = MappingProxyType(
    {
        "mrr": lambda ranks: 1.0 / ranks,
        "hits@1": lambda ranks: (ranks <= 1).astype(np.float64),
        "hits@3": lambda ranks: (ranks <= 3).astype(np.float64),
        "hits@10": lambda ranks: (ranks <= 10).astype(np.float64),
    }
)
"""What a rank is worth, by each metric: a fraction between 0 and 1."""

_COVERED: Final = (2.5, 97.5)
_DRAWS_AT_ONCE: Final = 1 << 20


@final
@dataclass(frozen=True, slots=True)
class MetricSummary:
    """The metrics of `n` queries, and the 95% interval of the MRR."""

    values: Mapping[str, float]
    n: int
    ci: tuple[float, float]


@final
@dataclass(frozen=True, slots=True)
class Scoreboard:
    """The average over templates, and the summary of each template."""

    average: MetricSummary
    templates: Mapping[str, MetricSummary]


@final
@dataclass(frozen=True, slots=True)
class LevelResults:
    """All queries of a level, and parts of the answers: `parts["answers"]["hard"]`, `parts["missing"]["2"]`."""

    overall: Scoreboard
    parts: Mapping[str, Mapping[str, Scoreboard]]


@final
@dataclass(frozen=True, slots=True)
class Results:
    """What one model reached on one table; `outside` counts the targets outside the vocabulary, which score 0."""

    model: str
    protocol: str
    levels: Mapping[Level, LevelResults]
    outside: int = 0


@final
@dataclass(frozen=True, slots=True)
class Bootstrap:
    """How intervals are drawn."""

    draws: int = 1000
    seed: int = 0


DEFAULT_BOOTSTRAP: Final = Bootstrap()


def _easy_or_hard(ranked: Ranked) -> list[str | None]:
    """Per target: whether it follows from the smaller graph."""
    names = np.array(["", "hard", "easy"])[ranked.table.derivable() + 1]
    return [name or None for name in names[ranked.rows()].tolist()]


def _missing_links(ranked: Ranked) -> list[str | None]:
    """Per target: how many held-out facts its shortest proof needs."""
    missing, targets = ranked.table.lists("missing"), ranked.table.lists("target")
    said = missing.sizes() == targets.sizes()
    numbers = np.full(len(targets.values), -1, np.int64)
    numbers[said[targets.owners()]] = missing.take(np.flatnonzero(said)).values
    return [str(number) if number >= 0 else None for number in numbers.tolist()]


ANSWER_PARTS: Final[Mapping[str, Callable[[Ranked], list[str | None]]]] = MappingProxyType(
    {"answers": _easy_or_hard, "missing": _missing_links}
)
"""How answers are told apart: each gives the part of every target, or none."""


def measure(ranked: Ranked, model: str, protocol: str, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> Results:
    """All metrics of a ranked table."""
    values = np.stack([metric(ranked.ranks) for metric in METRICS.values()], axis=1)
    levels = np.array(ranked.table.texts("level"), dtype=object)[ranked.rows()]
    labels = {part: np.array(label(ranked), dtype=object) for part, label in ANSWER_PARTS.items()}
    results = {}
    for level in Level:
        here = levels == level.value
        if here.any():
            parts = {
                part: {
                    name: score(ranked, values, here & (label == name), bootstrap)
                    for name in sorted({found for found in label[here] if found is not None})
                }
                for part, label in labels.items()
            }
            told_apart = {part: boards for part, boards in parts.items() if boards}
            results[level] = LevelResults(score(ranked, values, here, bootstrap), told_apart)
    return Results(model, protocol, results, int(np.isinf(ranked.ranks).sum()))


def score(ranked: Ranked, values: Doubles, chosen: Flags, bootstrap: Bootstrap) -> Scoreboard:
    """The scoreboard of the chosen targets [T]; `values` [T, metrics] are what their ranks are worth."""
    rows, places = np.unique(ranked.rows()[chosen], return_inverse=True)
    counts = np.bincount(places, minlength=len(rows))
    per_query = np.stack([np.bincount(places, column) / counts for column in values[chosen].T], axis=1)
    names = np.array([name or NO_TEMPLATE for name in ranked.table.texts("template")], dtype=object)[rows]
    groups = {name: per_query[names == name] for name in in_order(set(names.tolist()))}
    draws = {name: resample(group[:, 0], name, bootstrap) for name, group in groups.items()}
    templates = {name: _summary([group], [draws[name]]) for name, group in groups.items()}
    return Scoreboard(_summary(list(groups.values()), list(draws.values())), templates)


def resample(values: Doubles, name: str, bootstrap: Bootstrap) -> Doubles:
    """[draws] the mean of as many values, drawn with replacement."""
    generator = np.random.default_rng([bootstrap.seed, zlib.crc32(name.encode())])
    at_once = max(1, _DRAWS_AT_ONCE // len(values))
    means = []
    for start in range(0, bootstrap.draws, at_once):
        size = (min(at_once, bootstrap.draws - start), len(values))
        means.append(values[generator.integers(0, len(values), size)].mean(axis=1))
    return np.concatenate(means)


def _summary(groups: Sequence[Doubles], draws: Sequence[Doubles]) -> MetricSummary:
    """The mean over groups of the mean over queries, with its interval."""
    means = np.mean([group.mean(axis=0) for group in groups], axis=0)
    low, high = np.percentile(np.mean(draws, axis=0), _COVERED)
    return MetricSummary(
        MappingProxyType(dict(zip(METRICS, means.tolist(), strict=True))),
        sum(len(group) for group in groups),
        (float(low), float(high)),
    )
