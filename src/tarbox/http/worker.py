"""A worker: accepts connections from the socket that all of them share, and serves them (ADR 56).

It shows on the board that it is alive, and gives the supervisor a copy of each connection. When the supervisor is gone
it finishes what it has begun, and ends.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, final

import uvicorn

from tarbox.core.errors import TarboxError
from tarbox.http.app import create_app
from tarbox.http.board import IDLE, Board
from tarbox.http.guard import Guard
from tarbox.http.metrics import Metrics
from tarbox.http.server import Connection, make_config
from tarbox.http.settings import Bounds, ServerSettings
from tarbox.http.supervisor import ADOPTED, CLOSED, FAILED, LOG_FORMAT, OPENED, READY, SLOT
from tarbox.service.answering import open_answerer
from tarbox.version import __version__

SWITCH: Final = 0.0005
"""Seconds after which the thread that answers lets the one that talks to clients go on; Python's own are ten times."""
_BEAT: Final = 0.25
_POLITE: Final = 0.002
"""Seconds that a worker leaves a new connection to those with fewer."""


def main(told: dict[str, Any]) -> None:
    """Serves as the supervisor says, until that is gone or says otherwise."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = ServerSettings(**{**told["settings"], "bounds": Bounds(**told["settings"]["bounds"])})
    logging.basicConfig(level=settings.log_level.upper(), format=LOG_FORMAT)
    listener, channel = (socket.socket(fileno=number) for number in told["descriptors"][:2])
    board, row = Board(told["descriptors"][2], settings.workers, settings.slots), int(told["row"])
    try:
        answerer = open_answerer(told["source"])
        app = create_app(answerer, settings, Metrics(__version__, Path(told["folder"]), row, board))
    except TarboxError as error:
        channel.send(FAILED + str(error).encode()[:4_000])
        return
    gc.collect()
    gc.freeze()  # what is loaded stays: no need to look through it again and again
    sys.setswitchinterval(SWITCH)
    for each in (channel, listener):  # another worker may have taken the connection already
        each.setblocking(False)
    WorkerServer(app, settings, listener, channel, (board, row), answerer.kb.title).run()


@final
class WorkerServer(uvicorn.Server):
    """A server that accepts by itself, in fair shares with the other workers."""

    def __init__(
        self,
        app: Guard,
        settings: ServerSettings,
        listener: socket.socket,
        channel: socket.socket,
        place: tuple[Board, int],
        title: str,
    ) -> None:
        super().__init__(make_config(app, settings, app.metrics, self))
        self._app, self._listener, self._channel, self._title = app, listener, channel, title
        self._board, self._row = place
        self._free = list(range(self._board.slots))
        self._sockets: dict[int, socket.socket] = {}
        self._ticks = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        await super().startup(sockets=[])
        loop = asyncio.get_running_loop()
        loop.add_reader(self._listener.fileno(), self._accept)
        loop.add_reader(self._channel.fileno(), self._hear)
        self._beat()
        try:
            self._channel.send(READY + self._title.encode()[:1_000])
        except OSError:  # the supervisor is gone
            self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener.fileno())
        loop.remove_reader(self._channel.fileno())
        self._listener.close()
        await super().shutdown(sockets=[])
        self._app.metrics.save()

    def _beat(self) -> None:
        """Shows that this process moves; one whose threads are stuck does not say so, and is replaced."""
        if not self._app.dispatcher.is_stuck():
            self._board.beats[self._row] += 1
        self._ticks += 1
        if self._ticks % 4 == 0:
            self._app.metrics.save()
        asyncio.get_running_loop().call_later(_BEAT, self._beat)

    def _accept(self) -> None:
        """Takes a connection; where others have fewer, only what they leave."""
        loop, open_ = asyncio.get_running_loop(), self._board.open
        if open_[self._row] <= min(open_[row] for row in self._board.ready()):
            self._take()
            return
        loop.remove_reader(self._listener.fileno())
        loop.call_later(_POLITE, self._take_what_is_left)

    def _take_what_is_left(self) -> None:
        if self._listener.fileno() >= 0 and not self.should_exit:
            self._take()
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept)

    def _take(self) -> None:
        with suppress(OSError):
            self._open(self._listener.accept()[0], OPENED)

    def _hear(self) -> None:
        """Takes a connection that another worker has left; without a supervisor, there is nothing more to do."""
        try:
            said, descriptors, *_ = socket.recv_fds(self._channel, 64, 1)
        except BlockingIOError:
            return
        except OSError:
            said, descriptors = b"", []
        if descriptors:
            self._open(socket.socket(fileno=descriptors[0]), ADOPTED)
        if not said:
            asyncio.get_running_loop().remove_reader(self._channel.fileno())
            self.should_exit = True

    def _open(self, connection: socket.socket, kind: bytes) -> None:
        if not self._free:
            connection.close()
            return
        connection.setblocking(False)
        slot = self._free.pop()
        self._board.states[self._row, slot] = IDLE
        self._board.open[self._row] += 1
        self._sockets[slot] = connection
        with suppress(OSError):  # the supervisor does not listen: it will not miss what it does not have
            socket.send_fds(self._channel, [SLOT.pack(kind, slot)], [connection.fileno()])
        loop = asyncio.get_running_loop()
        task: asyncio.Task[Any] = loop.create_task(
            loop.connect_accepted_socket(lambda: self._connect(slot), connection)
        )
        self.server_state.tasks.add(task)
        task.add_done_callback(self.server_state.tasks.discard)

    def _connect(self, slot: int) -> Connection:
        made: Any = self.config.http_protocol_class
        connection: Connection = made(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state, slot=slot
        )
        return connection

    def mark(self, slot: int, state: int) -> None:
        """Shows what becomes of a request."""
        self._board.states[self._row, slot] = state

    def release(self, slot: int) -> None:
        """Ends a connection, of which the supervisor has a copy."""
        with suppress(OSError):
            self._sockets.pop(slot).shutdown(socket.SHUT_RDWR)
        self._board.open[self._row] -= 1
        self._free.append(slot)
        with suppress(OSError):
            self._channel.send(SLOT.pack(CLOSED, slot))


if __name__ == "__main__":
    main(json.loads(sys.stdin.buffer.read()))
