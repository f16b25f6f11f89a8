"""The application: routes, their errors, the page and its files from the package, and the guard around them."""

from __future__ import annotations

import base64
import hashlib
import json
import mimetypes
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.staticfiles import StaticFiles

from tarbox.http.guard import Guard
from tarbox.http.metrics import Metrics
from tarbox.http.problems import PROBLEM_KINDS, ProblemReply
from tarbox.http.routes import add_routes
from tarbox.http.settings import ServerSettings
from tarbox.http.supervisor import Board
from tarbox.query.drawing import STYLE
from tarbox.service.answering import Answerer, warm_up
from tarbox.service.dispatcher import Dispatcher
from tarbox.service.sparql_engine import EngineLimits
from tarbox.version import __version__

STATIC: Final = Path(str(files("tarbox.http") / "static"))
CONTENT_TYPES: Final = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css",
                        ".svg": "image/svg+xml", ".woff2": "font/woff2"}  # fmt: skip
DESCRIPTION: Final = (
    "Multi-hop questions over an ontology and its knowledge graph, answered with entities and with concepts. "
    "Every error is a problem body (RFC 9457). Where the server has an API key, send it as `X-API-Key` or as a "
    "bearer token."
)
_BY_STATUS: Final = {400: "json", 404: "not-found", 405: "method", 413: "body-too-large", 415: "media-type"}
_KEYS: Final = {
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}


def create_app(answerer: Answerer, settings: ServerSettings | None = None, metrics: Metrics | None = None) -> Guard:
    """The whole application over one answerer, warmed up and ready to be served."""
    settings = settings or ServerSettings()
    warm_up(answerer)
    bounds = settings.bounds
    metrics = metrics or Metrics(Board(-1, 1, bounds.connections))
    limits = EngineLimits(bounds.seconds, bounds.memory, bounds.result)
    dispatcher = Dispatcher(answerer, limits, (bounds.query, bounds.sparql), metrics.batches.observe)
    app = FastAPI(
        title="tarbox",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # behind a proxy with TLS it would lead, key and all, to the address without
        exception_handlers=dict.fromkeys((RequestValidationError, HTTPException), _refuse),
    )
    add_routes(app, dispatcher, settings, metrics)
    app.router.routes.extend(page_routes())
    app.openapi = partial(_describe, app.openapi, settings.api_key is not None)  # type: ignore[method-assign]
    return Guard(app, settings, (dispatcher, metrics), security_headers(bool(settings.origins)))


async def _refuse(_: Request, error: Exception) -> Response:
    """What the framework finds wrong with a request."""
    if isinstance(error, HTTPException):
        kind = _BY_STATUS.get(error.status_code, "parameter" if error.status_code < 500 else "internal")
        detail = error.detail if kind == "media-type" else PROBLEM_KINDS[kind][1] + "."
        return ProblemReply(kind, detail, error.headers)
    if isinstance(wrong := error.__cause__, json.JSONDecodeError):
        said = f"{wrong.msg.removesuffix(' at')} at line {wrong.lineno}, column {wrong.colno}"
        return ProblemReply("json", f"The body is not JSON: {said}.")
    assert isinstance(error, RequestValidationError)
    faults = [(".".join(map(str, each["loc"][1:])) or each["loc"][0], each["msg"]) for each in error.errors()[:5]]
    return ProblemReply("parameter", "; ".join(f"{where}: {what}" for where, what in faults))


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


def page_routes() -> list[BaseRoute]:
    """A route for each file and folder of the page; `/` is its index.

    One route for all would also match the paths of the API, and hide which methods those take. Media types are our
    own, whatever the machine's table says.
    """
    for suffix, media_type in CONTENT_TYPES.items():
        mimetypes.add_type(media_type, suffix)
    served = StaticFiles(directory=STATIC, html=True, check_dir=False)
    names = sorted(path.name + ("/{file:path}" if path.is_dir() else "") for path in STATIC.glob("[!._]*"))
    return [Route(f"/{name}", served, methods=["GET", "HEAD"]) for name in ["", *names]]


def security_headers(cross_origin: bool) -> dict[bytes, bytes]:
    """The headers of every reply; `cross_origin` where pages of other sites may read replies. Everything comes from
    this server only; the one style sheet inside a page is that of drawn queries, by its hash."""
    style = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    return {
        b"content-security-policy": (
            f"default-src 'none'; script-src 'self'; style-src 'self' 'sha256-{style}'; img-src 'self' data:; "
            "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; "
            "frame-ancestors 'none'"
        ).encode(),
        b"x-content-type-options": b"nosniff",
        b"x-frame-options": b"DENY",
        b"referrer-policy": b"no-referrer",
        b"cross-origin-opener-policy": b"same-origin",
        b"cross-origin-resource-policy": b"cross-origin" if cross_origin else b"same-origin",
        b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
        b"cache-control": b"no-store",
    }
