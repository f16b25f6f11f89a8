"""The public `Reasoner`: a trained model with the facts it was trained on, opened for questions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from tarbox.core.ids import Level, Role
from tarbox.execution.exact import Answer, answer_query
from tarbox.execution.rows import encode
from tarbox.models.scorer import Scorer
from tarbox.query.algebra import Concept, Query
from tarbox.query.render import render
from tarbox.service.answering import Question
from tarbox.service.answers import KNOWN, PREDICTED, Answers, ConceptAnswer, EntityAnswer, descriptive_order
from tarbox.service.explanations import Support, explain_answer
from tarbox.service.knowledge_base import KnowledgeBase

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


@final
class Reasoner:
    """Answers with what follows from the training facts (`known`, degree 1) and with what the model predicts.

    The degree of a predicted answer is where its score lies between the query's median candidate (0) and its best
    (1): an order within one query, not a probability. A concept's is never above a super-concept's. Where more answers
    are known than fit, half of the places are kept for predictions.
    """

    def __init__(self, kb: KnowledgeBase, scorer: Scorer, model: str) -> None:
        self._kb, self._scorer, self._model = kb, scorer, model

    @classmethod
    def load(cls, run: str | os.PathLike[str], device: str = "cpu") -> Reasoner:
        """The reasoner of a run that `tarbox train` wrote."""
        from tarbox.models.saved import open_run

        saved = open_run(run)
        return cls(KnowledgeBase(saved.facts, Path(run).name), saved.scorer(device), saved.model_name)

    @property
    def kb(self) -> KnowledgeBase:
        return self._kb

    @property
    def model(self) -> str:
        return self._model

    def answer(self, query: str | Query, k: int | None = 10, sparql: bool = False) -> Answers:
        """Both lists of answers, at most `k` each, known ones first."""
        tree = self._kb.parse(query, sparql) if isinstance(query, str) else query
        found = self.answer_many([Question(tree, k)])[0]
        return replace(found, query=query) if isinstance(query, str) else found

    def answer_many(self, questions: Sequence[Question]) -> list[Answers]:
        """The answers to each question; those of one shape go through the model together."""
        scores = self._score_queries([question.query for question in questions])
        return [self._answer(question, found) for question, found in zip(questions, scores, strict=True)]

    def members(self, concept: str, k: int | None = None) -> list[EntityAnswer]:
        """The members of a concept by degree, known or predicted: the paper's case study."""
        number = self._kb.concepts.id(concept)
        scores = self._score(Concept("?c1"), np.array([[number]], np.int32), Level.ENTITY)[0]
        known = self._kb.index.instances.entities_of[number]
        return self._entities(scores, known.astype(np.int64), k)

    def explain(self, query: Query, answer: str, role: Role) -> Support:
        """The facts that carry one answer; see `tarbox.service.explanations`."""
        return explain_answer(query, self._kb, answer, role, predicted=True)

    def _answer(self, question: Question, scores: Mapping[Level, Floats]) -> Answers:
        exact = answer_query(question.query, self._kb.index)
        entities = self._entities(scores[Level.ENTITY], exact.entities.astype(np.int64), question.k)
        concepts = self._concepts(scores[Level.CONCEPT], exact, entities, question.k)
        return Answers(render(question.query), entities, concepts, len(entities), len(concepts))

    def _score_queries(self, queries: Sequence[Query]) -> list[dict[Level, Floats]]:
        """For each query the model's scores at both levels, in one call for each shape and level."""
        rows: dict[Query, list[int]] = {}
        encoded = [encode(query, self._kb.facts.vocabulary) for query in queries]
        for row, (shape, _) in enumerate(encoded):
            rows.setdefault(shape, []).append(row)
        found: list[dict[Level, Floats]] = [{} for _ in queries]
        for shape, places in rows.items():
            ids = np.stack([encoded[row][1] for row in places])
            for level in Level:
                for row, scores in zip(places, self._score(shape, ids, level), strict=True):
                    found[row][level] = scores
        return found

    def _score(self, shape: Query, ids: NDArray[np.int32], level: Level) -> Floats:
        """[B, N] the model's scores of all candidates for the queries of one shape with the ids [B, S]."""
        found: Any = self._scorer.score(shape, ids, level)
        return np.asarray(found if isinstance(found, np.ndarray) else found.float().cpu().numpy(), np.float64)

    def _entities(self, scores: Floats, known: Places, k: int | None) -> list[EntityAnswer]:
        degrees = relative_degrees(scores, known)
        ordered = known[np.argsort(-scores[known], kind="stable")]
        shown, predicted = choose(ordered, scores, k)
        rows = [(row, KNOWN) for row in shown.tolist()] + [(row, PREDICTED) for row in predicted.tolist()]
        return [
            EntityAnswer(thing.iri, thing.label, float(degrees[row]), status)
            for row, status in rows
            for thing in [self._kb.entities.at(row)]
        ]

    def _concepts(
        self, scores: Floats, exact: Answer, entities: Sequence[EntityAnswer], k: int | None
    ) -> list[ConceptAnswer]:
        """Known concepts in the order of their description, then predicted ones by degree.

        The coverage of a predicted concept is its share of the entities listed.
        """
        known = exact.concepts.astype(np.int64)
        degrees = self._closed(relative_degrees(scores, known))
        coverage = self._coverage(entities)
        coverage[known] = exact.coverage()
        order = descriptive_order(coverage[known], self._specificity[known])
        shown, predicted = choose(known[order], scores, k)
        rows = [(row, KNOWN) for row in shown.tolist()] + [(row, PREDICTED) for row in predicted.tolist()]
        numbers = np.stack([degrees, coverage, self._specificity], axis=1)
        return [
            ConceptAnswer(thing.iri, thing.label, degree, status, covered, specificity)
            for row, status in rows
            for thing in [self._kb.concepts.at(row)]
            for degree, covered, specificity in [numbers[row].tolist()]
        ]

    def _coverage(self, entities: Sequence[EntityAnswer]) -> Floats:
        """[C] the share of these entities inside each concept."""
        ids = np.array([self._kb.entities.id(answer.iri) for answer in entities], np.int32)
        _, inside = self._kb.index.instances.concepts_of.gather(ids)
        return np.bincount(inside, minlength=len(self._kb.concepts)) / max(len(ids), 1)

    def _closed(self, degrees: Floats) -> Floats:
        """Each concept's degree raised to the greatest of its sub-concepts'."""
        below, above = self._kb.index.instances.hierarchy.ancestors.coordinates()
        raised = degrees.copy()
        np.maximum.at(raised, above, degrees[below])
        return raised

    @cached_property
    def _specificity(self) -> Floats:
        return self._kb.index.instances.specificity()


