"""Many who ask at once, one call that answers: a queue that collects what is waiting.

One thread answers; while it does, the event loop collects what comes in, and hands it over as the next batch as soon
as the thread is free. Nobody waits for a batch to fill: alone, a question goes through at once; under load, batches
grow by themselves. A batch crosses between the threads once in each direction, however many questions it has.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, TypeVar, final

Q = TypeVar("Q")
A = TypeVar("A")
MOST: Final = 64


@final
class Batcher(Generic[Q, A]):
    """Answers questions from an event loop by calls of `answer_many` in one thread; `report` hears each batch's size.

    Where a call fails, its questions are asked again one by one, so that each failure reaches the one who asked.

    >>> async def both() -> list[int]:
    ...     doubling = Batcher(lambda numbers: [2 * number for number in numbers])
    ...     return await asyncio.gather(doubling.ask(1), doubling.ask(2))
    >>> asyncio.run(both())
    [2, 4]
    """

    def __init__(
        self,
        answer_many: Callable[[Sequence[Q]], Sequence[A]],
        most: int = MOST,
        report: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._answer_many = answer_many
        self._most = most
        self._report = report
        self._waiting: deque[tuple[Q, asyncio.Future[A]]] = deque()
        self._busy = False
        self._thread = ThreadPoolExecutor(1, "tarbox-batches")

    async def ask(self, question: Q) -> A:
        """The answer; who is cancelled before their turn is not asked for."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[A] = loop.create_future()
        self._waiting.append((question, future))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._start)  # whoever asks in this turn of the loop comes along
        return await future

    def close(self) -> None:
        """Ends the thread, once it has answered what it has begun."""
        self._thread.shutdown()

    def _start(self) -> None:
        batch: list[tuple[Q, asyncio.Future[A]]] = []
        while self._waiting and len(batch) < self._most:
            question, future = self._waiting.popleft()
            if not future.done():
                batch.append((question, future))
        self._busy = bool(batch)
        if not batch:
            return
        self._report(len(batch))
        loop = asyncio.get_running_loop()
        answered = loop.run_in_executor(self._thread, self._answer, [question for question, _ in batch])
        answered.add_done_callback(lambda done: self._finish(batch, done.result()))

    def _finish(self, batch: Sequence[tuple[Q, asyncio.Future[A]]], answers: Sequence[A | Exception]) -> None:
        self._start()  # the thread goes on while the loop hands out what it found
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def _answer(self, questions: Sequence[Q]) -> Sequence[A | Exception]:
        try:
            return self._answer_many(questions)
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the one who asked
            if len(questions) == 1:
                return [error]
        return [self._answer([question])[0] for question in questions]
