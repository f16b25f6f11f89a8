"""Questions read, and their answers written as the JSON that clients get; whoever answers, thread or process."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, final

from tarbox.core.errors import QuerySyntaxError, QueryTooLarge, TarboxError, UnknownName
from tarbox.core.ids import Role
from tarbox.execution.rows import encode as encode_row
from tarbox.http.settings import Bounds
from tarbox.kb.terms import from_ntriples
from tarbox.query.algebra import Query
from tarbox.query.english import describe
from tarbox.query.manchester import DEFAULT_LIMITS
from tarbox.query.render import render
from tarbox.query.rewrites import plain
from tarbox.query.sparql import SparqlSelection, parse_selection
from tarbox.service.answering import Answerer, Question
from tarbox.service.answers import Answers, ConceptAnswer, EntityAnswer
from tarbox.service.collections import CACHED
from tarbox.service.degrees import MIN_DEGREE
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.ordering import Order

_QUOTED: Final = json.JSONEncoder(ensure_ascii=False).encode


@final
@dataclass(frozen=True, slots=True)
class Asked:
    """A question on its way: the text as it came, and its query where it is parsed already."""

    text: str
    query: Query | None
    k: int
    came: float
    order: Order = Order.DESCRIPTIVE
    min_degree: float = MIN_DEGREE


@final
class Replies:
    """What an answerer has to say, as clients get it, within a server's limits."""

    def __init__(self, answerer: Answerer, bounds: Bounds) -> None:
        self.answerer = answerer
        self.kb = answerer.kb
        self.naming = AnswerNames(answerer.kb)
        self._most = {False: bounds.query, True: bounds.sparql}
        self._limits = {sparql: replace(DEFAULT_LIMITS, characters=most) for sparql, most in self._most.items()}

    def read(self, text: str, sparql: bool = False) -> Query:
        """The query that a text writes, within this server's limits."""
        check_text(text, self._most[sparql])
        return self.kb.parse(text, sparql, self._limits[sparql])

    def read_selection(self, text: str) -> SparqlSelection:
        """A SPARQL SELECT over a tree, within this server's limits, of names that the knowledge base has."""
        check_text(text, self._most[True])
        selected = parse_selection(text, self._limits[True])
        self.kb.check(selected.query)
        return selected

    def sort(self, asked: Asked) -> tuple[Query, Question]:
        """The shape of a question, and the question with its row: those of one shape are answered in one call."""
        query = asked.query or self.read(asked.text)
        try:
            row = encode_row(plain(query), self.kb.facts.vocabulary)
        except UnknownName:  # of SPARQL, which may say any name
            self.kb.check(query)
            raise
        return row[0], Question(query, asked.k, asked.text, asked.order, asked.min_degree, row)

    def answer(self, batch: Sequence[tuple[Asked, Question]]) -> list[bytes]:
        """The replies to questions, in one call."""
        found = self.answerer.answer_many([question for _, question in batch])
        return [self._reply(asked, question.query, each) for (asked, question), each in zip(batch, found, strict=True)]

    def answer_batch(self, batch: Sequence[Asked]) -> list[bytes | TarboxError]:
        """The replies to questions as they came, wrong ones among them."""
        outcomes: list[bytes | TarboxError] = []
        questions: dict[int, tuple[Asked, Question]] = {}
        for place, asked in enumerate(batch):
            try:
                questions[place] = asked, self.sort(asked)[1]
            except TarboxError as error:
                outcomes.append(error)
            else:
                outcomes.append(b"")
        for place, found in zip(questions, self._answers(list(questions.values())), strict=True):
            outcomes[place] = found
        return outcomes

    def _answers(self, batch: Sequence[tuple[Asked, Question]]) -> Sequence[bytes | TarboxError]:
        """The replies to all; where one question is wrong, each is asked alone."""
        if not batch:
            return []
        try:
            return self.answer(batch)
        except TarboxError as error:
            if len(batch) == 1:
                return [error]
        return [self._answers([each])[0] for each in batch]

    def _reply(self, asked: Asked, query: Query, found: Answers) -> bytes:
        """The reply as JSON. Items are written by hand: most of each is the same in every reply, and kept."""
        texts = (asked.text, render(query, self.naming.write), describe(query, self.naming.show))
        said, canonical, english = map(_QUOTED, texts)
        milliseconds = (time.perf_counter() - asked.came) * 1_000
        return (
            f'{{"query":{said},"canonical":{canonical},"english":{english},'
            f'"entities":[{",".join(map(self.naming.entity, found.entities))}],'
            f'"concepts":[{",".join(map(self.naming.concept, found.concepts))}],'
            f'"entity_count":{found.entity_count},"concept_count":{found.concept_count},'
            f"{json.dumps(found.count(), separators=(',', ':'))[1:-1]},"
            f'"milliseconds":{milliseconds:.3f}}}'
        ).encode("utf-8", "replace")


@final
class AnswerNames:
    """Names as queries write them and as people read them, and answers as JSON; what is said often is kept.

    Numbers have seven digits, as many as models compute with; all of a double's would take three times as long.
    """

    def __init__(self, kb: KnowledgeBase) -> None:
        self.write = lru_cache(CACHED)(kb.resolver.write)
        self.show = lru_cache(CACHED)(kb.resolver.show)
        self._start = lru_cache(CACHED)(self._write_start)

    def entity(self, answer: EntityAnswer) -> str:
        """An entity as a JSON object, with the name that a query can say."""
        start = self._start(Role.ENTITY, answer.iri, answer.label)
        return f'{start},"degree":{answer.degree:.7g},"status":"{answer.status}"}}'

    def concept(self, answer: ConceptAnswer) -> str:
        """A concept as a JSON object, with the name that a query can say."""
        start = self._start(Role.CONCEPT, answer.iri, answer.label)
        told = f'"coverage":{answer.coverage:.7g},"specificity":{answer.specificity:.7g}'
        return f'{start},"degree":{answer.degree:.7g},"status":"{answer.status}",{told}}}'

    def _write_start(self, role: Role, iri: str, label: str) -> str:
        content = {"iri": iri, "label": label, "name": self.write(role, from_ntriples(iri))}
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))[:-1]


def encode(content: Any) -> bytes:
    """JSON in UTF-8."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def check_text(text: str, most: int) -> None:
    """Refuses what is longer than the limit, and half characters, which no text in UTF-8 has."""
    if len(text) > most:
        raise QueryTooLarge(f"the query has {len(text):,} characters; this server takes {most:,}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = text.encode("utf-8", "replace").decode()
        raise QuerySyntaxError("this is half of a character (a lone surrogate)", shown, error.start) from None
