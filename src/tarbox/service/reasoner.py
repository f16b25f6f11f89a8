"""The public `Reasoner`: a trained model with the facts it was trained on, opened for questions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.benchmark.folder import UNTOLD, name_of
from tarbox.core.ids import Role
from tarbox.execution.rows import encode
from tarbox.kb.facts import Ids
from tarbox.models.scorer import Predictor, Scorer
from tarbox.query.algebra import Concept, Query
from tarbox.query.rewrites import plain
from tarbox.service.answering import CACHED, Question
from tarbox.service.answers import KNOWN, PREDICTED, Answers, ConceptAnswer, EntityAnswer
from tarbox.service.explanations import Support, explain_answer
from tarbox.service.judging import Candidates, Judged, judge_of
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.ordering import Descriptions, Order

if TYPE_CHECKING:
    from tarbox.models.saved import SavedRun

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
_CELLS: Final = 1 << 23


@final
class Reasoner:
    """Answers with what follows from the training facts (`known`, degree 1) and with what the model predicts.

    Where the model has probabilities (`tarbox.models.scorer.Predictor`, such as `credo`), the degree of a predicted
    answer is one, and answers below 0.01 are left out. For any other model it is where the answer's score lies between
    the query's median candidate (0) and its best (1): an order within one query, not a probability. A concept's is
    never above a super-concept's. Where more answers are known than fit, half of the places are kept for predictions.
    """

    def __init__(self, kb: KnowledgeBase, scorer: Scorer, model: str) -> None:
        self._kb, self._model = kb, model
        self._scorer = scorer
        self._judge = judge_of(scorer, kb.index)
        self._entity = lru_cache(CACHED)(kb.entities.at)
        self._concept = lru_cache(CACHED)(kb.concepts.at)

    @classmethod
    def load(cls, run: str | os.PathLike[str], device: str = "cpu") -> Reasoner:
        """The reasoner of a run that `tarbox train` wrote."""
        from tarbox.models.saved import open_run

        saved = open_run(run)
        scorer = saved.scorer(device)
        index = scorer.index if isinstance(scorer, Predictor) else None
        return cls(KnowledgeBase(saved.facts, title_of(saved), index), scorer, saved.model_name)

    @property
    def kb(self) -> KnowledgeBase:
        return self._kb

    @property
    def model(self) -> str:
        return self._model

    def answer(
        self, query: str | Query, k: int | None = 10, sparql: bool = False, order: str = Order.DESCRIPTIVE
    ) -> Answers:
        """Both lists of answers, at most `k` each, known ones first.

        `order` is that of the concepts (`tarbox.service.ordering.Order`): descriptive, probability or similarity.
        """
        return self.answer_many([query], k, sparql, order)[0]

    def answer_many(
        self,
        questions: Sequence[Question | str | Query],
        k: int | None = 10,
        sparql: bool = False,
        order: str = Order.DESCRIPTIVE,
    ) -> list[Answers]:
        """The answers to each question; those of one shape go through the model together.

        Texts and queries are asked with `k`, `sparql` and `order`; a `Question` has its own.
        """
        asked = [self._question(question, k, sparql, Order.of(order)) for question in questions]
        rows: dict[Query, list[tuple[int, Ids]]] = {}
        for row, question in enumerate(asked):
            shape, ids = question.row or encode(plain(question.query), self._kb.facts.vocabulary)
            rows.setdefault(shape, []).append((row, ids))
        found: dict[int, Answers] = {}
        for shape, places in rows.items():
            for part in self._blocks(places):
                judged = self._judge.judge(shape, np.stack([ids for _, ids in part]))
                for (row, _), each in zip(part, judged, strict=True):
                    found[row] = self._answer(asked[row], each)
        return [found[row] for row in range(len(asked))]

    def members(self, concept: str, k: int | None = None) -> list[EntityAnswer]:
        """The members of a concept by degree, known or predicted: the paper's case study."""
        number = self._kb.concepts.id(concept)
        judged = self._judge.judge(Concept("?c1"), np.array([[number]], np.int32))[0]
        return self._entities(*self._choose_entities(judged.entities, k), judged.entities)

    def explain(self, query: Query, answer: str, role: Role) -> Support:
        """The facts that carry one answer; see `tarbox.service.explanations`.

        A model that believes names the facts it believes, with their degrees.
        """
        predictor = self._scorer if isinstance(self._scorer, Predictor) else None
        return explain_answer(query, self._kb, answer, role, predicted=True, predictor=predictor)

    def _question(self, asked: Question | str | Query, k: int | None, sparql: bool, order: Order) -> Question:
        match asked:
            case Question():
                return asked
            case str():
                return Question(self._kb.parse(asked, sparql), k, asked, order)
            case _:
                return Question(asked, k, order=order)

    def _blocks(self, places: Sequence[tuple[int, Ids]]) -> Iterator[Sequence[tuple[int, Ids]]]:
        """As many at a time as memory is meant for."""
        step = max(1, _CELLS // max(len(self._kb.entities), 20 * len(self._kb.concepts), 1))
        return (places[start : start + step] for start in range(0, len(places), step))

    def _answer(self, question: Question, judged: Judged) -> Answers:
        chosen = self._choose_entities(judged.entities, question.k)
        entities = self._entities(*chosen, judged.entities)
        coverage = judged.coverage if judged.coverage is not None else self._coverage(np.concatenate(chosen))
        concepts = self._concepts(judged, coverage, question)
        return Answers(
            question.said(),
            entities,
            concepts,
            max(judged.entities.count, len(entities)),
            max(judged.concepts.count, len(concepts)),
        )

    def _choose_entities(self, candidates: Candidates, k: int | None) -> tuple[Places, Places]:
        known = candidates.known
        ordered = known[np.argsort(-candidates.scores[known], kind="stable")]
        return candidates.choose(ordered, candidates.scores, k)

    def _entities(self, known: Places, predicted: Places, candidates: Candidates) -> list[EntityAnswer]:
        return [
            EntityAnswer(thing.iri, thing.label, degree, status)
            for rows, status in ((known, KNOWN), (predicted, PREDICTED))
            for row, degree in zip(rows.tolist(), candidates.degrees[rows].tolist(), strict=True)
            for thing in [self._entity(row)]
        ]

    def _concepts(self, judged: Judged, coverage: Floats, question: Question) -> list[ConceptAnswer]:
        """Known concepts, then predicted ones, both in the order that is asked for."""
        candidates = judged.concepts
        known = candidates.known
        coverage[known] = judged.exact.coverage()
        described = Descriptions(candidates.degrees, coverage, self._specificity, judged.similarity)
        ordered = described.sort(question.order, known)
        chosen = candidates.choose(ordered, judged.predicted_keys(question.order, described), question.k)
        return [
            ConceptAnswer(thing.iri, thing.label, degree, status, covered, specificity)
            for rows, status in zip(chosen, (KNOWN, PREDICTED), strict=True)
            for row, degree, covered, specificity in zip(
                rows.tolist(),
                candidates.degrees[rows].tolist(),
                coverage[rows].tolist(),
                self._specificity[rows].tolist(),
                strict=True,
            )
            for thing in [self._concept(row)]
        ]

    def _coverage(self, entities: Places) -> Floats:
        """[C] the share of these entities inside each concept."""
        _, inside = self._kb.index.instances.concepts_of.gather(entities.astype(np.int32))
        return np.bincount(inside, minlength=len(self._kb.concepts)) / max(len(entities), 1)

    @cached_property
    def _specificity(self) -> Floats:
        return self._kb.index.instances.specificity()


def title_of(saved: SavedRun) -> str:
    """The name of a run's knowledge base: as the run says, else its store, which older ones do not: then by folders."""
    source = Path(str(saved.description["source"]["absolute"]))
    names = [
        str(saved.description.get("title", "")),
        name_of(saved.store) or "",
        *(folder.name for folder in (source, saved.path.resolve(), source.parent)),
    ]
    return next((name for name in names if name not in UNTOLD), saved.path.name)
