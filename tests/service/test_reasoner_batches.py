"""Many questions to a reasoner at once get the answers they get alone."""

from __future__ import annotations

import numpy as np

from tarbox.core.ids import Level
from tarbox.kb.facts import Facts, Ids
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.counting import Counting
from tarbox.models.scorer import Scorer
from tarbox.query.algebra import Query
from tarbox.service.answering import Question
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.reasoner import Reasoner

TEXTS = (
    "p value b",
    "p value c",
    "inverse q value a",
    "C and p some D",
    "p value d",
    "not C",
    "C",
    "inverse q value b",
)


class Watched:
    """Counting, with a record of how many queries came in each call."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self.sizes: list[int] = []

    def candidates(self, level: Level) -> int:
        return self.scorer.candidates(level)

    def score(self, shape: Query, ids: Ids, level: Level) -> np.ndarray:
        self.sizes.append(len(ids))
        return np.asarray(self.scorer.score(shape, ids, level))


def test_a_batch_equals_its_rows_and_takes_one_call_per_shape() -> None:
    vocabulary = Vocabulary.of([f"x:{name}" for name in "abcde"], ["x:C", "x:D"], ["x:p", "x:q"])
    chance = np.random.default_rng(3)
    assertions = [tuple(row) for row in chance.integers(0, (5, 2, 5), (14, 3)).tolist()]
    facts = Facts.of(vocabulary, assertions, [(0, 0), (1, 0), (2, 1), (3, 1)])  # type: ignore[arg-type]
    model = Watched(Counting.from_facts(facts))
    reasoner = Reasoner(KnowledgeBase(facts), model, "counting")
    alone = [reasoner.answer(text, 4) for text in TEXTS]
    model.sizes.clear()
    together = reasoner.answer_many([Question(reasoner.kb.parse(text), 4) for text in TEXTS])
    assert [(a.entities, a.concepts) for a in together] == [(a.entities, a.concepts) for a in alone]
    assert sorted(model.sizes) == [1, 1, 1, 1, 1, 1, 5, 5]
