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
from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from hashlib import blake2b
from typing import Any, Final, final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tarbox.http.metrics import Metrics
from tarbox.http.problems import MISTAKE, PROBLEM_OF, ProblemReply
from tarbox.http.settings import ServerSettings
from tarbox.service.dispatcher import Dispatcher
from tarbox.service.places import Places

PROTECTED: Final = ("/api/", "/sparql", "/metrics")
TAGGED: Final = ("/api/", "/sparql")
"""What depends on the request and the knowledge base alone: a client that has the reply need not get it again."""
UNQUEUED: Final = frozenset(["/health", "/ready", "/metrics", "/api/reload"])
EXPOSED: Final = b"ETag, Retry-After, WWW-Authenticate, X-Facts-Built, X-Facts-Version, X-Total-Count"
PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "GET, HEAD, OPTIONS, POST",
    "Access-Control-Allow-Headers": "Accept, Authorization, Content-Type, If-None-Match, X-API-Key",
    "Access-Control-Max-Age": "600",
}
Headers = Mapping[str, str]
_CLOSE: Final = {"Connection": "close"}
_COMPRESSED: Final = 1_400
_LARGE: Final = 1 << 19
_TEXT: Final = (b"text/", b"application/json", b"application/problem", b"application/sparql", b"application/rdf",
                b"application/n-triples", b"application/ld", b"image/svg")  # fmt: skip
access = logging.getLogger("tarbox.access")


