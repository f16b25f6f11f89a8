"""The server around the application: connections with deadlines, and workers that accept by themselves (ADR 56).

A worker shows on the board that it is alive, and gives the supervisor a copy of each connection. When the supervisor is
gone it finishes what it has begun, and ends.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, final

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tarbox.core.errors import TarboxError
from tarbox.http import supervisor
from tarbox.http.app import create_app
from tarbox.http.guard import Guard
from tarbox.http.metrics import Metrics
from tarbox.http.problems import problem_bytes
from tarbox.http.settings import Bounds, ServerSettings
from tarbox.service.answering import open_answerer

GRACE: Final = 10
KEEP_ALIVE: Final = 15
SWITCH: Final = 0.0005
"""Seconds after which the thread that answers lets the one that talks to clients go on; Python's own are ten times."""
_POLITE: Final = 0.002
"""Seconds that a worker leaves a new connection to those with fewer."""
Sockets = tuple[socket.socket, socket.socket]
Place = tuple[supervisor.Board, int]


class Server(uvicorn.Server):
    """Serves the application; connections are looked through ten times a second for those that are late."""

    retiring = False

    def __init__(self, app: Guard, settings: ServerSettings) -> None:
        self.app, self.settings = app, settings

        def connection(*arguments: Any, **named: Any) -> asyncio.Protocol:
            return Connection(self, *arguments, **named)

        config = uvicorn.Config(
            app,
            http=connection,  # type: ignore[arg-type]  # uvicorn calls it, as it would the class
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="error",  # what clients do wrong is in their replies: they could fill a log with it
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=GRACE,
        )
        super().__init__(config)

    async def on_tick(self, counter: int) -> bool:
        late = asyncio.get_running_loop().time() - self.settings.bounds.reading
        for connection in [each for each in self.server_state.connections if isinstance(each, Connection)]:
            connection.cut_off(late)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        self.app.dispatcher.close()

    def mark(self, slot: int, state: int) -> None:
        """Shows what becomes of a request; here nobody looks."""

    def release(self, slot: int, is_left: bool) -> None:
        """Ends a connection, or leaves it to another worker."""


