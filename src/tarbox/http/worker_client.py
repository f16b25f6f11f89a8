"""The server's end of the process that answers (`tarbox.http.answering_process`)."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast, final

from tarbox.core.errors import Overloaded, TarboxError
from tarbox.http.replies import Asked
from tarbox.http.settings import Bounds
from tarbox.http.wire import Frames, ReplyOrError, read_replies, write_questions

MODULE: Final = "tarbox.http.answering_process"
ONE_THREAD: Final = {"OMP_NUM_THREADS": "1"}
"""Unless the user says otherwise: threads of linear algebra that wait by spinning would take the server's processor."""


def is_worthwhile() -> bool:
    """Whether a second process has a processor of its own to run on, and can be given a socket."""
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1


@contextmanager
def launch(source: Path, bounds: Bounds) -> Iterator[WorkerClient]:
    """A process that loads the run or store and then answers, as long as the context lasts."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        # -P: as for the server itself, what lies in the working folder is not imported
        command = [sys.executable, "-P", "-m", MODULE, str(theirs.fileno()), str(source), str(bounds.query)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={**ONE_THREAD, **os.environ},
        )
        theirs.close()
        try:
            yield WorkerClient(ours, process.pid)
        finally:
            process.kill()  # it only reads, and by now nobody waits for it
            process.wait()


@final
class WorkerClient(asyncio.Protocol):
    """Asks the other process. Questions that come in one turn of the event loop are sent together.

    `is_ready` from when the other has loaded everything until it is lost: before and after, others must answer.
    """

    def __init__(self, connection: socket.socket, process: int) -> None:
        self.process = process
        self.is_ready = False
        self._connection = connection
        self._transport: asyncio.WriteTransport | None = None
        self._frames = Frames()
        self._report: Callable[[int], None] = lambda _: None
        self._number = 0
        self._pending: dict[int, asyncio.Future[ReplyOrError]] = {}
        self._unsent: list[tuple[int, Asked]] = []
        self._forgotten: list[int] = []
        self._late = False

    async def open(self, report: Callable[[int], None]) -> None:
        """Begins to listen; `report` hears how many were answered by each call."""
        self._report = report
        await asyncio.get_running_loop().create_connection(lambda: self, sock=self._connection)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def ask(self, asked: Asked) -> bytes:
        """The reply; raises what is wrong with the question.

        Who gives up before their turn is not asked for. Raises `Overloaded` after someone has given up until the other
        process is heard of again: it is at work on something that takes too long, and cannot be interrupted.
        """
        if self._late:
            raise Overloaded("The server is still at work on a question that took too long. Ask again soon.")
        loop = asyncio.get_running_loop()
        self._number += 1
        number = self._number
        future: asyncio.Future[ReplyOrError] = loop.create_future()
        self._pending[number] = future
        if not self._unsent:
            loop.call_soon(self._send)
        self._unsent.append((number, asked))
        try:
            outcome = await future
        except asyncio.CancelledError:
            self._give_up(number)
            raise
        if isinstance(outcome, TarboxError):
            raise outcome
        return outcome

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's are of no class of asyncio's

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            self.is_ready, self._late = True, False
            replies = read_replies(*frame)
            if replies:
                self._report(len(replies))
            for number, outcome in replies:
                self._settle(number, outcome)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - however it came about
        self.is_ready = self._late = False
        self._unsent.clear()
        for number in list(self._pending):
            self._settle(number, Overloaded("The process that answers has ended. Ask again."))

    def _send(self) -> None:
        if self._transport is not None and (self._unsent or self._forgotten):
            self._transport.write(write_questions(self._unsent, self._forgotten))
        self._unsent.clear()
        self._forgotten.clear()

    def _give_up(self, number: int) -> None:
        if self._pending.pop(number, None) is None:
            return
        waiting = [each for each in self._unsent if each[0] != number]
        if len(waiting) < len(self._unsent):
            self._unsent[:] = waiting
            return
        self._forgotten.append(number)
        self._late = True  # until the other says that it has heard
        self._send()

    def _settle(self, number: int, outcome: ReplyOrError) -> None:
        future = self._pending.pop(number, None)
        if future is not None and not future.done():
            future.set_result(outcome)
