"""What every request passes before and after its route: name, key, size, time, place, headers, counts.

A request is read whole before it takes a place among those that are worked on, and its reply is sent after it has
given the place back: a client that sends or reads slowly holds a connection, never a place. Above the number of places
requests wait for a short time, and clients take turns.
"""

from __future__ import annotations

import asyncio
import gzip
import hmac
import logging
import time
from collections import deque
from collections.abc import MutableMapping, Sequence
from hashlib import blake2b
from typing import Any, Final, final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tarbox.http.dispatcher import Dispatcher
from tarbox.http.metrics import Metrics
from tarbox.http.problems import PROBLEM_OF, problem
from tarbox.http.settings import ServerSettings

PROTECTED: Final = ("/api/", "/sparql", "/metrics")
TAGGED: Final = ("/api/", "/sparql")
"""What depends on the request and the knowledge base alone: a client that has the reply need not get it again."""
UNQUEUED: Final = frozenset(["/health", "/ready", "/metrics"])
EXPOSED: Final = b"ETag, Retry-After, WWW-Authenticate, X-Total-Count"
PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "GET, HEAD, OPTIONS, POST",
    "Access-Control-Allow-Headers": "Accept, Authorization, Content-Type, If-None-Match, X-API-Key",
    "Access-Control-Max-Age": "600",
}
_BODY: Final = frozenset([b"content-length", b"transfer-encoding"])
_CLOSE: Final = {"Connection": "close"}
_COMPRESSED: Final = 1_400
_LARGE: Final = 1 << 19
_TEXT: Final = (b"text/", b"application/json", b"application/problem", b"application/sparql", b"application/rdf",
                b"application/n-triples", b"application/ld", b"image/svg")  # fmt: skip
access = logging.getLogger("tarbox.access")


@final
class Guard:
    """The outermost layer of the application; `headers` go with every reply that does not set them itself."""

    def __init__(
        self, app: ASGIApp, settings: ServerSettings, dispatcher: Dispatcher, headers: Sequence[tuple[str, str]]
    ) -> None:
        self.dispatcher, self.metrics = dispatcher, dispatcher.metrics
        self._app = app
        self._settings = settings
        self._bounds = settings.bounds
        self._hosts = settings.accepted_hosts()
        self._places = Places(settings, self.metrics)
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        reply, headers = _Reply(), Headers(scope=scope)
        try:
            await self._handle(scope, headers, receive, reply)
        except Exception:
            logging.getLogger("tarbox.http").exception("a mistake at %s", _shown(scope))
            reply.messages.clear()
            await problem("internal", "The server could not answer; its log says why.")(scope, receive, reply)
        await self._finish(scope, headers, reply)
        status, seconds = reply.messages[0]["status"], time.perf_counter() - began
        route = scope.get("tarbox.route") or getattr(scope.get("route"), "path", "other")
        self.metrics.note_request(str(route), status, seconds)
        if PROBLEM_OF in scope:
            self.metrics.note_refusal(scope[PROBLEM_OF])
        if access.isEnabledFor(logging.INFO):
            asked = _client(scope), scope["method"], _shown(scope)
            access.info('%s "%s %s" %d %.1f ms', *asked, status, seconds * 1_000)
        for message in reply.messages:
            await send(message)

    async def _handle(self, scope: Scope, headers: Headers, receive: Receive, reply: _Reply) -> None:
        refusal, body = self._refuse(scope, headers), b""
        if refusal is None and _BODY.intersection([name for name, _ in scope["headers"]]):
            try:
                async with asyncio.timeout(self._bounds.reading):
                    body, refusal = await self._read(receive)
            except TimeoutError:
                detail = f"The request did not arrive within {self._bounds.reading:g} seconds."
                refusal = problem("slow-request", detail, _CLOSE)
        if refusal is None:
            refusal = self._remembered(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, reply)
        elif scope["path"] in UNQUEUED:
            await self._work(scope, _Replay(body, receive), reply)
        elif await self._places.take(_client(scope)):
            try:
                await self._work(scope, _Replay(body, receive), reply)
            finally:
                self._places.give_back()
        else:
            detail = f"The server works on {self._bounds.concurrent:,} requests already, its limit. Ask again soon."
            await problem("busy", detail, {"Retry-After": "1"})(scope, receive, reply)

    async def _work(self, scope: Scope, receive: _Replay, reply: _Reply) -> None:
        try:
            async with asyncio.timeout(self._bounds.seconds):
                await self._app(scope, receive, reply)
        except TimeoutError:
            reply.messages.clear()
            detail = f"The answer took more than {self._bounds.seconds:g} seconds, this server's limit. Ask for less."
            await problem("timeout", detail, {"Retry-After": "5"})(scope, receive, reply)

    def _refuse(self, scope: Scope, headers: Headers) -> Response | None:
        """The reply to a preflight, and to a request for another host, without the key, or with too large a body."""
        preflight = scope["method"] == "OPTIONS" and "access-control-request-method" in headers
        if preflight and self._allowed(headers) is not None:
            return Response(status_code=204, headers=PREFLIGHT)
        host = headers.get("host", "")
        name = (host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]).lower()
        if self._hosts is not None and name not in self._hosts:
            return problem("host", f"This server is not called {name!r}; --allow-host gives it a name.", _CLOSE)
        key = self._settings.api_key
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

    def _remembered(self, scope: Scope, headers: Headers) -> Response | None:
        """304 where the client has the reply already: it is the same for the same request, as long as this serves."""
        if scope["method"] not in ("GET", "HEAD") or not scope["path"].startswith(TAGGED):
            return None
        asked = b"\n".join([scope["raw_path"], scope["query_string"], headers.get("accept", "").encode()])
        scope["tarbox.tag"] = tag = f'W/"{self._settings.tag}-{blake2b(asked, digest_size=8).hexdigest()}"'
        return Response(status_code=304) if tag in headers.get("if-none-match", "") else None

    def _allowed(self, headers: Headers) -> str | None:
        """The origin that may read the reply."""
        origin = headers.get("origin")
        return origin if origin and {"*", origin}.intersection(self._settings.origins) else None

    async def _finish(self, scope: Scope, headers: Headers, reply: _Reply) -> None:
        """Adds the headers that every reply has, and packs what is long."""
        start = reply.messages[0]
        tagged = "tarbox.tag" in scope and start["status"] in (200, 304)
        own = {name for name, _ in start["headers"]} | ({b"cache-control"} if tagged else set())
        added = [header for header in self._headers if header[0] not in own]
        if tagged:
            added += [(b"etag", scope["tarbox.tag"].encode()), (b"cache-control", b"private, no-cache")]
        if (origin := self._allowed(headers)) is not None:
            added += [(b"access-control-allow-origin", origin.encode()), (b"access-control-expose-headers", EXPOSED)]
        added.append((b"vary", b"Accept, Accept-Encoding, Origin"))
        start["headers"] = [*start["headers"], *added]
        if "gzip" in headers.get("accept-encoding", "") and len(reply.messages) == 2:
            await _pack(start, reply.messages[1])


