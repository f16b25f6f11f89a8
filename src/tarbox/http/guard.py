"""What every request passes before and after its route: name, key, size, time, place, headers, counts.

A request is read whole before it takes a place among those that are worked on, and its reply is sent after it has
given the place back: a client that sends or reads slowly holds a connection, never a place. Above the number of places
requests wait for a short time, and clients take turns.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final, final

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Message, Receive, Scope, Send

from tarbox.core.errors import TarboxError
from tarbox.http.metrics import Metrics
from tarbox.http.problems import MISTAKE, PROBLEM_OF, ProblemReply, problem_of
from tarbox.http.routes import ANSWER_PATH, json_reply, read_question
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
_CLOSE: Final = {"Connection": "close"}
_COMPRESSED: Final = 1_400
"""Bytes from which a reply is worth packing."""
access = logging.getLogger("tarbox.access")


@final
class Guard:
    """The outermost layer of the application; `headers` go with every reply that does not set them itself."""

    def __init__(
        self, app: FastAPI, settings: ServerSettings, behind: tuple[Dispatcher, Metrics], headers: dict[bytes, bytes]
    ) -> None:
        self._app, self.settings, self._bounds = app, settings, settings.bounds
        self._packing = GZipMiddleware(self._route, _COMPRESSED, 1)
        self.dispatcher, self.metrics = behind
        self._hosts = settings.accepted_hosts()
        self.metrics.places = Places(self._bounds.concurrent, self._bounds.waiting, self._bounds.patience)
        kb = self.dispatcher.kb
        facts = {b"x-facts-version": kb.version.encode(), b"x-facts-built": kb.built.encode()} if kb.version else {}
        self._headers = headers | facts
        self._tag = f'W/"{settings.tag}{kb.version[:8]}'

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, reply = time.perf_counter(), list[Message]()
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}

        async def collect(message: Message) -> None:
            reply.append(message)

        try:
            instead = await self._handle(scope, headers, receive, collect)
        except TarboxError as error:
            instead = problem_of(error, self.dispatcher.kb.title)
        except Exception:
            logging.getLogger("tarbox.http").exception("a mistake at %s", _shown(scope))
            instead = ProblemReply("internal", MISTAKE)
        if instead is not None:
            reply.clear()
            await instead(scope, receive, collect)
        self._finish(scope, headers, reply[0])
        status, seconds = reply[0]["status"], time.perf_counter() - began
        route = scope.get("tarbox.route") or getattr(scope.get("route"), "path", "other")
        self.metrics.note_request(str(route), status, seconds)
        if PROBLEM_OF in scope:
            self.metrics.refusals.labels(scope[PROBLEM_OF]).inc()
        if access.isEnabledFor(logging.INFO):
            asked = _client(scope), scope["method"], _shown(scope)
            access.info('%s "%s %s" %d %.1f ms', *asked, status, seconds * 1_000)
        for message in reply:
            await send(message)

    async def _handle(self, scope: Scope, headers: Mapping[str, str], receive: Receive, send: Send) -> Response | None:
        """What to reply in place of what the application sent, if anything."""
        if (early := self._refuse(scope, headers) or self._reply_early(scope, headers)) is not None:
            return early
        if "content-length" in headers or "transfer-encoding" in headers:
            body = b""
            try:
                async with asyncio.timeout(self._bounds.reading):
                    async for chunk in Request(scope, receive).stream():
                        body += chunk
                        if len(body) > self._bounds.body:
                            return self._too_large()
            except (TimeoutError, ClientDisconnect):
                detail = f"The request did not arrive within {self._bounds.reading:g} seconds."
                return ProblemReply("slow-request", detail, _CLOSE)
            receive = _replay(body, receive)
        queues = scope["path"] not in UNQUEUED
        if queues and not await self.metrics.places.take(_client(scope)):
            detail = f"The server works on {self._bounds.concurrent:,} requests already, its limit. Ask again soon."
            return ProblemReply("busy", detail, {"Retry-After": "1"})
        method = scope["method"]
        packs = "gzip" in headers.get("accept-encoding", "") and method != "HEAD"
        try:
            scope["method"] = "GET" if method == "HEAD" else method  # the server leaves the content out
            async with asyncio.timeout(self._bounds.seconds):
                await (self._packing if packs else self._route)(scope, receive, send)
            return None
        except TimeoutError:
            detail = f"The answer took more than {self._bounds.seconds:g} seconds, this server's limit. Ask for less."
            return ProblemReply("timeout", detail, {"Retry-After": "5"})
        finally:
            scope["method"] = method
            if queues:
                self.metrics.places.give_back()

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Leaves a request to the framework, but for the commonest, whose parameters it reads five times as slowly.
        Whatever is not plainly right goes the framework's way, which says what is wrong."""
        is_question = scope["method"] == "GET" and scope["path"] == ANSWER_PATH
        question = read_question(scope["query_string"]) if is_question else None
        if question is None:
            await self._app(scope, receive, send)
            return
        scope["tarbox.route"] = ANSWER_PATH
        await json_reply(await self.dispatcher.answer(question))(scope, receive, send)

    def _refuse(self, scope: Scope, headers: Mapping[str, str]) -> Response | None:
        """The reply to a preflight, and to a request for another host, without the key, or with too large a body."""
        method, path = scope["method"], scope["path"]
        if method == "OPTIONS" and "access-control-request-method" in headers and self._allowed(headers) is not None:
            return Response(status_code=204, headers=PREFLIGHT)
        host = headers.get("host", "")
        name = (host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]).lower()
        if self._hosts is not None and name not in self._hosts:
            return ProblemReply("host", f"This server is not called {name!r}; --allow-host gives it a name.", _CLOSE)
        key = self.settings.api_key
        if key is not None and path.startswith(PROTECTED) and method != "OPTIONS" and not _has_key(headers, key):
            detail = "Send the key in the header X-API-Key, or in Authorization as 'Bearer KEY'."
            return ProblemReply("unauthorised", detail, {"WWW-Authenticate": "Bearer", **_CLOSE})
        length = headers.get("content-length", "0")
        return self._too_large() if len(length) > 12 or int(length) > self._bounds.body else None

    def _reply_early(self, scope: Scope, headers: Mapping[str, str]) -> Response | None:
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

    def _too_large(self) -> Response:
        return ProblemReply("body-too-large", f"A request body may have {self._bounds.body:,} bytes.", _CLOSE)

    def _allow(self, scope: Scope) -> str:
        """The methods of all routes for an address; empty where there is none."""
        matching = [each for each in self._app.routes if each.matches(scope)[0] is not Match.NONE]
        found = {method for each in matching for method in getattr(each, "methods", None) or ()}
        found |= {"GET", "POST"} if scope["path"] == "*" else set()
        found |= {"HEAD"} if "GET" in found else set()
        return ", ".join(sorted(found | {"OPTIONS"})) if found else ""

    def _allowed(self, headers: Mapping[str, str]) -> str | None:
        """The origin that may read the reply."""
        origin = headers.get("origin")
        return origin if origin and {"*", origin}.intersection(self.settings.origins) else None

    def _finish(self, scope: Scope, headers: Mapping[str, str], start: Message) -> None:
        """Adds the headers that every reply has."""
        added = self._headers | dict(start["headers"])
        added[b"vary"] = b"Accept, Accept-Encoding, Origin"
        if start["status"] == 405:
            added[b"allow"] = self._allow(scope).encode()
        if b"etag" in added:  # a file, which a browser asks for anew
            added[b"cache-control"] = b"no-cache"
        if "tarbox.tag" in scope and start["status"] in (200, 304):
            added |= {b"etag": scope["tarbox.tag"].encode(), b"cache-control": b"private, no-cache"}
        if (origin := self._allowed(headers)) is not None:
            added |= {b"access-control-allow-origin": origin.encode(), b"access-control-expose-headers": EXPOSED}
        start["headers"] = list(added.items())


def _has_key(headers: Mapping[str, str], key: str) -> bool:
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
