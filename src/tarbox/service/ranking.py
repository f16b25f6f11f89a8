"""What a model says of queries, made ready to be shown: who is a candidate, in which order, with which degree.

A `tarbox.models.scorer.Predictor` gives probabilities; any other model gives scores, whose places within one query are
shown. `ranker_of` picks the ranker; nothing else asks which kind of model it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from tarbox.core.ids import Level
from tarbox.execution.exact import Answer, answer_rows
from tarbox.execution.graph import Index
from tarbox.kb.arrays import Doubles, Ids, Places
from tarbox.models.scorer import Prediction, Predictor, Scorer
from tarbox.query.algebra import Query
from tarbox.service.answers import KNOWN, PREDICTED, AnswerCounts
from tarbox.service.degrees import COUNTED
from tarbox.service.ordering import Descriptions, Order, crisp_similarity, fuzzy_similarity


@final
@dataclass(frozen=True, slots=True)
class Chosen:
    """The candidates to show, by id, and how many there are of each kind."""

    known: Places
    predicted: Places
    counts: AnswerCounts

    def rows(self) -> Iterator[tuple[int, str]]:
        """(id, status), the known first."""
        for places, status in ((self.known, KNOWN), (self.predicted, PREDICTED)):
            yield from ((place, status) for place in places.tolist())


@final
@dataclass(frozen=True, slots=True)
class LevelCandidates:
    """All candidates of one level: `degrees` [N] are shown, `scores` [N] order them; `known` and `open` are ids, of
    those that follow from the facts and of those that may be predictions. `probable`: degrees are probabilities."""

    degrees: NDArray[Any]
    scores: NDArray[Any]
    known: Places
    open: Places
    probable: bool

    def choose(self, known: Places, keys: NDArray[Any], k: int | None, min_degree: float) -> Chosen:
        """At most k of the `known`, in their order, and k predictions of the greatest `keys` [N], from `min_degree` on
        where degrees are probabilities."""
        likely = self.open[self.degrees[self.open] >= min_degree] if self.probable else self.open
        counts = AnswerCounts(len(known), len(likely), len(self.open) - len(likely))
        return Chosen(known[:k], best(likely, keys, len(likely) if k is None else k), counts)

    def choose_by_score(self, k: int | None, min_degree: float) -> Chosen:
        """The same, all in the order of the scores."""
        ordered = self.known[np.argsort(-self.scores[self.known], kind="stable")]
        return self.choose(ordered, self.scores, k, min_degree)


@final
@dataclass(frozen=True, slots=True)
class QueryCandidates:
    """One query: the candidates of both levels, and what follows from the facts.

    `coverage` [C] is the share of the answers, each counted by its degree, inside each concept; None where degrees
    are no probabilities. `similarity` gives [C] S_Con of the query with all concepts.
    """

    exact: Answer
    entities: LevelCandidates
    concepts: LevelCandidates
    coverage: Doubles | None
    similarity: Callable[[], Doubles]

    def predicted_keys(self, order: Order, described: Descriptions) -> NDArray[Any]:
        """[C] what orders predicted concepts; a model that only scores orders them by its scores in every order."""
        return described.keys(order) if self.concepts.probable else self.concepts.scores


class Ranker(Protocol):
    """Ranks the candidates of both levels for queries of one shape."""

    def rank(self, shape: Query, ids: Ids) -> Sequence[QueryCandidates]: ...


def ranker_of(scorer: Scorer, index: Index) -> Ranker:
    """By probability where the scorer has them."""
    return ProbabilityRanker(scorer, index) if isinstance(scorer, Predictor) else ScoreRanker(scorer, index)


@final
class ProbabilityRanker:
    """Degrees are the model's probabilities; predictions are what has at least `COUNTED`."""

    def __init__(self, predictor: Predictor, index: Index) -> None:
        self._predictor, self._index = predictor, index

    def rank(self, shape: Query, ids: Ids) -> list[QueryCandidates]:
        found = self._predictor.predict(shape, ids)
        return [self._candidates(found, row) for row in range(len(ids))]

    def _candidates(self, found: Prediction, row: int) -> QueryCandidates:
        exact = _answer(found, row)
        entities = found.entities[row]
        concepts, expected = found.dense_concepts(row, self._index.concepts)
        total = float(entities.sum(dtype=np.float64))
        inside = np.maximum(expected, concepts)  # where it holds at all, one answer at least is inside
        coverage = np.minimum(inside / max(total, 1e-12), 1.0).astype(np.float64)
        return QueryCandidates(
            exact,
            _split(entities, entities, exact.entities, probable=True),
            _split(concepts, concepts, exact.concepts, probable=True),
            coverage,
            lambda: fuzzy_similarity(entities, self._predictor.probabilities.descriptions, self._totals),
        )

    @cached_property
    def _totals(self) -> Doubles:
        described = self._predictor.probabilities.descriptions
        found = np.bincount(described.columns, described.values, self._index.concepts)
        return np.maximum(found, 1e-12)


