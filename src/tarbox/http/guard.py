"""What every request passes before and after its route: key, size, time, number, headers, counts.

A request is read whole before it takes a place among those that are worked on, and its reply is sent after it has
given the place back: a client that sends or reads slowly holds a connection, never a place.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import MutableMapping, Sequence
from typing import Any, Final, final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tarbox.http.metrics import Metrics
from tarbox.http.problems import problem
from tarbox.http.settings import ServerSettings

PROTECTED: Final = ("/api/", "/sparql", "/metrics")
_BODY: Final = frozenset([b"content-length", b"transfer-encoding"])
_CLOSE: Final = {"Connection": "close"}


@final
class Guard:
    """The outermost layer of the application; `headers` go with every reply that does not set them itself."""

    def __init__(
        self, app: ASGIApp, settings: ServerSettings, metrics: Metrics, headers: Sequence[tuple[str, str]]
    ) -> None:
        self._app = app
        self._settings = settings
        self._bounds = settings.bounds
        self._metrics = metrics
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers]
        self._names = frozenset(name for name, _ in self._headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        reply = _Reply()
        try:
            await self._handle(scope, receive, reply)
        finally:  # also where the route failed: the reply says so, and the server's log says why
            if not reply.messages:
                await problem("internal", "The server could not answer; its log says why.")(scope, receive, reply)
            self._finish(scope, reply, time.perf_counter() - began)
            for message in reply.messages:
                await send(message)

    async def _handle(self, scope: Scope, receive: Receive, reply: _Reply) -> None:
        told = _BODY.intersection([name for name, _ in scope["headers"]])
        refusal = self._refuse(scope) if told or self._settings.api_key is not None else None
        body = b""
        if refusal is None and told:
            try:
                async with asyncio.timeout(self._bounds.reading):
                    body, refusal = await self._read(receive)
            except TimeoutError:
                detail = f"The request did not arrive within {self._bounds.reading:g} seconds."
                refusal = problem("slow-request", detail, _CLOSE)
        if refusal is None and self._metrics.in_flight >= self._bounds.concurrent:
            detail = f"The server works on {self._bounds.concurrent:,} requests already, its limit. Ask again soon."
            refusal = problem("busy", detail, {"Retry-After": "1"})
        if refusal is not None:
            await refusal(scope, receive, reply)
            return
        self._metrics.in_flight += 1
        try:
            await self._work(scope, _Replay(body, receive), reply)
        finally:
            self._metrics.in_flight -= 1

    async def _work(self, scope: Scope, receive: _Replay, reply: _Reply) -> None:
        try:
            async with asyncio.timeout(self._bounds.seconds):
                await self._app(scope, receive, reply)
        except TimeoutError:
            reply.messages.clear()
            detail = f"The answer took more than {self._bounds.seconds:g} seconds, this server's limit. Ask for less."
            await problem("timeout", detail, {"Retry-After": "5"})(scope, receive, reply)

    def _refuse(self, scope: Scope) -> Response | None:
        """The reply to a request without the key, or that announces too large a body."""
        headers, key = Headers(scope=scope), self._settings.api_key
        guarded = scope["path"].startswith(PROTECTED) and scope["method"] != "OPTIONS"
        if key is not None and guarded and not _same(given_key(headers), key):
            detail = "Send the key in the header X-API-Key, or in Authorization as 'Bearer KEY'."
            return problem("unauthorised", detail, {"WWW-Authenticate": "Bearer", **_CLOSE})
        length = headers.get("content-length", "0")
        return self._too_large() if len(length) > 12 or int(length) > self._bounds.body else None

    async def _read(self, receive: Receive) -> tuple[bytes, Response | None]:
        """The body, or the reply where it is too large."""
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return b"", problem("slow-request", "The client went away.", _CLOSE)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._bounds.body:
                return b"", self._too_large()
            if not message.get("more_body", False):
                return b"".join(parts), None

    def _too_large(self) -> Response:
        return problem("body-too-large", f"A request body may have {self._bounds.body:,} bytes.", _CLOSE)

    def _finish(self, scope: Scope, reply: _Reply, seconds: float) -> None:
        start = reply.messages[0]
        given = list(start["headers"])
        own = self._names.intersection([name for name, _ in given])
        start["headers"] = given + (
            [header for header in self._headers if header[0] not in own] if own else self._headers
        )
        route = scope.get("tarbox.route") or getattr(scope.get("route"), "path", "other")
        self._metrics.note_request(str(route), start["status"], seconds)


def given_key(headers: Headers) -> str:
    """The key that a request carries; empty where it has none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")


def _same(given: str, key: str) -> bool:
    """Whether the keys are equal, in a time that does not tell how much of them is."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), key.encode())


@final
class _Reply:
    """Collects the messages of a reply."""

    def __init__(self) -> None:
        self.messages: list[MutableMapping[str, Any]] = []

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)


@final
class _Replay:
    """Gives a body that was read already; then waits, as the client does."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}