async def _pack(start: MutableMapping[str, Any], content: MutableMapping[str, Any]) -> None:
    """Compresses a text that is worth it; a long one in a thread, so that others are served meanwhile."""
    body, kept = content.get("body", b""), dict(start["headers"])
    if len(body) < _COMPRESSED or b"content-encoding" in kept or not kept.get(b"content-type", b"").startswith(_TEXT):
        return
    packed = await asyncio.to_thread(gzip.compress, body, 1) if len(body) > _LARGE else gzip.compress(body, 1)
    content["body"] = packed
    changed = {b"content-length": str(len(packed)).encode(), b"content-encoding": b"gzip"}
    start["headers"] = [*(header for header in start["headers"] if header[0] not in changed), *changed.items()]


@final
class Places:
    """The places of requests that are worked on. Who finds none waits, and clients take turns: one that asks much does
    not keep out one that asks little."""

    def __init__(self, settings: ServerSettings, metrics: Metrics) -> None:
        self._bounds, self._metrics = settings.bounds, metrics
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    async def take(self, client: str) -> bool:
        """Whether there is a place now, or soon; `give_back` returns it."""
        metrics, bounds = self._metrics, self._bounds
        if metrics.in_flight < bounds.concurrent:
            metrics.in_flight += 1
            return True
        own = self._queues.get(client, ())
        if metrics.waiting >= bounds.waiting and len(own) >= bounds.waiting / max(len(self._queues), 1):
            return False
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(client, deque()).append(turn)
        metrics.waiting += 1
        try:
            async with asyncio.timeout(bounds.patience):
                await turn  # the place is handed over with it
            return True
        except TimeoutError:
            return turn.done() and not turn.cancelled()  # it came at the last moment
        finally:
            metrics.waiting -= 1

    def give_back(self) -> None:
        """Hands the place to the client whose turn it is."""
        while self._queues:
            client = next(iter(self._queues))
            queue = self._queues.pop(client)
            turn = queue.popleft()
            if queue:
                self._queues[client] = queue  # behind the others
            if not turn.done():
                turn.set_result(None)
                return
        self._metrics.in_flight -= 1


def given_key(headers: Headers) -> str:
    """The key that a request carries; empty where it has none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")


def _same(given: str, key: str) -> bool:
    """Whether the keys are equal, in a time that does not tell how much of them is."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), key.encode())


def _client(scope: Scope) -> str:
    return str((scope.get("client") or ("-",))[0])


def _shown(scope: Scope) -> str:
    """The address of a request as a log can have it: one line, and not too long."""
    address = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    return ascii(address[:300].decode("latin-1"))[1:-1]


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
