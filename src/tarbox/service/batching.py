"""Many who ask at once, one call that answers: a queue that collects what is waiting.

One thread answers; while it does, the event loop collects what comes in, and hands it over as the next batch. Alone, a
question goes through at once. Where several ask, those who were just answered are likely to ask again, and a call costs
little more for them as well: the next batch waits for as many as there were, for the time that the last one took at
most. A batch crosses between the threads once in each direction, however many questions it has.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, TypeVar, final

from tarbox.core.errors import Overloaded

Q = TypeVar("Q")
A = TypeVar("A")
MOST: Final = 64
PATIENCE: Final = 1.0
"""The share of a batch's time for which the next one waits; no longer than `LONGEST` seconds."""
LONGEST: Final = 0.01


@final
class Batcher(Generic[Q, A]):
    """Answers questions from an event loop by calls of `answer_many` in one thread; `report` hears each batch's size.

    An answer that is an error is raised for the one who asked. Where a call fails, its questions are asked again one by
    one, so that each failure reaches the one who asked.

    >>> async def both() -> list[int]:
    ...     doubling = Batcher(lambda numbers: [2 * number for number in numbers])
    ...     return await asyncio.gather(doubling.ask(1), doubling.ask(2))
    >>> asyncio.run(both())
    [2, 4]
    """

    def __init__(
        self,
        answer_many: Callable[[Sequence[Q]], Sequence[A | Exception]],
        most: int = MOST,
        report: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._answer_many = answer_many
        self._most = most
        self._report = report
        self._waiting: deque[tuple[Q, asyncio.Future[A]]] = deque()
        self._busy = False
        self._began = 0.0
        self._expected = 0
        self._pause: asyncio.TimerHandle | None = None
        self._asked: Sequence[tuple[Q, asyncio.Future[A]]] = ()
        self._thread = ThreadPoolExecutor(1, "tarbox-batches")

    async def ask(self, question: Q) -> A:
        """The answer; who is cancelled before their turn is not asked for.

        Raises `Overloaded` while the thread works on a batch that everyone has given up: a thread cannot be stopped,
        and whoever came now would wait as long in vain.
        """
        if self.is_given_up():
            raise Overloaded("The server is still at work on a question that took too long. Ask again soon.")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[A] = loop.create_future()
        self._waiting.append((question, future))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._start)  # whoever asks in this turn of the loop comes along
        elif self._pause is not None and len(self._waiting) >= self._expected:
            self._pause.cancel()
            self._pause = None
            loop.call_soon(self._start)
        return await future

    def is_given_up(self) -> bool:
        """Whether the thread works for nobody any more."""
        return bool(self._asked) and all(future.done() for _, future in self._asked)

    def close(self) -> None:
        """Ends the thread, once it has answered what it has begun."""
        self._thread.shutdown()

    def _start(self) -> None:
        self._pause = None
        batch: list[tuple[Q, asyncio.Future[A]]] = []
        while self._waiting and len(batch) < self._most:
            question, future = self._waiting.popleft()
            if not future.done():
                batch.append((question, future))
        self._busy = bool(batch)
        self._asked = batch
        if not batch:
            return
        self._report(len(batch))
        loop = asyncio.get_running_loop()
        self._began = loop.time()
        self._thread.submit(self._work, batch, loop)

    def _work(self, batch: Sequence[tuple[Q, asyncio.Future[A]]], loop: asyncio.AbstractEventLoop) -> None:
        """Answers a batch in the thread; a future between it and the loop would cost as much as a part of an answer."""
        answers = self._answer([question for question, _ in batch])
        loop.call_soon_threadsafe(self._finish, batch, answers)

    def _finish(self, batch: Sequence[tuple[Q, asyncio.Future[A]]], answers: Sequence[A | Exception]) -> None:
        self._asked = ()
        self._go_on(len(batch))
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def _go_on(self, answered: int) -> None:
        """Begins the next batch: at once where nobody else asks, else when those just answered have had their time."""
        if answered == 1 and not self._waiting:
            self._start()
            return
        loop = asyncio.get_running_loop()
        self._expected = min(answered + len(self._waiting), self._most)
        self._pause = loop.call_later(min(PATIENCE * (loop.time() - self._began), LONGEST), self._start)

    def _answer(self, questions: Sequence[Q]) -> Sequence[A | Exception]:
        try:
            return self._answer_many(questions)
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the one who asked
            if len(questions) == 1:
                return [error]
        return [self._answer([question])[0] for question in questions]
