"""Who answers: a knowledge base with what follows from its facts, or a model with what it predicts.

Servers and prompts are written against `Answerer`, so that both serve. Everything here may be called from several
threads at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol, final

from tarbox.core.ids import Role
from tarbox.execution.rows import encode
from tarbox.kb.facts import Ids
from tarbox.kb.vocabulary import Vocabulary
from tarbox.query.algebra import Entity, Query
from tarbox.query.render import render
from tarbox.query.rewrites import plain
from tarbox.service.answers import Answers, EntityAnswer
from tarbox.service.degrees import MIN_DEGREE, check_count, check_degree
from tarbox.service.ordering import Order
from tarbox.service.query_objects import QueryLike, tree_of

if TYPE_CHECKING:
    from tarbox.service.explanations import Support
    from tarbox.service.knowledge_base import KnowledgeBase
    from tarbox.service.reasoner import Reasoner


@final
@dataclass(frozen=True, slots=True)
class Question:
    """A query with how many answers of each kind are wanted, known and predicted ones each; None for all of them.

    `text` is the query as someone wrote it, where someone did: the answers say it again. `order` is that of the
    concepts, `min_degree` the least degree of a prediction that is listed, where degrees are probabilities; 0 for all
    that count (`tarbox.service.degrees.COUNTED`). `row` is the shape of the query as it is answered
    (`tarbox.query.rewrites.plain`) with its ids (`tarbox.execution.rows`), where someone has looked them up. `offset`
    are passed over in each list, of known and of predicted ones each; with a `status` only those are listed.
    """

    query: Query
    k: int | None
    text: str | None = None
    order: Order = Order.DESCRIPTIVE
    min_degree: float = MIN_DEGREE
    row: tuple[Query, Ids] | None = field(default=None, compare=False, repr=False)
    offset: int = 0
    status: str | None = None

    def __post_init__(self) -> None:
        check_count(self.k)
        check_count(self.offset)
        check_degree(self.min_degree)

    @property
    def reach(self) -> int | None:
        """How many of each kind must be found to list those that are wanted."""
        return None if self.k is None else self.offset + self.k

    def encoded(self, vocabulary: Vocabulary) -> tuple[Query, Ids]:
        """The shape that is answered, with its ids."""
        return self.row or encode(plain(self.query), vocabulary)

    def take_part(self, found: Answers) -> Answers:
        """Those of all answers within reach that are wanted."""
        return found.part(self.offset, self.status)

    def said(self) -> str:
        """The query as its answers name it."""
        return render(self.query) if self.text is None else self.text


def read_questions(
    kb: KnowledgeBase,
    given: Iterable[Question | QueryLike],
    k: int | None,
    sparql: bool = False,
    order: str = Order.DESCRIPTIVE,
    min_degree: float = MIN_DEGREE,
) -> list[Question]:
    """What is asked, as questions: texts and queries with `k`, `order` and `min_degree`; a `Question` has its own."""
    made = partial(Question, k=k, order=Order.of(order), min_degree=min_degree)
    return [
        each
        if isinstance(each, Question)
        else made(kb.parse(each, sparql), text=each)
        if isinstance(each, str)
        else made(tree_of(kb, each))
        for each in given
    ]


class Answerer(Protocol):
    """Answers questions over one knowledge base.

    `model` names the model, where one predicts, and `trained_on` says what it has learnt from.
    """

    @property
    def kb(self) -> KnowledgeBase:
        """The facts and names: parsing, English and pictures are the same whoever answers."""

    @property
    def model(self) -> str | None: ...

    @property
    def trained_on(self) -> str | None: ...

    def answer_many(self, questions: Sequence[Question | QueryLike], k: int | None = ...) -> list[Answers]:
        """The answers to each question, in one call; one question costs no less alone than among others. What is no
        `Question` is asked for `k` of each kind."""

    def members(self, concept: str, k: int) -> list[EntityAnswer]:
        """The members of a concept (a name or an IRI): the known, then the predicted, at most `k` each."""

    def explain(self, query: QueryLike, answer: str, role: Role = Role.ENTITY) -> Support:
        """The facts that carry one answer, an entity or a concept by name or IRI."""


def open_answerer(path: str | os.PathLike[str]) -> KnowledgeBase | Reasoner:
    """The `Reasoner` of a run that `tarbox train` wrote, or the `KnowledgeBase` of a store."""
    from tarbox.models.saved import is_run

    if not is_run(path):
        from tarbox.service.knowledge_base import KnowledgeBase

        return KnowledgeBase.load(path)
    from tarbox.service.reasoner import Reasoner

    return Reasoner.load(path)


def warm_up(answerer: Answerer) -> None:
    """Builds everything that the first questions would otherwise wait for: indexes, names, machine code."""
    kb = answerer.kb
    if len(kb.entities):
        question = Question(Entity(kb.facts.vocabulary.entities.iri(0)), 1)
        answerer.answer_many([question])
        answerer.answer_many([question, question])
    _ = kb.attributes  # while its files are there: another version may take their place
    for text in ("", "warm-up"):  # what has an answer, and what is looked for among misspelled names
        kb.search(text, 1)