@final
class Guard:
    """The outermost layer of the application; `allow` says which methods an address takes, empty where it is none.
    `headers` go with every reply that does not set them itself."""

    def __init__(
        self,
        app: ASGIApp,
        settings: ServerSettings,
        behind: tuple[Dispatcher, Metrics],
        allow: Callable[[Scope], str],
        headers: dict[bytes, bytes],
    ) -> None:
        self._app, self._settings, self._bounds, self._allow = app, settings, settings.bounds, allow
        self.dispatcher, self.metrics = behind
        self._hosts = settings.accepted_hosts()
        self._places = Places(self._bounds.concurrent, self._bounds.waiting, self._bounds.patience)
        self.metrics.places = self._places
        kb = self.dispatcher.kb
        facts = {b"x-facts-version": kb.version.encode(), b"x-facts-built": kb.built.encode()} if kb.version else {}
        self._headers = headers | facts
        self._tag = f'W/"{settings.tag}{kb.version[:8]}'
        too_large = f"A request body may have {self._bounds.body:,} bytes."
        self._too_large = partial(ProblemReply, "body-too-large", too_large, _CLOSE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, reply = time.perf_counter(), list[Message]()
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}

        async def collect(message: Message) -> None:
            reply.append(message)

        try:
            instead = await self._handle(scope, headers, receive, collect)
        except Exception:
            logging.getLogger("tarbox.http").exception("a mistake at %s", _shown(scope))
            instead = ProblemReply("internal", MISTAKE)
        if instead is not None:
            reply.clear()
            await instead(scope, receive, collect)
        await self._finish(scope, headers, reply)
        status, seconds = reply[0]["status"], time.perf_counter() - began
        route = scope.get("tarbox.route") or getattr(scope.get("route"), "path", "other")
        self.metrics.note_request(str(route), status, seconds)
        if PROBLEM_OF in scope:
            self.metrics.note_refusal(scope[PROBLEM_OF])
        if access.isEnabledFor(logging.INFO):
            asked = _client(scope), scope["method"], _shown(scope)
            access.info('%s "%s %s" %d %.1f ms', *asked, status, seconds * 1_000)
        for message in reply:
            await send(message)

    async def _handle(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> Response | None:
        """What to reply in place of what the application sent, if anything."""
        refusal, body = self._refuse(scope, headers), b""
        if refusal is None and ("content-length" in headers or "transfer-encoding" in headers):
            try:
                async with asyncio.timeout(self._bounds.reading):
                    async for chunk in Request(scope, receive).stream():
                        body += chunk
                        if len(body) > self._bounds.body:
                            return self._too_large()
            except (TimeoutError, ClientDisconnect):
                detail = f"The request did not arrive within {self._bounds.reading:g} seconds."
                return ProblemReply("slow-request", detail, _CLOSE)
        if (refusal := refusal or self._reply_early(scope, headers)) is not None:
            return refusal
        if scope["path"] in UNQUEUED:
            return await self._work(scope, _replay(body, receive), send)
        if not await self._places.take(_client(scope)):
            detail = f"The server works on {self._bounds.concurrent:,} requests already, its limit. Ask again soon."
            return ProblemReply("busy", detail, {"Retry-After": "1"})
        try:
            return await self._work(scope, _replay(body, receive), send)
        finally:
            self._places.give_back()

    async def _work(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        method = scope["method"]
        try:
            scope["method"] = "GET" if method == "HEAD" else method  # the server leaves the content out
            async with asyncio.timeout(self._bounds.seconds):
                await self._app(scope, receive, send)
            return None
        except TimeoutError:
            detail = f"The answer took more than {self._bounds.seconds:g} seconds, this server's limit. Ask for less."
            return ProblemReply("timeout", detail, {"Retry-After": "5"})
        finally:
            scope["method"] = method

    def _refuse(self, scope: Scope, headers: Headers) -> Response | None:
        """The reply to a preflight, and to a request for another host, without the key, or with too large a body."""
        preflight = scope["method"] == "OPTIONS" and "access-control-request-method" in headers
        if preflight and self._allowed(headers) is not None:
            return Response(status_code=204, headers=PREFLIGHT)
        host = headers.get("host", "")
        name = (host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]).lower()
        if self._hosts is not None and name not in self._hosts:
            return ProblemReply("host", f"This server is not called {name!r}; --allow-host gives it a name.", _CLOSE)
        key = self._settings.api_key
        guarded = scope["path"].startswith(PROTECTED) and scope["method"] != "OPTIONS"
        if key is not None and guarded and not _has_key(headers, key):
            detail = "Send the key in the header X-API-Key, or in Authorization as 'Bearer KEY'."
            return ProblemReply("unauthorised", detail, {"WWW-Authenticate": "Bearer", **_CLOSE})
        length = headers.get("content-length", "0")
        return self._too_large() if len(length) > 12 or int(length) > self._bounds.body else None

    def _reply_early(self, scope: Scope, headers: Headers) -> Response | None:
        """The reply to OPTIONS; and 304 where the client has the reply already, which is the same for the same request
        as long as this serves."""
        if scope["method"] == "OPTIONS":
            found = self._allow(scope)
            return Response(None, 204, {"Allow": found}) if found else ProblemReply("not-found", "No page.")
        if scope["method"] not in ("GET", "HEAD") or not scope["path"].startswith(TAGGED):
            return None
        asked = b"\n".join([scope["raw_path"], scope["query_string"], headers.get("accept", "").encode()])
        scope["tarbox.tag"] = tag = f'{self._tag}-{blake2b(asked, digest_size=8).hexdigest()}"'
        return Response(status_code=304) if tag in headers.get("if-none-match", "") else None

    def _allowed(self, headers: Headers) -> str | None:
        """The origin that may read the reply."""
        origin = headers.get("origin")
        return origin if origin and {"*", origin}.intersection(self._settings.origins) else None

    async def _finish(self, scope: Scope, headers: Headers, reply: list[Message]) -> None:
        """Adds the headers that every reply has, and packs what is long."""
        start = reply[0]
        added = {**self._headers, b"vary": b"Accept, Accept-Encoding, Origin"} | dict(start["headers"])
        if start["status"] == 405:
            added[b"allow"] = self._allow(scope).encode()
        if b"etag" in added:  # a file, which a browser asks for anew
            added[b"cache-control"] = b"no-cache"
        if "tarbox.tag" in scope and start["status"] in (200, 304):
            added |= {b"etag": scope["tarbox.tag"].encode(), b"cache-control": b"private, no-cache"}
        if (origin := self._allowed(headers)) is not None:
            added |= {b"access-control-allow-origin": origin.encode(), b"access-control-expose-headers": EXPOSED}
        if "gzip" in headers.get("accept-encoding", "") and len(reply) == 2 and scope["method"] != "HEAD":
            await _pack(added, reply[1])
        start["headers"] = list(added.items())


async def _pack(headers: dict[bytes, bytes], content: MutableMapping[str, Any]) -> None:
    """Compresses a text that is worth it; a long one in a thread, so that others are served meanwhile."""
    body, media = content.get("body", b""), headers.get(b"content-type", b"")
    if len(body) < _COMPRESSED or b"content-encoding" in headers or not media.startswith(_TEXT):
        return
    packed = await asyncio.to_thread(gzip.compress, body, 1) if len(body) > _LARGE else gzip.compress(body, 1)
    content["body"] = packed
    headers |= {b"content-length": str(len(packed)).encode(), b"content-encoding": b"gzip"}


def _has_key(headers: Headers, key: str) -> bool:
    """Whether a request carries the key, found in a time that does not tell how much of it is right."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    given = headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")
    return hmac.compare_digest(given.encode("utf-8", "replace"), key.encode())


def _client(scope: Scope) -> str:
    return str((scope.get("client") or ("-",))[0])


def _shown(scope: Scope) -> str:
    """The address of a request as a log can have it: one line, and not too long."""
    address = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    return ascii(address[:300].decode("latin-1"))[1:-1]


def _replay(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read already; then waits, as the client does."""
    read = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def replay() -> Message:
        return next(read, None) or await receive()

    return replay
