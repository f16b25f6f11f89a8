"""Where the event loop hands work to others: answers in batches to one thread, everything else to a small pool."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Final, ParamSpec, TypeVar, final

from tarbox.core.errors import Overloaded, QuerySyntaxError, QueryTooLarge, TarboxError, UnknownName
from tarbox.execution.rows import encode
from tarbox.query.algebra import Query
from tarbox.query.manchester import DEFAULT_LIMITS
from tarbox.query.rewrites import plain
from tarbox.query.sparql import SparqlSelection, parse_selection
from tarbox.service.answer_schema import AnswerRequest, Language
from tarbox.service.answering import Answerer, Question
from tarbox.service.batching import Batcher
from tarbox.service.class_expressions import ClassDescription, describe_expression, find_place
from tarbox.service.sparql_engine import BoundedEngine, EngineLimits

P = ParamSpec("P")
T = TypeVar("T")
THREADS: Final = 2
PLACED: Final = 64
"""Expressions whose place among the classes is kept."""
SHORT: Final = 1_000
"""Texts of up to so many characters are parsed where they are answered; longer ones would hold up the others."""


@final
@dataclass(frozen=True, slots=True)
class Asked:
    """A question on its way, with its query where that is parsed already, and when it came."""

    request: AnswerRequest
    query: Query | None
    came: float


@final
class Dispatcher:
    """Answers many who ask at once. `characters` is how many a query may have, in Manchester syntax and in SPARQL;
    `report` hears the size of each batch. `close` lets what has begun end."""

    def __init__(
        self, answerer: Answerer, limits: EngineLimits, characters: tuple[int, int], report: Callable[[int], None]
    ) -> None:
        self.answerer, self.kb = answerer, answerer.kb
        self.engine = BoundedEngine(answerer.kb, limits)
        self._seconds = limits.seconds
        # before the reply is given up
        self._find_place = lru_cache(PLACED)(partial(find_place, seconds=limits.seconds * 0.9))
        self._turn = asyncio.Lock()
        self._limits = [replace(DEFAULT_LIMITS, characters=most) for most in characters]
        self._pool = ThreadPoolExecutor(THREADS, "tarbox-dispatcher")
        self._given_up: set[Future[Any]] = set()
        self._held_since: float | None = None
        self._batcher: Batcher[Asked, bytes] = Batcher(self.answer_batch, report=report)

    def read(self, text: str, sparql: bool = False) -> Query:
        """The query that a text writes, within the limits."""
        limits = self._limits[sparql]
        check_text(text, limits.characters)
        return self.kb.parse(text, sparql, limits)

    def read_selection(self, text: str) -> SparqlSelection:
        """A SPARQL SELECT over a tree, within the limits, of names that the knowledge base has."""
        check_text(text, self._limits[True].characters)
        selected = parse_selection(text, self._limits[True])
        self.kb.check(selected.query)
        return selected

    async def answer(self, request: AnswerRequest) -> bytes:
        """Both lists of answers as JSON; raises what is wrong with the query."""
        came, query = time.perf_counter(), None
        if request.language is Language.SPARQL or len(request.query) > SHORT:
            query = await self.work(self.read, request.query, request.language is Language.SPARQL)
        return await self._batcher.ask(Asked(request, query, came))

    def answer_batch(self, batch: Sequence[Asked]) -> list[bytes | TarboxError]:
        """The replies to questions as they came, wrong ones among them."""
        questions = [self._question(asked) for asked in batch]
        found = iter(self.answerer.answer_many([each for each in questions if isinstance(each, Question)]))
        return [
            question
            if isinstance(question, TarboxError)
            else next(found)
            .to_text(milliseconds=round((time.perf_counter() - asked.came) * 1_000, 3))
            .encode("utf-8", "replace")
            for question, asked in zip(questions, batch, strict=True)
        ]

    def _question(self, asked: Asked) -> Question | TarboxError:
        request = asked.request
        try:
            query = asked.query or self.read(request.query)
            try:
                row = encode(plain(query), self.kb.facts.vocabulary)
            except UnknownName:  # of SPARQL, which may say any name
                self.kb.check(query)
                raise
        except TarboxError as error:
            return error
        part = request.offset, request.status
        return Question(query, request.k, request.query, request.order, request.min_degree, row, *part)

    async def describe(self, expression: str, k: int) -> ClassDescription:
        """Where a class expression stands; one at a time, and who asks the same meanwhile finds it done."""

        def placed() -> ClassDescription:
            self.read(expression)
            return describe_expression(self.kb, expression, k, find=self._find_place)

        async with self._turn:
            return await self.work(placed)

    async def work(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """The result of a function that takes its time, from a thread of the pool.

        Who gives up before their turn costs nothing; what has begun runs to its end, since a thread cannot be
        stopped. Raises `Overloaded` while every thread is taken by such work.
        """
        if self._is_full():
            raise Overloaded("The server is still at work on questions that took too long. Ask again soon.")
        job = self._pool.submit(function, *arguments, **named)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            if not job.cancel():
                self._given_up.add(job)
            raise

    def is_stuck(self) -> bool:
        """Whether work that everyone has given up holds the threads for as long again as a reply may take."""
        if not (self._batcher.is_given_up() or self._is_full()):
            self._held_since = None
        elif self._held_since is None:
            self._held_since = time.monotonic()
        return self._held_since is not None and time.monotonic() - self._held_since > self._seconds

    def _is_full(self) -> bool:
        self._given_up = {job for job in self._given_up if not job.done()}
        return len(self._given_up) >= THREADS

    def close(self) -> None:
        self.engine.close()
        self._batcher.close()
        self._pool.shutdown(cancel_futures=True)


def check_text(text: str, most: int) -> None:
    """Refuses what is longer than the limit, and half characters, which no text in UTF-8 has."""
    if len(text) > most:
        raise QueryTooLarge(f"the query has {len(text):,} characters; this server takes {most:,}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = text.encode("utf-8", "replace").decode()
        raise QuerySyntaxError("this is half of a character (a lone surrogate)", shown, error.start) from None
