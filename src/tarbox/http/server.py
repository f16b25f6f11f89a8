"""The server around the application: connections with deadlines, graceful shutdown."""

from __future__ import annotations

import asyncio
import socket
from asyncio.events import TimerHandle
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, final

import httptools
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tarbox.core.errors import ConfigError
from tarbox.http.board import IDLE, SENDING, WAITING
from tarbox.http.guard import Guard
from tarbox.http.metrics import Metrics
from tarbox.http.problems import problem_bytes
from tarbox.http.settings import ServerSettings
from tarbox.service.answering import open_answerer

GRACE: Final = 10
KEEP_ALIVE: Final = 15


def bind(host: str, port: int, backlog: int = 1024) -> socket.socket:
    """A socket that listens already: clients that come while the server starts wait instead of failing."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=backlog)
    except OSError as error:
        advice = "Take another port with --port, or 0 for any that is free."
        raise ConfigError(f"cannot listen at {host}:{port}: {error.strerror or error}. {advice}") from error


class Line(Protocol):
    """Who is told what becomes of connections, by their slots."""

    def mark(self, slot: int, state: int) -> None: ...

    def release(self, slot: int) -> None: ...


def make_config(app: ASGIApp, settings: ServerSettings, metrics: Metrics, line: Line | None = None) -> uvicorn.Config:
    """How uvicorn serves the application; `line` hears of the connections."""

    def protocol(*arguments: Any, **named: Any) -> asyncio.Protocol:
        return Connection(settings, metrics, line, *arguments, **named)

    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=protocol,  # type: ignore[arg-type]  # uvicorn calls it, as it would the class
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",  # what clients do wrong is in their replies: they could fill a log with it
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=True,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
    )


def make_server(app: Guard, settings: ServerSettings) -> uvicorn.Server:
    """A server in this process: `run()` serves until SIGINT or SIGTERM, then finishes what it has begun."""
    return uvicorn.Server(make_config(app, settings, app.metrics))


@final
class Connection(HttpToolsProtocol):
    """uvicorn's connection with deadlines of its own.

    uvicorn waits for ever for the head of a request and for a client that does not read; here each has
    `bounds.reading` seconds, however the bytes trickle. A head has `bounds.head` bytes at most.
    """

    def __init__(
        self,
        settings: ServerSettings,
        metrics: Metrics,
        line: Line | None,
        *arguments: Any,
        slot: int = 0,
        **named: Any,
    ) -> None:
        super().__init__(*arguments, **named)
        self._bounds, self._origins = settings.bounds, settings.origins
        self._metrics, self._line, self._slot = metrics, line, slot
        self._head = 0
        self._deadline: TimerHandle | None = None
        self._stalled: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._bounds.connections:
            self._refuse("busy", "The server has too many connections. Ask again soon.", {"Retry-After": "1"})
        else:
            self._deadline = self.loop.call_later(self._bounds.reading, self._expire)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._line is not None:
            self._line.mark(self._slot, WAITING)
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # a head is complete
            self._head = 0
            self._cancel()
            return
        self._head += len(data)
        if self._head > self._bounds.head:
            self._refuse_head()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self._bounds.reading, self._expire)

    def on_headers_complete(self) -> None:
        """A head that came in one piece is measured here, one that comes bit by bit in `data_received`, too.

        The exception stops the parser, and ends up in `send_400_response`, which finds the connection closing.
        """
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > self._bounds.head:
            self._refuse_head()
            raise httptools.HttpParserError
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        if self._line is not None and not self.pipeline:
            self._line.mark(self._slot, SENDING if self.transport.get_write_buffer_size() else IDLE)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        self.resume_writing()
        super().connection_lost(exc)
        if self._line is not None:
            self._line.release(self._slot)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self._bounds.reading, self.transport.abort)

    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        self._refuse("http", msg)

    def _expire(self) -> None:
        self._deadline = None
        self._refuse("slow-request", f"The request did not arrive within {self._bounds.reading:g} seconds.")

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse_head(self) -> None:
        self._refuse("head-too-large", f"The address and the header may have {self._bounds.head:,} bytes.")

    def _refuse(self, kind: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        """Replies before there is a request for the application, and closes."""
        if self.transport.is_closing():
            return
        self._metrics.note_refusal(kind)
        self.transport.write(problem_bytes(kind, detail, self._origins, headers))
        self.transport.close()


def serve_here(source: Path, settings: ServerSettings, listener: socket.socket, report: Callable[[str], None]) -> None:
    """Serves in this process, until it is told to stop."""
    from tarbox.http.app import create_app

    answerer = open_answerer(source)
    server = make_server(create_app(answerer, settings), settings)
    report(answerer.kb.title)
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