@final
class ScoreRanker:
    """Degrees are relative (`relative_degrees`); every candidate may be listed. A predicted concept is similar to the
    answers as its score says: TAR's own score is Eq. 12."""

    def __init__(self, scorer: Scorer, index: Index) -> None:
        self._scorer, self._index = scorer, index

    def rank(self, shape: Query, ids: Ids) -> list[QueryCandidates]:
        entities, concepts, counts = answer_rows(shape, ids, self._index)
        scores = {level: self._score(shape, ids, level) for level in Level}
        offsets = concepts.offsets
        return [
            self._candidates(
                Answer(entities[row], concepts[row], counts[offsets[row] : offsets[row + 1]]),
                scores[Level.ENTITY][row],
                scores[Level.CONCEPT][row],
            )
            for row in range(len(ids))
        ]

    def _candidates(self, exact: Answer, entities: Doubles, concepts: Doubles) -> QueryCandidates:
        def similarity() -> Doubles:
            counts = np.zeros(self._index.concepts, np.int32)
            counts[exact.concepts] = exact.counts
            return crisp_similarity(counts, len(exact.entities), self._index.descriptions.entities_of.sizes())

        closed = self._closed(relative_degrees(concepts, exact.concepts))
        return QueryCandidates(
            exact,
            _split(relative_degrees(entities, exact.entities), entities, exact.entities, probable=False),
            _split(closed, concepts, exact.concepts, probable=False),
            None,
            similarity,
        )

    def _score(self, shape: Query, ids: Ids, level: Level) -> Doubles:
        """[B, N] the scores of all candidates."""
        found: Any = self._scorer.score(shape, ids, level)
        return np.asarray(found if isinstance(found, np.ndarray) else found.float().cpu().numpy(), np.float64)

    def _closed(self, degrees: Doubles) -> Doubles:
        """Each concept's degree raised to the greatest of its sub-concepts'."""
        below = self._index.instances.hierarchy.descendants
        return np.maximum.reduceat(degrees[below.columns], below.offsets[:-1]) if len(degrees) else degrees


def relative_degrees(scores: Doubles, known: Ids | Places) -> Doubles:
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


def _split(degrees: NDArray[Any], scores: NDArray[Any], known: Ids, probable: bool) -> LevelCandidates:
    """LevelCandidates, known ones apart from the others; of probabilities those below `COUNTED` are none."""
    open_ = degrees >= (COUNTED if probable else 0.0)
    open_[known] = False
    return LevelCandidates(degrees, scores, known.astype(np.int64), np.flatnonzero(open_), probable)


def _answer(found: Prediction, row: int) -> Answer:
    first, last = found.known_concepts.offsets[row], found.known_concepts.offsets[row + 1]
    return Answer(found.known_entities[row], found.known_concepts[row], found.counts[first:last])
