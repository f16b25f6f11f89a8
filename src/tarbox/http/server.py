"""The server around the application: connections with deadlines, graceful shutdown."""

from __future__ import annotations

import asyncio
import json
import socket
from asyncio.events import TimerHandle
from typing import Any, Final, final

import httptools
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tarbox.core.errors import ConfigError
from tarbox.http.problems import PROBLEM_KINDS, PROBLEM_MEDIA_TYPE, PROBLEM_TYPE
from tarbox.http.settings import Bounds, ServerSettings

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


def make_server(app: ASGIApp, settings: ServerSettings) -> uvicorn.Server:
    """A server that is ready to run: `run()` serves until SIGINT or SIGTERM, then finishes what it has begun."""
    bounds = settings.bounds

    def protocol(*arguments: Any, **named: Any) -> asyncio.Protocol:
        return Connection(bounds, *arguments, **named)

    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=protocol,  # type: ignore[arg-type]  # uvicorn calls it, as it would the class
        ws="none",
        lifespan="on",
        log_level="error",  # what clients do wrong is in their replies: they could fill a log with it
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=True,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
    )
    return uvicorn.Server(config)


@final
class Connection(HttpToolsProtocol):
    """uvicorn's connection with deadlines of its own.

    uvicorn waits for ever for the head of a request and for a client that does not read; here each has
    `bounds.reading` seconds, however the bytes trickle. A head has `bounds.head` bytes at most.
    """

    def __init__(self, bounds: Bounds, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._bounds = bounds
        self._head = 0
        self._deadline: TimerHandle | None = None
        self._stalled: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._bounds.connections:
            self._refuse("busy", "The server has too many connections. Ask again soon.", "Retry-After: 1\r\n")
        else:
            self._deadline = self.loop.call_later(self._bounds.reading, self._expire)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
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

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        self.resume_writing()
        super().connection_lost(exc)

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

    def _refuse(self, kind: str, detail: str, more: str = "") -> None:
        """Replies before there is a request for the application, and closes."""
        if self.transport.is_closing():
            return
        status, title = PROBLEM_KINDS[kind]
        content = json.dumps({"type": PROBLEM_TYPE + kind, "title": title, "status": status, "detail": detail}).encode()
        head = f"HTTP/1.1 {status} {title}\r\nContent-Type: {PROBLEM_MEDIA_TYPE}\r\nContent-Length: {len(content)}\r\n"
        self.transport.write(f"{head}{more}Connection: close\r\n\r\n".encode() + content)
        self.transport.close()
