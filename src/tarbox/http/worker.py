"""The server around the application: connections with deadlines, that it accepts by itself (ADR 44).

As a worker among others it shows on the board that it is alive, and gives the supervisor a copy of each connection.
When the supervisor is gone it finishes what it has begun, and ends.
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
from functools import partial
from typing import Any, Final, final

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tarbox.core.errors import StoreError, TarboxError
from tarbox.http import supervisor
from tarbox.http.app import create_app
from tarbox.http.guard import Guard
from tarbox.http.metrics import Metrics
from tarbox.http.problems import problem_bytes
from tarbox.http.settings import Bounds, ServerSettings
from tarbox.service.answering import open_answerer
from tarbox.service.overview import FactsVersion

GRACE: Final = 10
KEEP_ALIVE: Final = 15
SWITCH: Final = 0.0005
"""Seconds after which the thread that answers lets the one that talks to clients go on; Python's own are ten times."""
_GLANCE: Final = 0.02  # seconds between two looks at the board
_POLITE: Final = 0.002
"""Seconds that a worker leaves a new connection to those with fewer."""


@final
class Server(uvicorn.Server):
    """Serves the application, in fair shares with the other workers. Without a `channel` to a supervisor there are no
    others, and nobody watches it."""

    def __init__(self, app: Guard, listener: socket.socket, channel: socket.socket | None = None) -> None:
        config = uvicorn.Config(
            app,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # what clients do wrong is in their replies: they could fill a log with it
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=GRACE,
        )
        super().__init__(config)
        self.app, self.settings, self.retiring = app, app.settings, False
        self._listener, self._channel = listener, channel
        self._board, self._row = app.metrics.board, app.metrics.row
        self._sockets: dict[int, socket.socket] = {}

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        await super().startup(sockets=[])
        self._listener.setblocking(False)  # another worker may have taken the connection already
        if self._channel is None:
            self._begin()
            return
        self._channel.setblocking(False)
        loop, kb = asyncio.get_running_loop(), self.app.dispatcher.kb
        loop.add_reader(self._channel.fileno(), self._hear)
        self._verdict: asyncio.Future[bytes] = loop.create_future()
        self.lifespan.state["reload"] = self._reload
        self._tell(supervisor.READY + "\n".join((kb.title[:1_000], kb.version, kb.built)).encode())

    def _tell(self, message: bytes, *connections: int) -> None:
        """Tells the supervisor; one that does not listen will not miss what it does not have."""
        if self._channel is not None:
            with suppress(OSError):
                socket.send_fds(self._channel, [message], connections)

    def _begin(self) -> None:
        self._board.beats[self._row] = 1
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept)

    def _retire(self) -> None:
        self.retiring = True
        asyncio.get_running_loop().remove_reader(self._listener.fileno())
        self._look_through()
        self._board.beats[self._row] = 0

    def _look_through(self) -> None:
        """Ends connections that are late; who retires leaves those where nobody waits, and ends after the last."""
        late = asyncio.get_running_loop().time() - self.settings.bounds.reading
        for connection in [each for each in self.server_state.connections if isinstance(each, Connection)]:
            connection.cut_off(late)
            if self.retiring:
                connection.leave()
        self.should_exit |= self.retiring and not self._sockets

    async def _reload(self) -> FactsVersion:
        """Has the facts read anew; which these are, once no old worker serves any more."""
        self._tell(supervisor.RELOAD)
        said = (await asyncio.shield(self._verdict)).decode()
        if said.startswith(supervisor.FAILED.decode()):
            raise StoreError(said[1:])
        workers = self._board.workers
        while any(self._board.beats[self._row // workers * workers :][:workers]):
            await asyncio.sleep(_GLANCE)
        return FactsVersion(*said.split("\n")[1:])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener.fileno())
        self._listener.close()
        if self._channel is not None:
            loop.remove_reader(self._channel.fileno())
        await super().shutdown(sockets=[])
        self.app.dispatcher.close()

    async def on_tick(self, counter: int) -> bool:
        """Shows that this process moves; one whose threads are stuck does not say so, and is replaced."""
        if self._board.beats[self._row] and not self.app.dispatcher.is_stuck():
            self._board.beats[self._row] += 1
        self._look_through()
        self.app.metrics.note_moment()
        return await super().on_tick(counter)

    def _accept(self, waited: bool = False) -> None:
        """Takes a connection; where others have fewer, only what they leave for a moment."""
        loop, open_, listener = asyncio.get_running_loop(), self._board.open, self._listener.fileno()
        if self.retiring or self.should_exit:
            return
        if not waited and open_[self._row] > min(open_[row] for row in self._board.ready()):
            loop.remove_reader(listener)
            loop.call_later(_POLITE, self._accept, True)
            return
        with suppress(OSError):  # another has taken it
            self._open(self._listener.accept()[0], supervisor.OPENED)
        if waited:
            loop.add_reader(listener, self._accept)

    def _hear(self) -> None:
        """Takes a connection that another worker has left, and what the supervisor says; without one, there is nothing
        more to do."""
        assert self._channel is not None
        try:
            said, descriptors, *_ = socket.recv_fds(self._channel, 8_192, 1)
        except BlockingIOError:
            return
        except OSError:
            said, descriptors = b"", []
        if descriptors:
            self._open(socket.socket(fileno=descriptors[0]), supervisor.ADOPTED)
        if said[:1] in (supervisor.RETIRE, supervisor.FAILED):
            self._verdict.set_result(said)
            self._verdict = asyncio.get_running_loop().create_future()
        if said[:1] == supervisor.RETIRE:
            self._retire()
        elif said == supervisor.GO:
            self._begin()
        elif not said:
            asyncio.get_running_loop().remove_reader(self._channel.fileno())
            self.should_exit = True

    def _open(self, connection: socket.socket, kind: bytes) -> None:
        connection.setblocking(False)
        slot = next((slot for slot in range(self._board.slots) if slot not in self._sockets), None)
        if slot is None:
            with connection, suppress(OSError):
                connection.send(self.refusal("busy", "The server has too many connections. Ask again soon."))
            return
        self._sockets[slot] = connection
        self._board.open[self._row] = len(self._sockets)
        self.mark(slot, supervisor.IDLE)
        self._tell(supervisor.SLOT.pack(kind, slot), connection.fileno())
        loop = asyncio.get_running_loop()
        connecting = loop.connect_accepted_socket(partial(Connection, self, slot), connection)
        task: asyncio.Task[Any] = loop.create_task(connecting)
        self.server_state.tasks.add(task)
        task.add_done_callback(self.server_state.tasks.discard)

    def refusal(self, kind: str, detail: str) -> bytes:
        """The reply where there is no request for the application; the connection is to be closed."""
        self.app.metrics.refusals.labels(kind).inc()
        return problem_bytes(kind, detail, self.settings.origins)

    def mark(self, slot: int, state: int) -> None:
        """Shows what becomes of a request."""
        self._board.states[self._row, slot] = state

    def release(self, slot: int, is_left: bool) -> None:
        """Ends a connection, or leaves it to another worker."""
        connection = self._sockets.pop(slot)
        if not is_left:
            with suppress(OSError):  # the supervisor has a copy
                connection.shutdown(socket.SHUT_RDWR)
        self._board.open[self._row] = len(self._sockets)
        self._tell(supervisor.SLOT.pack(supervisor.LEFT if is_left else supervisor.CLOSED, slot))


@final
class Connection(HttpToolsProtocol):
    """uvicorn's connection with deadlines of its own.

    uvicorn waits for ever for the head of a request and for a client that does not read; here each has
    `bounds.reading` seconds, however the bytes trickle. A head has `bounds.head` bytes at most.
    """

    def __init__(self, server: Server, slot: int) -> None:
        super().__init__(server.config, server.server_state, server.lifespan.state)
        self._owner, self._bounds, self._slot = server, server.settings.bounds, slot
        self._head, self._begun, self._is_left = 0, False, False
        self._since: float | None = self.loop.time()  # when it began to wait for a head, or for a client to read

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._owner.mark(self._slot, supervisor.WAITING)
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # a head is complete
            self._head, self._since = 0, None
            return
        self._head += len(data)
        self._since = self._since or self.loop.time()
        if self._head > self._bounds.head:
            self._refuse_head()

    def on_headers_complete(self) -> None:
        """A head that came in one piece is measured here, one that comes bit by bit in `data_received`, too.

        The exception stops the parser, and ends up in `send_400_response`, which finds the connection closing.
        """
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > self._bounds.head:
            self._refuse_head()
            raise httptools.HttpParserError
        super().on_headers_complete()
        self.cycle.transport = WholeReply(self.cycle)  # type: ignore[assignment]  # what a reply needs of one

    def on_message_begin(self) -> None:
        self._begun = True
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._begun = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if not self.pipeline:
            is_sent = not self.transport.get_write_buffer_size()
            self._owner.mark(self._slot, supervisor.IDLE if is_sent else supervisor.SENDING)
        super().on_response_complete()
        if self._owner.retiring:
            self.loop.call_soon(self.leave)

    def leave(self) -> None:
        """Leaves this to another worker, where nobody waits, and nothing was read of a next request."""
        waits = self.cycle is not None and not self.cycle.response_complete
        if not (waits or self._begun or self.transport.is_closing() or self.transport.get_write_buffer_size()):
            self._is_left = True
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._owner.release(self._slot, self._is_left)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._owner.mark(self._slot, supervisor.SENDING)
        self._since = self._since or self.loop.time()

    def resume_writing(self) -> None:
        self._since = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        self._refuse("http", msg)

    def cut_off(self, late: float) -> None:
        """Ends this where a head is awaited, or a reply not taken, since before a time."""
        if self._since is not None and self._since < late:
            if self.flow.write_paused:
                self.transport.abort()
            self._refuse("slow-request", f"The request did not arrive within {self._bounds.reading:g} seconds.")

    def _refuse_head(self) -> None:
        self._refuse("head-too-large", f"The address and the header may have {self._bounds.head:,} bytes.")

    def _refuse(self, kind: str, detail: str) -> None:
        """Replies before there is a request for the application, and closes."""
        if not self.transport.is_closing():
            self.transport.write(self._owner.refusal(kind, detail))
            self.transport.close()


@final
class WholeReply:
    """What a reply is written to: its head goes out with its content, in one call of the system. A worker that is
    killed has sent both, or nothing, and then whoever waits can be told so. What exceeds the system's buffer can break.
    """

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle, self._transport = cycle, cycle.transport
        self.close, self.is_closing = cycle.transport.close, cycle.transport.is_closing
        self._head: bytes | None = None

    def write(self, data: bytes) -> None:
        if self._head is None and self._cycle.response_started and self._cycle.scope["method"] != "HEAD":
            self._head = data
            return
        self._transport.writelines([self._head or b"", data])
        self._head = self._head and b""


def main(told: dict[str, Any]) -> None:
    """Serves as the supervisor says, until that is gone or says otherwise."""
    for number in (signal.SIGINT, signal.SIGHUP):  # they are for the supervisor
        signal.signal(number, signal.SIG_IGN)
    settings = ServerSettings(**{**told["settings"], "bounds": Bounds(**told["settings"]["bounds"])})
    logging.basicConfig(level=settings.log_level.upper(), format=supervisor.LOG_FORMAT)
    listener, channel = (socket.socket(fileno=number) for number in told["descriptors"][:2])
    board = supervisor.Board(told["descriptors"][2], settings.workers, settings.bounds.connections)
    try:
        app = create_app(open_answerer(told["source"]), settings, Metrics(board, told["row"]))
    except TarboxError as error:
        channel.send(supervisor.FAILED + str(error).encode()[:4_000])
        return
    gc.collect()
    gc.freeze()  # what is loaded stays: no need to look through it again and again
    sys.setswitchinterval(SWITCH)
    Server(app, listener, channel).run()


if __name__ == "__main__":
    main(json.loads(sys.stdin.buffer.read()))
