"""Where the event loop hands work to threads: answers in batches by one thread, everything else by a small pool."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, ParamSpec, TypeVar, final

from tarbox.core.errors import Overloaded, QuerySyntaxError, QueryTooLarge, TarboxError
from tarbox.core.ids import Role
from tarbox.http.metrics import Metrics
from tarbox.http.settings import Bounds
from tarbox.kb.terms import from_ntriples
from tarbox.query.algebra import Query
from tarbox.query.english import describe
from tarbox.query.manchester import DEFAULT_LIMITS
from tarbox.query.render import render
from tarbox.service.answering import CACHED, Answerer, Question
from tarbox.service.answers import Answers, ConceptAnswer, EntityAnswer
from tarbox.service.batching import Batcher
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.ordering import Order

P = ParamSpec("P")
T = TypeVar("T")
THREADS: Final = 2
_QUOTED: Final = json.JSONEncoder(ensure_ascii=False).encode
SHORT: Final = 1_000
"""Texts of up to so many characters are parsed where they are answered; longer ones would hold up the others."""


@final
@dataclass(frozen=True, slots=True)
class Asked:
    """A question on its way: the text as it came, and its query where it is parsed already."""

    text: str
    query: Query | None
    k: int
    came: float
    order: Order = Order.DESCRIPTIVE


@final
class Desk:
    """Answers for the routes. `close` lets what has begun end."""

    def __init__(self, answerer: Answerer, bounds: Bounds, metrics: Metrics) -> None:
        self.answerer = answerer
        self.kb = answerer.kb
        self.naming = Naming(answerer.kb)
        self._bounds = bounds
        self._pool = ThreadPoolExecutor(THREADS, "tarbox-desk")
        self._given_up: set[Future[Any]] = set()
        self._batcher: Batcher[Asked, bytes | TarboxError] = Batcher(self._answer_batch, report=metrics.note_batch)

    async def answer(self, text: str, k: int, sparql: bool, order: Order = Order.DESCRIPTIVE) -> bytes:
        """Both lists of answers as JSON; raises what is wrong with the query."""
        came = time.perf_counter()
        query = await self.parse(text, sparql) if sparql or len(text) > SHORT else None
        found = await self._batcher.ask(Asked(text, query, k, came, order))
        if isinstance(found, TarboxError):
            raise found
        return found

    async def parse(self, text: str, sparql: bool) -> Query:
        return await self.work(self.read, text, sparql)

    async def work(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """The result of a function that takes its time, from a thread of the pool.

        Who gives up before their turn costs nothing; what has begun runs to its end, since a thread cannot be
        stopped. Raises `Overloaded` while every thread is taken by such work.
        """
        self._given_up = {job for job in self._given_up if not job.done()}
        if len(self._given_up) >= THREADS:
            raise Overloaded("The server is still at work on questions that took too long. Ask again soon.")
        job = self._pool.submit(function, *arguments, **named)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            if not job.cancel():
                self._given_up.add(job)
            raise

    def read(self, text: str, sparql: bool = False) -> Query:
        """The query that a text writes, within this server's limits."""
        most = self._bounds.sparql if sparql else self._bounds.query
        check_text(text, most)
        return self.kb.parse(text, sparql, replace(DEFAULT_LIMITS, characters=most))

    def read_ask(self, text: str) -> Query:
        """The query of a SPARQL ASK, within this server's limits."""
        from tarbox.query.sparql import parse_ask

        check_text(text, self._bounds.sparql)
        return parse_ask(text, replace(DEFAULT_LIMITS, characters=self._bounds.sparql))

    def close(self) -> None:
        self._batcher.close()
        self._pool.shutdown(cancel_futures=True)

    def _answer_batch(self, batch: Sequence[Asked]) -> list[bytes | TarboxError]:
        outcomes: list[bytes | TarboxError | None] = [None] * len(batch)
        questions: dict[int, Question] = {}
        for place, asked in enumerate(batch):
            try:
                questions[place] = Question(asked.query or self.read(asked.text), asked.k, asked.text, asked.order)
            except TarboxError as error:
                outcomes[place] = error
        for place, found in zip(questions, self._answers(list(questions.values())), strict=True):
            if isinstance(found, TarboxError):
                outcomes[place] = found
            else:
                outcomes[place] = self._reply(batch[place], questions[place].query, found)
        return [outcome for outcome in outcomes if outcome is not None]

    def _answers(self, questions: list[Question]) -> Sequence[Answers | TarboxError]:
        """The answers to all; where one question is wrong, each is asked alone."""
        if not questions:
            return []
        try:
            return self.answerer.answer_many(questions)
        except TarboxError as error:
            if len(questions) == 1:
                return [error]
        return [self._answers([question])[0] for question in questions]

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
            f'"milliseconds":{milliseconds:.3f}}}'
        ).encode("utf-8", "replace")


@final
class Naming:
    """Names as queries write them and as people read them, and answers as JSON; what is said often is kept."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.write = lru_cache(CACHED)(kb.resolver.write)
        self.show = lru_cache(CACHED)(kb.resolver.show)
        self._start = lru_cache(CACHED)(self._write_start)

    def entity(self, answer: EntityAnswer) -> str:
        """An entity as a JSON object, with the name that a query can say."""
        start = self._start(Role.ENTITY, answer.iri, answer.label)
        return f'{start},"degree":{float(answer.degree)!r},"status":"{answer.status}"}}'

    def concept(self, answer: ConceptAnswer) -> str:
        """A concept as a JSON object, with the name that a query can say."""
        start = self._start(Role.CONCEPT, answer.iri, answer.label)
        told = f'"coverage":{float(answer.coverage)!r},"specificity":{float(answer.specificity)!r}'
        return f'{start},"degree":{float(answer.degree)!r},"status":"{answer.status}",{told}}}'

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
