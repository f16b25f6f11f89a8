"""A process of its own that answers, so that a server reads requests and sends replies on another processor meanwhile.

It takes all that wait, and answers those of one shape in one call: the shape of whoever has waited longest. Their
replies go out, and their next questions come in, while it works on the next shape; so it hardly ever waits for clients.
It reads only, and ends when the server does, however that ends: then its socket closes.
"""

from __future__ import annotations

import gc
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Final, TypeVar, final

from tarbox.core.errors import TarboxError
from tarbox.http.replies import Asked, Replies
from tarbox.http.settings import Bounds
from tarbox.http.wire import Frames, ReplyOrError, read_questions, write_replies
from tarbox.query.algebra import Query
from tarbox.service.answering import Question, open_answerer, warm_up

T = TypeVar("T")
R = TypeVar("R")
MOST_AT_ONCE: Final = 64
_PIECE: Final = 1 << 18


def main(descriptor: int, path: str, query: int) -> None:
    """Answers from the run or store at `path` at the other end of a socket, until that closes."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the server is told too, and ends this process in good time
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=descriptor) as connection:
        try:
            answerer = open_answerer(path)
            warm_up(answerer)
        except TarboxError:  # the server finds the same, and says so
            return
        gc.collect()
        gc.freeze()  # what is loaded stays: no need to look through it again and again
        worker = Worker(Replies(answerer, Bounds(query=query)))
        # In the main thread torch would share its work among threads, which wait for each other on a busy machine.
        thread = threading.Thread(target=serve, args=(connection, worker))
        thread.start()
        thread.join()


def serve(connection: socket.socket, worker: Worker) -> None:
    """Answers until the other end is closed; the first frame, of no replies, says that everything is ready."""
    frames = Frames()
    try:
        connection.sendall(write_replies([]))
        while True:
            try:
                data = connection.recv(_PIECE, socket.MSG_DONTWAIT if worker.has_work else 0)
            except BlockingIOError:
                data = None
            if data == b"":
                return
            told = False
            for head, _ in frames.feed(data or b""):
                told = worker.take(*read_questions(head)) or told
            outcomes = worker.work()
            if outcomes or told:
                connection.sendall(write_replies(outcomes))
    except (BrokenPipeError, ConnectionResetError):
        return


@final
class Worker:
    """The questions that wait, by shape."""

    def __init__(self, replies: Replies) -> None:
        self._replies = replies
        self._shapes: dict[Query, dict[int, tuple[Asked, Question]]] = {}  # that of the longest waiting first
        self._wrong: list[tuple[int, ReplyOrError]] = []

    @property
    def has_work(self) -> bool:
        return bool(self._shapes)

    def take(self, asked: Sequence[tuple[int, Asked]], forgotten: Sequence[int]) -> bool:
        """Sorts new questions, and drops those given up; returns whether there were any of these."""
        for number, each in asked:
            outcome = guarded(self._replies.sort, each)
            if isinstance(outcome, TarboxError):
                self._wrong.append((number, outcome))
            else:
                shape, question = outcome
                self._shapes.setdefault(shape, {})[number] = each, question
        for number in forgotten:
            for shape in [shape for shape, waiting in self._shapes.items() if number in waiting]:
                del self._shapes[shape][number]
                if not self._shapes[shape]:
                    del self._shapes[shape]
        return bool(forgotten)

    def work(self) -> list[tuple[int, ReplyOrError]]:
        """Replies to what could not be read, and to those of the shape that has waited longest."""
        outcomes, self._wrong = self._wrong, []
        if not self._shapes:
            return outcomes
        shape = next(iter(self._shapes))
        waiting = list(self._shapes.pop(shape).items())
        if len(waiting) > MOST_AT_ONCE:
            self._shapes[shape] = dict(waiting[MOST_AT_ONCE:])
        numbers, batch = zip(*waiting[:MOST_AT_ONCE], strict=True)
        return outcomes + list(zip(numbers, self._answer(batch), strict=True))

    def _answer(self, batch: Sequence[tuple[Asked, Question]]) -> Sequence[ReplyOrError]:
        """Where a call fails, each is asked alone, so that the failure reaches the one who asked."""
        outcome = guarded(self._replies.answer, batch)
        if not isinstance(outcome, TarboxError):
            return outcome
        return [outcome] if len(batch) == 1 else [self._answer([each])[0] for each in batch]


def guarded(function: Callable[[T], R], argument: T) -> R | TarboxError:
    """What a function returns, or the error that it raises; the log has what nobody foresaw."""
    try:
        return function(argument)
    except TarboxError as error:
        return error
    except Exception as error:  # noqa: BLE001 - whatever it is, the others must be answered
        traceback.print_exc()
        return TarboxError(str(error))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