@final
class Connection(HttpToolsProtocol):
    """uvicorn's connection with deadlines of its own.

    uvicorn waits for ever for the head of a request and for a client that does not read; here each has
    `bounds.reading` seconds, however the bytes trickle. A head has `bounds.head` bytes at most.
    """

    def __init__(self, server: Server, *arguments: Any, slot: int = 0, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._owner, self._bounds, self._slot = server, server.settings.bounds, slot
        self._head, self._begun, self._is_left = 0, False, False
        self._awaited: float | None = None
        self._stalled: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._awaited = self.loop.time()
        if len(self.connections) > self._bounds.connections:
            self._refuse("busy", "The server has too many connections. Ask again soon.", {"Retry-After": "1"})

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._owner.mark(self._slot, supervisor.WAITING)
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # a head is complete
            self._head, self._awaited = 0, None
            return
        self._head += len(data)
        self._awaited = self._awaited or self.loop.time()
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
        self._stalled = self._stalled or self.loop.time()

    def resume_writing(self) -> None:
        self._stalled = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        self._refuse("http", msg)

    def cut_off(self, late: float) -> None:
        """Ends this where a head is awaited, or a reply not taken, since before a time."""
        if self._stalled is not None and self._stalled < late:
            self.transport.abort()
        elif self._awaited is not None and self._awaited < late:
            self._refuse("slow-request", f"The request did not arrive within {self._bounds.reading:g} seconds.")

    def _refuse_head(self) -> None:
        self._refuse("head-too-large", f"The address and the header may have {self._bounds.head:,} bytes.")

    def _refuse(self, kind: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        """Replies before there is a request for the application, and closes."""
        if self.transport.is_closing():
            return
        self._owner.app.metrics.note_refusal(kind)
        self.transport.write(problem_bytes(kind, detail, self._owner.settings.origins, headers))
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
    place = supervisor.Board(told["descriptors"][2], settings.workers, settings.slots), int(told["row"])
    try:
        answerer = open_answerer(told["source"])
        app = create_app(answerer, settings, Metrics(Path(told["folder"]), *place))
    except TarboxError as error:
        channel.send(supervisor.FAILED + str(error).encode()[:4_000])
        return
    gc.collect()
    gc.freeze()  # what is loaded stays: no need to look through it again and again
    sys.setswitchinterval(SWITCH)
    for each in (channel, listener):  # another worker may have taken the connection already
        each.setblocking(False)
    Worker(app, settings, (listener, channel), place).run()


@final
class Worker(Server):
    """A server that accepts by itself, in fair shares with the other workers."""

    def __init__(self, app: Guard, settings: ServerSettings, sockets: Sockets, place: Place) -> None:
        super().__init__(app, settings)
        self._listener, self._channel = sockets
        self._serving, self._asking = False, list[asyncio.Future[bytes]]()
        self._board, self._row = place
        self._free = list(range(self._board.slots))
        self._sockets: dict[int, socket.socket] = {}

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        await super().startup(sockets=[])
        asyncio.get_running_loop().add_reader(self._channel.fileno(), self._hear)
        self.lifespan.state["reload"] = self._reload
        kb = self.app.dispatcher.kb
        try:
            self._channel.send(supervisor.READY + "\n".join((kb.title[:1_000], kb.version, kb.built)).encode())
        except OSError:  # the supervisor is gone
            self.should_exit = True

    def _begin(self) -> None:
        self._serving = True
        self._board.beats[self._row] += 1
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept)

    def _retire(self) -> None:
        self.retiring, self._serving = True, False
        asyncio.get_running_loop().remove_reader(self._listener.fileno())
        self._leave()
        self._board.beats[self._row] = 0

    def _leave(self) -> None:
        """Leaves the connections where nobody waits; when all are gone, there is nothing more to do."""
        for connection in [each for each in self.server_state.connections if isinstance(each, Connection)]:
            connection.leave()
        self.should_exit = not self._sockets

    async def _reload(self) -> bytes:
        """Has the facts read anew, and tells what came of it."""
        self._asking.append(asyncio.get_running_loop().create_future())
        self._channel.send(supervisor.RELOAD)
        return await self._asking[-1]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener.fileno())
        loop.remove_reader(self._channel.fileno())
        self._listener.close()
        await super().shutdown(sockets=[])
        self.app.metrics.save()

    async def on_tick(self, counter: int) -> bool:
        """Shows that this process moves; one whose threads are stuck does not say so, and is replaced."""
        if self._serving and not self.app.dispatcher.is_stuck():
            self._board.beats[self._row] += 1
        if self.retiring:
            self._leave()
        if counter % 10 == 0:
            self.app.metrics.save()
        return await super().on_tick(counter)

    def _accept(self, waited: bool = False) -> None:
        """Takes a connection; where others have fewer, only what they leave for a moment."""
        loop, open_, listener = asyncio.get_running_loop(), self._board.open, self._listener.fileno()
        if not self._serving or self.should_exit:
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
        try:
            said, descriptors, *_ = socket.recv_fds(self._channel, 8_192, 1)
        except BlockingIOError:
            return
        except OSError:
            said, descriptors = b"", []
        if descriptors:
            self._open(socket.socket(fileno=descriptors[0]), supervisor.ADOPTED)
        if said[:1] in (supervisor.DONE, supervisor.FAILED):
            for asking in self._asking:
                if not asking.done():
                    asking.set_result(said)
            self._asking.clear()
        elif said in (supervisor.GO, supervisor.RETIRE):
            self._begin() if said == supervisor.GO else self._retire()
        if not said:
            asyncio.get_running_loop().remove_reader(self._channel.fileno())
            self.should_exit = True

    def _open(self, connection: socket.socket, kind: bytes) -> None:
        if not self._free:
            connection.close()
            return
        connection.setblocking(False)
        slot = self._free.pop()
        self.mark(slot, supervisor.IDLE)
        self._board.open[self._row] += 1
        self._sockets[slot] = connection
        with suppress(OSError):  # the supervisor does not listen: it will not miss what it does not have
            socket.send_fds(self._channel, [supervisor.SLOT.pack(kind, slot)], [connection.fileno()])

        def connect() -> Connection:
            shared = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
            return Connection(self, slot=slot, **shared)

        loop = asyncio.get_running_loop()
        task: asyncio.Task[Any] = loop.create_task(loop.connect_accepted_socket(connect, connection))
        self.server_state.tasks.add(task)
        task.add_done_callback(self.server_state.tasks.discard)

    def mark(self, slot: int, state: int) -> None:
        self._board.states[self._row, slot] = state

    def release(self, slot: int, is_left: bool) -> None:
        connection = self._sockets.pop(slot)
        if not is_left:
            with suppress(OSError):  # the supervisor has a copy
                connection.shutdown(socket.SHUT_RDWR)
        self._board.open[self._row] -= 1
        self._free.append(slot)
        with suppress(OSError):
            self._channel.send(supervisor.SLOT.pack(supervisor.LEFT if is_left else supervisor.CLOSED, slot))


if __name__ == "__main__":
    main(json.loads(sys.stdin.buffer.read()))
