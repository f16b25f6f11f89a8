"""What a model says of queries, made ready to be shown: who is a candidate, in which order, with which degree.

A model that believes (`tarbox.models.scorer.Predictor`) gives probabilities; any other gives scores, whose places within
one query are shown. `judge_of` picks the judge; nothing else asks which kind of model it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol, final

import numpy as np
from numpy.typing import NDArray

from tarbox.core.ids import Level
from tarbox.execution.exact import Answer, answer_rows
from tarbox.execution.graph import Index
from tarbox.kb.facts import Ids
from tarbox.models.scorer import Prediction, Predictor, Scorer
from tarbox.query.algebra import Query
from tarbox.service.ordering import Descriptions, Order, crisp_similarity, fuzzy_similarity

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
LEAST: Final = 1e-2
"""Predictions below this degree do not count as answers."""


@final
@dataclass(frozen=True, slots=True)
class Candidates:
    """All candidates of one level: `degrees` [N] are shown, `scores` [N] order them; `known` and `open` are ids, of
    those that follow from the facts and of those that may be listed as predictions."""

    degrees: NDArray[Any]
    scores: NDArray[Any]
    known: Places
    open: Places

    @property
    def count(self) -> int:
        """How many answers there are: the known, and the predictions with at least the degree `LEAST`."""
        return len(self.known) + int(np.count_nonzero(self.degrees[self.open] >= LEAST))

    def choose(self, known: Places, keys: NDArray[Any], k: int | None) -> tuple[Places, Places]:
        """(known, predicted) candidates to show, k in all: the `known` in their order, but half of the places are for
        predictions, those with the greatest `keys` [N]."""
        if k is None:
            return known, best(self.open, keys, len(self.open))
        shown = known[: max(k - len(self.open), k - k // 2)]
        return shown, best(self.open, keys, k - len(shown))


@final
@dataclass(frozen=True, slots=True)
class Judged:
    """One query: both lists of candidates and what follows from the facts.

    `coverage` [C] is the share of the answers, each counted by its degree, inside each concept; None where degrees
    are no probabilities. `similarity` gives [C] S_Con of the query with all concepts.
    """

    exact: Answer
    entities: Candidates
    concepts: Candidates
    coverage: Floats | None
    similarity: Callable[[], Floats]

    def predicted_keys(self, order: Order, described: Descriptions) -> NDArray[Any]:
        """[C] what orders predicted concepts; a model that only scores orders them by its scores in every order."""
        return self.concepts.scores if self.coverage is None else described.keys(order)


class Judge(Protocol):
    """Judges queries of one shape at both levels."""

    def judge(self, shape: Query, ids: Ids) -> Sequence[Judged]: ...


def judge_of(scorer: Scorer, index: Index) -> Judge:
    """By probability where the scorer has them."""
    return Probable(scorer, index) if isinstance(scorer, Predictor) else Scoring(scorer, index)


@final
class Probable:
    """Degrees are the model's probabilities; predictions are what has at least `LEAST`."""

    def __init__(self, predictor: Predictor, index: Index) -> None:
        self._believer, self._index = predictor, index

    def judge(self, shape: Query, ids: Ids) -> list[Judged]:
        found = self._believer.predict(shape, ids)
        return [self._judged(found, row) for row in range(len(ids))]

    def _judged(self, found: Prediction, row: int) -> Judged:
        exact = _answer(found, row)
        entities = found.entities[row]
        concepts, expected = found.dense_concepts(row, self._index.concepts)
        total = float(entities.sum(dtype=np.float64))
        inside = np.maximum(expected, concepts)  # where it holds at all, one answer at least is inside
        coverage = np.minimum(inside / max(total, 1e-12), 1.0).astype(np.float64)
        return Judged(
            exact,
            _probable(entities, exact.entities),
            _probable(concepts, exact.concepts),
            coverage,
            lambda: fuzzy_similarity(entities, self._believer.probabilities.concepts, self._totals),
        )

    @cached_property
    def _totals(self) -> Floats:
        typings = self._believer.probabilities.concepts
        found = np.bincount(typings.columns, typings.degrees, self._index.concepts)
        return np.maximum(found, 1e-12)


