"""Whether degrees are probabilities: of the answers predicted with 0.8, are 80% true?

::

    calibration = measure_calibration(predictor, benchmark.calibration(), "credo")
    calibration.overall.ece, calibration.levels[Level.ENTITY].templates["1p"].brier

Looked at are the ten best predicted answers of each query: those with the greatest degrees that do not follow from the
training graph. An answer of degree 0 is no prediction. The queries are drawn without regard to whether they have such
an answer (docs/adr/0024). All functions but `predict` are about arrays alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.benchmark.tables import NO_TEMPLATE, Batch, Lists, QueryTable, in_order
from tarbox.core.ids import Level
from tarbox.kb.facts import Ids
from tarbox.kb.rows import Rows, pair_keys
from tarbox.models.scorer import Predictor
from tarbox.query.algebra import Query

BEST: Final = 10
BINS: Final = 15
WIDTHS: Final = 10
_Z: Final = 1.959963984540054  # 95% of a normal distribution lie within as many deviations
_CELLS: Final = 1 << 22  # degrees held at a time
_FEATURES: Final = 20  # numbers that a predictor may hold per concept
_WIDTH: Final = 1 << 31  # of pairs as one number: ids are less

Values = NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True)
class Predictions:
    """The predicted answers of `queries` queries: their degrees [P], and whether each is true [P]."""

    degrees: Values
    true: NDArray[np.bool_]
    queries: int

    @classmethod
    def join(cls, parts: Sequence[Predictions]) -> Predictions:
        """The predictions of all parts; their queries are different ones."""
        degrees = np.concatenate([np.empty(0), *(part.degrees for part in parts)])
        true = np.concatenate([np.empty(0, np.bool_), *(part.true for part in parts)])
        return cls(degrees, true, sum(part.queries for part in parts))


@final
@dataclass(frozen=True, slots=True)
class Bin:
    """`n` predictions of about the same degree: the mean degree, the share that is true, and its 95% interval.

    The interval is Wilson's, which takes the predictions for independent; those of one query are not quite.
    """

    degree: float
    true: float
    n: int
    ci: tuple[float, float]


@final
@dataclass(frozen=True, slots=True)
class Reliability:
    """How far degrees are from the truth, over `n` predictions of `queries` queries.

    `ece` is the expected calibration error, the mean over bins of |mean degree - share true| weighted by their sizes;
    `brier` the mean of (degree - truth) squared; `degree` the mean degree and `true` the share that is true. All are
    NaN where there are no predictions. `bins` are of equal mass. Most of them have small degrees; so `widths` are the
    same predictions by tenths of the degree, for looking at, without those that are empty.
    """

    ece: float
    brier: float
    degree: float
    true: float
    n: int
    queries: int
    bins: tuple[Bin, ...]
    widths: tuple[Bin, ...]


@final
@dataclass(frozen=True, slots=True)
class LevelCalibration:
    """All predictions of a level, and those of each template."""

    overall: Reliability
    templates: Mapping[str, Reliability]


@final
@dataclass(frozen=True, slots=True)
class Calibration:
    """What the degrees of one model are worth."""

    model: str
    overall: Reliability
    levels: Mapping[Level, LevelCalibration]


def measure_calibration(
    predictor: Predictor, table: QueryTable, model: str, progress: Callable[[int], object] = lambda _: None
) -> Calibration:
    """The calibration of a model on a table such as `Benchmark.calibration`."""
    return summarise(predict(predictor, table, progress=progress), model)


def summarise(found: Mapping[tuple[Level, str], Predictions], model: str) -> Calibration:
    """The reliability of predictions by level and template; the overall figures are of all of them together."""
    levels = {}
    for level in Level:
        names = in_order({template for at, template in found if at is level})
        if names:
            parts = {name: found[level, name] for name in names}
            templates = {name: reliability(part) for name, part in parts.items()}
            joined = reliability(Predictions.join(list(parts.values())))
            levels[level] = LevelCalibration(joined, MappingProxyType(templates))
    return Calibration(model, reliability(Predictions.join(list(found.values()))), MappingProxyType(levels))


def predict(
    predictor: Predictor, table: QueryTable, best: int = BEST, progress: Callable[[int], object] = lambda _: None
) -> dict[tuple[Level, str], Predictions]:
    """The best predictions for the queries of a table, by level and template.

    A query that is asked at both levels is evaluated once. `target` are the true answers, `known` no predictions.
    """
    templates = np.array([name or NO_TEMPLATE for name in table.texts("template")], dtype=object)
    widest = max(predictor.candidates(Level.ENTITY), _FEATURES * predictor.candidates(Level.CONCEPT), 1)
    size = max(1, _CELLS // widest)
    found: dict[tuple[Level, str], list[Predictions]] = {}
    for ids, asked in _distinct(table):
        for start in range(0, len(ids), size):
            predicted = predictor.predict(asked[0][0].shape, ids[start : start + size])
            for batch, places in asked:
                here = np.flatnonzero((places >= start) & (places < start + size))
                names = templates[batch.rows[here]]
                for name in dict.fromkeys(names.tolist()):
                    own = here[names == name]
                    asked_for = batch.known.take(own), batch.targets.take(own), best
                    if batch.level is Level.ENTITY:
                        part = best_predictions(predicted.entities[places[own] - start], *asked_for)
                    else:
                        part = best_sparse_predictions(predicted.concepts.take(places[own] - start), *asked_for)
                    found.setdefault((batch.level, name), []).append(part)
                progress(len(here))
    return {key: Predictions.join(parts) for key, parts in found.items()}


def _distinct(table: QueryTable) -> Iterator[tuple[Ids, list[tuple[Batch, NDArray[np.int64]]]]]:
    """By shape: the distinct queries, and each batch with the places of its queries among them."""
    by_shape: dict[Query, list[Batch]] = {}
    for batch in table.batches():
        by_shape.setdefault(batch.shape, []).append(batch)
    for batches in by_shape.values():
        ids, places = np.unique(np.concatenate([batch.ids for batch in batches]), axis=0, return_inverse=True)
        ends = np.cumsum([len(batch) for batch in batches])
        yield ids, list(zip(batches, np.split(places.ravel(), ends[:-1]), strict=True))


def best_predictions(degrees: NDArray[Any], known: Lists, targets: Lists, best: int = BEST) -> Predictions:
    """For each query the `best` candidates of greatest degree above 0 that are not known; of equals the first.

    `degrees` is [B, N]; `known` and `targets` have one list per query, and the targets are what is true.

    >>> found = best_predictions(np.array([[1.0, 0.7, 0.2, 0.0]]), Lists.of([[0]]), Lists.of([[1]]))
    >>> found.degrees.tolist(), found.true.tolist()
    ([0.7, 0.2], [True, False])
    """
    open_to = np.array(degrees, np.float64)
    queries, size = open_to.shape
    open_to[known.owners(), known.values] = 0.0
    kept = min(best, size)
    if kept == 0 or queries == 0:
        return Predictions(np.empty(0), np.empty(0, np.bool_), queries)
    least = np.partition(open_to, size - kept, axis=1)[:, size - kept, None]
    owners, columns = np.nonzero((open_to >= least) & (open_to > 0))
    return _first(owners, columns, open_to[owners, columns], targets, best)


def best_sparse_predictions(degrees: Rows, known: Lists, targets: Lists, best: int = BEST) -> Predictions:
    """The same of degrees in sparse rows, one for each query; what is not there has 0.

    >>> rows = Rows(np.array([0, 3]), np.array([0, 1, 2]), np.array([1.0, 0.7, 0.2]))
    >>> best_sparse_predictions(rows, Lists.of([[0]]), Lists.of([[1]])).degrees.tolist()
    [0.7, 0.2]
    """
    owners, columns = degrees.coordinates()
    values = degrees.values.astype(np.float64)
    taken = pair_keys(known.owners(), known.values, _WIDTH)
    open_to = (values > 0) & ~np.isin(pair_keys(owners, columns, _WIDTH), taken)
    return _first(owners[open_to], columns[open_to], values[open_to], targets, best)


def _first(owners: NDArray[Any], columns: NDArray[Any], values: Values, targets: Lists, best: int) -> Predictions:
    """The `best` candidates of each query, and whether they are targets."""
    order = np.lexsort((columns, -values, owners))
    owners, columns, values = owners[order], columns[order], values[order]
    first = np.arange(len(owners)) - np.searchsorted(owners, owners) < best
    right = pair_keys(targets.owners(), targets.values, _WIDTH)[targets.values >= 0]
    true = np.isin(pair_keys(owners[first], columns[first], _WIDTH), right)
    return Predictions(values[first], true, len(targets))


def reliability(found: Predictions, bins: int = BINS) -> Reliability:
    """The figures of some predictions, over bins of equal mass: as many predictions in each, but for one.

    Predictions of equal degree count as true to the share of them that is, so that their order plays no part where
    the border of two bins falls among them.
    """
    degrees, true = found.degrees, found.true.astype(np.float64)
    if len(degrees) == 0:
        return Reliability(np.nan, np.nan, np.nan, np.nan, 0, found.queries, (), ())
    distinct, group = np.unique(degrees, return_inverse=True)
    shares = np.bincount(group, true) / np.bincount(group, minlength=len(distinct))
    order = np.argsort(degrees, kind="stable")
    borders = np.searchsorted(degrees[order], np.arange(1, WIDTHS) / WIDTHS)
    made, widths = (
        tuple(_bin(degrees[part], shares[group[part]]) for part in parts if len(part))
        for parts in (np.array_split(order, bins), np.split(order, borders))
    )
    error = sum(abs(one.degree - one.true) * one.n for one in made) / len(degrees)
    return Reliability(
        ece=float(error),
        brier=float(np.mean((degrees - true) ** 2)),
        degree=float(degrees.mean()),
        true=float(true.mean()),
        n=len(degrees),
        queries=found.queries,
        bins=made,
        widths=widths,
    )


def wilson(share: float, n: int) -> tuple[float, float]:
    """The 95% interval of a share of n (Wilson 1927).

    >>> [round(bound, 3) for bound in wilson(0.5, 100)]
    [0.404, 0.596]
    """
    spread = _Z * np.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    middle, scale = share + _Z**2 / (2 * n), 1 + _Z**2 / n
    return float(max(0.0, (middle - spread) / scale)), float(min(1.0, (middle + spread) / scale))


def to_json(calibration: Calibration) -> dict[str, Any]:
    """The key `calibration` of `eval --json`; figures of no predictions at all are null."""
    levels = {
        level.value: _record(found.overall)
        | {"templates": {name: _record(part, with_bins=True) for name, part in found.templates.items()}}
        for level, found in calibration.levels.items()
    }
    return {"best": BEST, "bins": BINS, **_record(calibration.overall), "levels": levels}


def _record(found: Reliability, with_bins: bool = False) -> dict[str, Any]:
    bins = [{"degree": one.degree, "true": one.true, "n": one.n, "ci": list(one.ci)} for one in found.bins]
    figures = {"ece": found.ece, "brier": found.brier, "degree": found.degree, "true": found.true}
    return {
        **{name: value if found.n else None for name, value in figures.items()},
        "n": found.n,
        "queries": found.queries,
        **({"reliability": bins} if with_bins else {}),
    }


def _bin(degrees: Values, shares: Values) -> Bin:
    share = float(shares.mean())
    return Bin(float(degrees.mean()), share, len(degrees), wilson(share, len(degrees)))