def relative_degrees(scores: Floats, known: Places) -> Floats:
    """[N] the place of each score between the median (0) and the best (1) of those not known; 1 for the known.

    >>> relative_degrees(np.array([9.0, 1.0, 2.0, 3.0]), np.array([0])).tolist()
    [1.0, 0.0, 0.0, 1.0]
    """
    degrees = np.ones(len(scores))
    open_ = np.ones(len(scores), np.bool_)
    open_[known] = False
    if open_.any():
        middle, best = float(np.median(scores[open_])), float(scores[open_].max())
        degrees[open_] = np.clip((scores[open_] - middle) / max(best - middle, 1e-12), 0.0, 1.0)
    return degrees


def choose(known: Places, scores: Floats, k: int | None) -> tuple[Places, Places]:
    """(known, predicted) answers to show, k in all: known ones in their order, but half of the places for predictions.

    >>> choose(np.array([3, 1, 2]), np.array([0.5, 0.0, 0.0, 0.0, 0.9]), 4)
    (array([3, 1]), array([4, 0]))
    """
    order = np.argsort(-scores, kind="stable")
    predicted = order[~np.isin(order, known)]
    if k is None:
        return known, predicted
    shown = known[: max(k - len(predicted), k - k // 2)]
    return shown, predicted[: k - len(shown)]
