"""Where the event loop hands work to others: answers in batches to one thread, everything else to a small pool."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar, final

from tarbox.core.errors import Overloaded, TarboxError
from tarbox.http.metrics import Metrics
from tarbox.http.replies import Asked, Replies
from tarbox.http.schemas import AnswerRequest, Language
from tarbox.http.settings import Bounds
from tarbox.service.answering import Answerer
from tarbox.service.batching import Batcher
from tarbox.service.sparql_engine import BoundedEngine, EngineLimits

P = ParamSpec("P")
T = TypeVar("T")
THREADS: Final = 2
SHORT: Final = 1_000
"""Texts of up to so many characters are parsed where they are answered; longer ones would hold up the others."""


@final
class Dispatcher:
    """Answers for the routes. `close` lets what has begun end."""

    def __init__(self, answerer: Answerer, bounds: Bounds, metrics: Metrics) -> None:
        self.answerer = answerer
        self.kb = answerer.kb
        self.bounds = bounds
        self.metrics = metrics
        self.replies = Replies(answerer, bounds)
        self.sparql = BoundedEngine(answerer.kb, EngineLimits(bounds.seconds, bounds.memory, bounds.result))
        self._pool = ThreadPoolExecutor(THREADS, "tarbox-dispatcher")
        self._given_up: set[Future[Any]] = set()
        self._held_since: float | None = None
        self._batcher = Batcher(self.replies.answer_batch, report=metrics.note_batch)

    async def answer(self, request: AnswerRequest) -> bytes:
        """Both lists of answers as JSON; raises what is wrong with the query."""
        came, query = time.perf_counter(), None
        if request.language is Language.SPARQL or len(request.query) > SHORT:
            query = await self.work(self.replies.read, request.query, request.language is Language.SPARQL)
        found = await self._batcher.ask(Asked(request, query, came))
        if isinstance(found, TarboxError):
            raise found
        return found

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
        return self._held_since is not None and time.monotonic() - self._held_since > self.bounds.seconds

    def _is_full(self) -> bool:
        self._given_up = {job for job in self._given_up if not job.done()}
        return len(self._given_up) >= THREADS

    def close(self) -> None:
        self.sparql.close()
        self._batcher.close()
        self._pool.shutdown(cancel_futures=True)
