"""The application: routes, their errors, and the guard around them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from tarbox.core.errors import TarboxError
from tarbox.http.dispatcher import Dispatcher
from tarbox.http.guard import Guard
from tarbox.http.metrics import Metrics
from tarbox.http.pages import page_routes
from tarbox.http.problems import Refusal, problem_of
from tarbox.http.routes import ShortWay, add_routes
from tarbox.http.settings import ServerSettings
from tarbox.service.answering import Answerer, warm_up
from tarbox.version import __version__

DESCRIPTION: Final = (
    "Multi-hop questions over an ontology and its knowledge graph, answered with entities and with concepts. "
    "Every error is a problem body (RFC 9457). Where the server has an API key, send it as `X-API-Key` or as a "
    "bearer token."
)
_KEYS: Final = {
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}


def create_app(answerer: Answerer, settings: ServerSettings | None = None, metrics: Metrics | None = None) -> Guard:
    """The whole application over one answerer, warmed up and ready to be served."""
    settings = settings or ServerSettings()
    warm_up(answerer)
    dispatcher = Dispatcher(answerer, settings.bounds, metrics or Metrics(__version__))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        dispatcher.close()

    async def on_error(_: Request, error: Exception) -> Response:
        return problem_of(error, answerer.kb.title)

    app = FastAPI(
        title="tarbox",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        exception_handlers=dict.fromkeys((TarboxError, RequestValidationError, Refusal, HTTPException), on_error),
    )
    add_routes(app, dispatcher)
    app.router.routes.extend(page_routes())
    app.openapi = partial(_describe, app.openapi, settings.api_key is not None)  # type: ignore[method-assign]
    return Guard(ShortWay(app, dispatcher), settings, dispatcher, partial(_allow, app))


def _allow(app: FastAPI, scope: Scope) -> str:
    """The methods of all routes for an address; empty where there is none."""
    matching = [each for each in app.routes if each.matches(scope)[0] is not Match.NONE]
    found = {method for each in matching for method in getattr(each, "methods", None) or ()}
    found |= {"GET", "POST"} if scope["path"] == "*" else set()
    found |= {"HEAD"} if "GET" in found else set()
    return ", ".join(sorted(found | {"OPTIONS"})) if found else ""


def _describe(original: Any, with_key: bool) -> dict[str, Any]:
    """The OpenAPI description says what this server replies: no 422, and the key if any."""
    schema: dict[str, Any] = original()
    for operations in schema["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
    if with_key:
        schema["components"]["securitySchemes"] = _KEYS
        schema["security"] = [{name: []} for name in _KEYS]
    return schema
