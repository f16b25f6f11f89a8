"""The public `Reasoner`: a trained model with the facts it was trained on, opened for questions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from tarbox.benchmark.folder import STORE, UNTOLD, name_of
from tarbox.core.errors import QueryError
from tarbox.core.ids import Role
from tarbox.kb.arrays import Doubles, Ids
from tarbox.models.scorer import Predictor, Scorer, SubsumptionPredictor
from tarbox.query.algebra import Concept, Query
from tarbox.service.answering import Question, read_questions
from tarbox.service.answers import ALL_FACTS, Answers, ConceptAnswer, EntityAnswer
from tarbox.service.candidates import CandidateFinder, CandidateList
from tarbox.service.degrees import MIN_DEGREE, check_degree
from tarbox.service.explanations import Support, explain_answer
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.ordering import Descriptions, Order
from tarbox.service.query_objects import QueryLike, tree_of
from tarbox.service.ranking import Chosen, LevelCandidates, QueryCandidates, ranker_of

if TYPE_CHECKING:
    from tarbox.models.saved import SavedRun

_CELLS: Final = 1 << 23
TRAINING_SPLIT: Final = "the training split of a benchmark"


@final
class Reasoner:
    """Answers with what follows from the facts it was trained on (`known`), and with what the model predicts.

    Where the model has probabilities (`tarbox.models.scorer.Predictor`, such as `credo`), degrees are these: a known
    answer has 1, unless it follows from a `not` that the model doubts. Predictions are listed from a least degree on
    (`tarbox.service.degrees.MIN_DEGREE`). For any other model a degree is where the answer's score lies between the
    query's median candidate (0) and its best (1): an order within one query, not a probability. A concept's is never
    above a super-concept's. `trained_on` says what the facts are, where that is told.
    """

    def __init__(self, kb: KnowledgeBase, scorer: Scorer, model: str, trained_on: str | None = None) -> None:
        self.kb, self.model, self.trained_on = kb, model, trained_on
        self._scorer = scorer
        self._ranker = ranker_of(scorer, kb.index)

    @classmethod
    def load(
        cls, run: str | os.PathLike[str], device: str = "cpu", given: str | os.PathLike[str] | None = None
    ) -> Reasoner:
        """The reasoner of a run that `tarbox train` wrote; as if its store had the facts of the file `given`, too."""
        from tarbox.models.saved import open_run

        saved = open_run(run)
        scorer, facts, store = saved.scorer(device), saved.facts, None if given else saved.store
        if given is not None:
            from tarbox.kb.additions import add_facts, read_facts
            from tarbox.models.credo.updating import follow_run

            facts = add_facts(facts, read_facts(given, saved.store.manifest.get("options", {})))
            scorer = follow_run(saved, scorer, facts).model
        index = scorer.index if isinstance(scorer, Predictor) else None
        predicted = scorer.subsumptions if isinstance(scorer, SubsumptionPredictor) else None
        kb = KnowledgeBase(facts, title_of(saved), index, store, predicted)
        return cls(kb, scorer, saved.model_name, trained_on(saved.description))

    def answer(
        self,
        query: QueryLike,
        k: int | None = 10,
        sparql: bool = False,
        order: str = Order.DESCRIPTIVE,
        min_degree: float = MIN_DEGREE,
    ) -> Answers:
        """Both lists of answers: at most `k` known ones each, then at most `k` predictions of `min_degree` or more.

        `order` is that of the concepts (`tarbox.service.ordering.Order`): descriptive, probability or similarity.
        """
        return self.answer_many([query], k, sparql, order, min_degree)[0]

    def answer_many(
        self,
        questions: Iterable[Question | QueryLike],
        k: int | None = 10,
        sparql: bool = False,
        order: str = Order.DESCRIPTIVE,
        min_degree: float = MIN_DEGREE,
    ) -> list[Answers]:
        """The answers to each question; those of one shape go through the model together.

        Texts and queries are asked with `k`, `sparql`, `order` and `min_degree`; a `Question` has its own.
        """
        asked = read_questions(self.kb, questions, k, sparql, order, min_degree)
        rows: dict[Query, list[tuple[int, Ids]]] = {}
        for row, question in enumerate(asked):
            shape, ids = question.encoded(self.kb.facts.vocabulary)
            rows.setdefault(shape, []).append((row, ids))
        found: dict[int, Answers] = {}
        for shape, places in rows.items():
            for part in self._blocks(places):
                ranked = self._ranker.rank(shape, np.stack([ids for _, ids in part]))
                for (row, _), candidates in zip(part, ranked, strict=True):
                    found[row] = asked[row].take_part(self._answer(asked[row], candidates))
        return [found[row] for row in range(len(asked))]

    def members(self, concept: str, k: int | None = None, min_degree: float = MIN_DEGREE) -> list[EntityAnswer]:
        """The members of a concept by degree, the paper's case study: at most `k` known and `k` predicted ones."""
        number = np.array([[self.kb.concepts.id(concept)]], np.int32)
        candidates = self._ranker.rank(Concept("?c1"), number)[0].entities
        return self._entities(candidates, candidates.choose_by_score(k, check_degree(min_degree)))

    def describe_set(
        self, entities: Iterable[str], background: Iterable[str] | None = None, everything: bool = False
    ) -> Answers:
        """As `KnowledgeBase.describe_set`, with missing descriptions expected: beside what is known of a concept stands
        how many members it describes if predictions count by their probability, and the test of that, which decides
        the order. Raises `QueryError` where the model has no probabilities."""
        if not isinstance(self._scorer, Predictor):
            raise QueryError(f"{self.model} predicts without probabilities: ask for what is known, or a run of credo")
        return self.kb.describe_set(entities, background, everything, self._scorer.probabilities.descriptions)

    def explain(self, query: QueryLike, answer: str, role: Role = Role.ENTITY) -> Support:
        """The facts that carry one answer; see `tarbox.service.explanations`.

        A model with probabilities names the likeliest facts, with theirs.
        """
        predictor = self._scorer if isinstance(self._scorer, Predictor) else None
        return explain_answer(tree_of(self.kb, query), self.kb, answer, role, predicted=True, predictor=predictor)

    def candidates(
        self, relation: str, within: QueryLike | None = None, k: int = 1000, concept: str | None = None, first: int = 0
    ) -> CandidateList:
        """The most likely facts of a relation that are not known, at most `k`, each with what speaks for it.

        `relation` is a name or IRI, after `inverse` to have its ends change places, or `type` for typings, of one
        `concept` or of all. `within` is a query: subjects are its known answers. `first` of the best are left out.
        """
        return self._candidates.find(relation, None if within is None else tree_of(self.kb, within), concept, k, first)

    @cached_property
    def _candidates(self) -> CandidateFinder:
        return CandidateFinder(self.kb, self._scorer)

    def __repr__(self) -> str:
        return f"Reasoner({self.model} over {self.kb.title})"

    def _repr_html_(self) -> str:
        from tarbox.service.notebook_views import reasoner_view

        return reasoner_view(self)

    def _blocks(self, places: Sequence[tuple[int, Ids]]) -> Iterator[Sequence[tuple[int, Ids]]]:
        """As many at a time as memory is meant for."""
        step = max(1, _CELLS // max(len(self.kb.entities), 20 * len(self.kb.concepts), 1))
        return (places[start : start + step] for start in range(0, len(places), step))

    def _answer(self, question: Question, candidates: QueryCandidates) -> Answers:
        entities = candidates.entities.choose_by_score(question.reach, question.min_degree)
        coverage = self._coverage(entities) if candidates.coverage is None else candidates.coverage
        known = candidates.concepts.known
        coverage[known] = candidates.exact.coverage()
        described = Descriptions(candidates.concepts.degrees, coverage, self.kb.specificity, candidates.similarity)
        keys = candidates.predicted_keys(question.order, described)
        ordered = described.sort(question.order, known)
        concepts = candidates.concepts.choose(ordered, keys, question.reach, question.min_degree)
        return Answers(
            question.said(),
            self._entities(candidates.entities, entities),
            self._concepts(candidates.concepts, concepts, coverage),
            entities.counts,
            concepts.counts,
            {} if self.trained_on is None else {"trained_on": self.trained_on},
            question.query,
            self,
        )

    def _entities(self, candidates: LevelCandidates, chosen: Chosen) -> list[EntityAnswer]:
        return [
            EntityAnswer(thing.iri, thing.label, float(candidates.degrees[row]), status)
            for row, status in chosen.rows()
            for thing in [self.kb.entities.at(row)]
        ]

    def _concepts(self, candidates: LevelCandidates, chosen: Chosen, coverage: Doubles) -> list[ConceptAnswer]:
        told = candidates.degrees, coverage, self.kb.specificity
        return [
            ConceptAnswer(thing.iri, thing.label, degree, status, covered, specificity)
            for row, status in chosen.rows()
            for thing in [self.kb.concepts.at(row)]
            for degree, covered, specificity in [[float(values[row]) for values in told]]
        ]

    def _coverage(self, entities: Chosen) -> Doubles:
        """[C] the share of the entities shown inside each concept."""
        shown = np.concatenate([entities.known, entities.predicted])
        _, inside = self.kb.index.descriptions.concepts_of.gather(shown)
        return np.bincount(inside, minlength=len(self.kb.concepts)) / max(len(shown), 1)


def title_of(saved: SavedRun) -> str:
    """The name of a run's knowledge base: as the run says, else its store, which older ones do not: then by folders."""
    source = Path(str(saved.description["source"]["absolute"]))
    names = [
        str(saved.description.get("title", "")),
        name_of(saved.store) or "",
        *(folder.name for folder in (source, saved.path.resolve(), source.parent)),
    ]
    return next((name for name in names if name not in UNTOLD), saved.path.name)


def trained_on(description: Mapping[str, Any]) -> str:
    """What a run has learnt from, by its run.json; an imported benchmark does not say how many facts were held out.

    >>> trained_on({"source": {"kind": "benchmark", "held_out": 1200}})
    'the training split of a benchmark: 1,200 facts were held out'
    """
    source = description["source"]
    if source["kind"] == STORE:
        return ALL_FACTS
    held_out = source.get("held_out")
    return TRAINING_SPLIT if held_out is None else f"{TRAINING_SPLIT}: {held_out:,} facts were held out"