@final
class Scoring:
    """Degrees are relative (`relative_degrees`); every candidate may be listed. A predicted concept is similar to the
    answers as its score says: TAR's own score is Eq. 12."""

    def __init__(self, scorer: Scorer, index: Index) -> None:
        self._scorer, self._index = scorer, index

    def judge(self, shape: Query, ids: Ids) -> list[Judged]:
        entities, concepts, counts = answer_rows(shape, ids, self._index)
        scores = {level: self._score(shape, ids, level) for level in Level}
        offsets = concepts.offsets
        return [
            self._judged(
                Answer(entities[row], concepts[row], counts[offsets[row] : offsets[row + 1]]),
                scores[Level.ENTITY][row],
                scores[Level.CONCEPT][row],
            )
            for row in range(len(ids))
        ]

    def _judged(self, exact: Answer, entities: Floats, concepts: Floats) -> Judged:
        places = exact.concepts.astype(np.int64)
        degrees = self._closed(relative_degrees(concepts, places))

        def similarity() -> Floats:
            counts = np.zeros(self._index.concepts, np.int32)
            counts[places] = exact.counts
            return crisp_similarity(counts, len(exact.entities), self._index.instances.entities_of.sizes())

        return Judged(
            exact,
            _scored(relative_degrees(entities, exact.entities.astype(np.int64)), entities, exact.entities),
            _scored(degrees, concepts, exact.concepts),
            None,
            similarity,
        )

    def _score(self, shape: Query, ids: Ids, level: Level) -> Floats:
        """[B, N] the scores of all candidates."""
        found: Any = self._scorer.score(shape, ids, level)
        return np.asarray(found if isinstance(found, np.ndarray) else found.float().cpu().numpy(), np.float64)

    def _closed(self, degrees: Floats) -> Floats:
        """Each concept's degree raised to the greatest of its sub-concepts'."""
        below = self._index.instances.hierarchy.descendants
        return np.maximum.reduceat(degrees[below.columns], below.offsets[:-1]) if len(degrees) else degrees


def relative_degrees(scores: Floats, known: Places) -> Floats:
    """[N] the place of each score between the median (0) and the best (1) of those not known; 1 for the known.

    >>> relative_degrees(np.array([9.0, 1.0, 2.0, 3.0]), np.array([0])).tolist()
    [1.0, 0.0, 0.0, 1.0]
    """
    degrees = np.ones(len(scores))
    open_ = np.ones(len(scores), np.bool_)
    open_[known] = False
    if open_.any():
        middle, most = float(np.median(scores[open_])), float(scores[open_].max())
        degrees[open_] = np.clip((scores[open_] - middle) / max(most - middle, 1e-12), 0.0, 1.0)
    return degrees


def best(places: Places, keys: NDArray[Any], count: int) -> Places:
    """The places with the greatest `keys`, best first; of equals those that come first.

    >>> best(np.array([0, 2, 3, 4]), np.array([0.5, 9.0, 0.1, 0.5, 0.7]), 2).tolist()
    [4, 0]
    """
    chosen = keys[places]
    if count < len(places):
        if count <= 0:
            return places[:0]
        bar = np.partition(chosen, len(chosen) - count)[len(chosen) - count]
        above, level = np.flatnonzero(chosen > bar), np.flatnonzero(chosen == bar)
        kept = np.concatenate([above, level[: count - len(above)]])
        places, chosen = places[kept], chosen[kept]
    return places[np.argsort(-chosen, kind="stable")]


def _probable(degrees: NDArray[np.float32], known: Ids) -> Candidates:
    open_ = degrees >= LEAST
    open_[known] = False
    return Candidates(degrees, degrees, known.astype(np.int64), np.flatnonzero(open_))


def _scored(degrees: Floats, scores: Floats, known: Ids) -> Candidates:
    open_ = np.ones(len(degrees), np.bool_)
    open_[known] = False
    return Candidates(degrees, scores, known.astype(np.int64), np.flatnonzero(open_))


def _answer(found: Prediction, row: int) -> Answer:
    first, last = found.known_concepts.offsets[row], found.known_concepts.offsets[row + 1]
    return Answer(found.known_entities[row], found.known_concepts[row], found.counts[first:last])
