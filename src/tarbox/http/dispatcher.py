"""Where the event loop hands work to others: answers to a process of their own or in batches to one thread, everything
else to a small pool of threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, ParamSpec, TypeVar, final

from tarbox.core.errors import Overloaded, TarboxError
from tarbox.http.metrics import Metrics
from tarbox.http.replies import Asked, Replies
from tarbox.http.settings import Bounds
from tarbox.http.sparql_client import SparqlClient
from tarbox.http.worker_client import WorkerClient
from tarbox.query.algebra import Query
from tarbox.service.answering import Answerer
from tarbox.service.batching import Batcher
from tarbox.service.degrees import MIN_DEGREE
from tarbox.service.ordering import Order

P = ParamSpec("P")
T = TypeVar("T")
THREADS: Final = 2
SHORT: Final = 1_000
"""Texts of up to so many characters are parsed where they are answered; longer ones would hold up the others."""


@final
class Dispatcher:
    """Answers for the routes, by `worker` where there is one and it is ready. `close` lets what has begun end."""

    def __init__(
        self, answerer: Answerer, bounds: Bounds, metrics: Metrics, worker: WorkerClient | None = None
    ) -> None:
        self.answerer = answerer
        self.kb = answerer.kb
        self.seconds = bounds.seconds
        self.replies = Replies(answerer, bounds)
        self.sparql = SparqlClient(answerer.kb, bounds)
        self._metrics = metrics
        self._worker = worker
        self._pool = ThreadPoolExecutor(THREADS, "tarbox-dispatcher")
        self._given_up: set[Future[Any]] = set()
        self._batcher = Batcher(self.replies.answer_batch, report=metrics.note_batch)

    async def open(self) -> None:
        """Begins to listen to the process that answers."""
        if self._worker is not None:
            await self._worker.open(self._metrics.note_batch)

    async def answer(
        self,
        text: str,
        k: int,
        sparql: bool,
        order: Order = Order.DESCRIPTIVE,
        min_degree: float = MIN_DEGREE,
    ) -> bytes:
        """Both lists of answers as JSON; raises what is wrong with the query."""
        asked = Asked(text, None, k, time.perf_counter(), order, min_degree)
        if sparql or len(text) > SHORT:
            return await self._answer_here(replace(asked, query=await self.parse(text, sparql)))
        if self._worker is not None and self._worker.is_ready:
            return await self._worker.ask(asked)
        return await self._answer_here(asked)

    async def _answer_here(self, asked: Asked) -> bytes:
        found = await self._batcher.ask(asked)
        if isinstance(found, TarboxError):
            raise found
        return found

    async def parse(self, text: str, sparql: bool) -> Query:
        return await self.work(self.replies.read, text, sparql)

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

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self.sparql.close()
        self._batcher.close()
        self._pool.shutdown(cancel_futures=True)
