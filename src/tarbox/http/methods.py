"""HEAD, OPTIONS and `Allow` for every address, as its routes have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tarbox.http.problems import problem

_ANY: Final = frozenset(["GET", "POST"])


@final
class Methods:
    """An application that answers HEAD as GET without the content, and OPTIONS by itself."""

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute]) -> None:
        self._app, self._routes = app, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start" or not message.get("more_body", False):
                await send({**message, "body": b""} if "body" in message else message)

        async def send_allowed(message: Message) -> None:
            if message.get("status") == 405:
                kept = [header for header in message["headers"] if header[0] != b"allow"]
                message = {**message, "headers": [*kept, (b"allow", self._allow(scope).encode())]}
            await send(message)

        if scope["type"] == "http" and scope["method"] == "OPTIONS":
            found = self._allow(scope)
            reply = Response(status_code=204, headers={"Allow": found}) if found else problem("not-found", "No page.")
            await reply(scope, receive, send)
        elif scope["type"] == "http" and scope["method"] == "HEAD":
            scope["method"] = "GET"
            await self._app(scope, receive, send_head)
            scope["method"] = "HEAD"
        else:
            await self._app(scope, receive, send_allowed)

    def _allow(self, scope: Scope) -> str:
        """The methods of all routes for an address; empty where there is none."""
        matching = [each for each in self._routes if each.matches(scope)[0] is not Match.NONE]
        found = {method for each in matching for method in getattr(each, "methods", None) or ()}
        found |= _ANY if scope["path"] == "*" else frozenset()
        found |= {"HEAD"} if "GET" in found else set()
        return ", ".join(sorted(found | {"OPTIONS"})) if found else ""
