"""The application: routes, their errors, and the guard around them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tarbox.core.errors import Overloaded, TarboxError
from tarbox.http.candidate_routes import candidate_routes
from tarbox.http.catalogue_routes import catalogue
from tarbox.http.dispatcher import Dispatcher
from tarbox.http.guard import Guard
from tarbox.http.methods import Methods
from tarbox.http.metrics import METRICS_MEDIA_TYPE as METRICS_TYPE
from tarbox.http.metrics import Metrics
from tarbox.http.pages import page_routes, security_headers
from tarbox.http.problems import PROBLEM_KINDS, Refusal, problem, problem_of
from tarbox.http.routes import ShortWay, api, failures, json_reply
from tarbox.http.schemas import AnswerRequest, HealthReply
from tarbox.http.settings import ServerSettings
from tarbox.http.sparql_routes import sparql
from tarbox.service.answering import Answerer, warm_up
from tarbox.version import __version__

DESCRIPTION: Final = (
    "Multi-hop questions over an ontology and its knowledge graph, answered with entities and with concepts. "
    "Every error is a problem body (RFC 9457). Where the server has an API key, send it as `X-API-Key` or as a "
    "bearer token."
)
READY_IN: Final = 2.0
"""Seconds in which a server that is ready answers."""
_BY_STATUS: Final = {400: "json", 404: "not-found", 405: "method", 413: "body-too-large", 415: "media-type"}


ROUTERS: Final[Sequence[Callable[[Dispatcher], APIRouter]]] = (api, catalogue, candidate_routes, sparql)
"""The routes of the API; a module with more of them adds its own here."""


def create_app(answerer: Answerer, settings: ServerSettings | None = None, metrics: Metrics | None = None) -> Guard:
    """The whole application over one answerer, warmed up and ready to be served."""
    settings = settings or ServerSettings()
    warm_up(answerer)
    dispatcher = Dispatcher(answerer, settings.bounds, metrics or Metrics(__version__))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        dispatcher.close()

    app = FastAPI(
        title="tarbox",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    routers = [make_router(dispatcher) for make_router in ROUTERS]
    for router in routers:
        app.include_router(router)
    _add_operations(app, dispatcher)
    _add_problems(app, dispatcher.kb.title)
    _describe(app, with_key=settings.api_key is not None)
    app.router.routes.extend(page_routes())
    routes = [*app.routes, *(route for router in routers for route in router.routes)]
    headers = security_headers(bool(settings.origins))
    return Guard(ShortWay(Methods(app, routes), dispatcher), settings, dispatcher, headers)


def _add_operations(app: FastAPI, dispatcher: Dispatcher) -> None:
    """The routes for those who run the server."""
    busy = "It does not answer in time. Ask again soon.", {"Retry-After": "1"}

    def told(status: str) -> Response:
        up, expected = dispatcher.metrics.workers()
        content = {"status": status if up >= expected else "degraded", "title": dispatcher.kb.title}
        return json_reply(content | {"version": __version__, "workers": {"up": up, "expected": expected}})

    @app.get("/health", response_model=HealthReply, responses=failures(), operation_id="health")
    async def health() -> Response:
        """Say whether this worker does its work, and how many others do."""
        return problem("busy", *busy) if dispatcher.is_stuck() else told("ok")

    @app.get("/ready", response_model=HealthReply, responses=failures(), operation_id="ready")
    async def ready() -> Response:
        """Ask a question, and say whether it was answered in time."""
        try:
            async with asyncio.timeout(min(dispatcher.bounds.seconds, READY_IN)):
                await dispatcher.answer(AnswerRequest.model_validate({"query": "owl:Thing", "k": 1}))
        except (TimeoutError, Overloaded):
            return problem("busy", *busy)
        return told("ok")

    text: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}

    @app.get("/metrics", responses={**text, **failures()}, response_class=Response, operation_id="metrics")
    async def show_metrics() -> Response:
        """Counts and times of all workers, for Prometheus."""
        return Response(dispatcher.metrics.render(), media_type=METRICS_TYPE)


def _add_problems(app: FastAPI, title: str) -> None:
    """Every error becomes a problem body."""

    async def on_tarbox_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, TarboxError)
        return problem_of(error, title)

    async def on_invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        if isinstance(error.__cause__, json.JSONDecodeError):
            return problem("json", _misread(error.__cause__))
        return problem("parameter", "; ".join(map(_fault, error.errors()[:5])))

    async def on_refusal(_: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return error.reply

    async def on_http_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        kind = _BY_STATUS.get(error.status_code, "parameter" if error.status_code < 500 else "internal")
        return problem(kind, PROBLEM_KINDS[kind][1] + ".", dict(error.headers or {}))

    async def on_failure(_: Request, __: Exception) -> Response:
        return problem("internal", "The server could not answer; its log says why.")

    app.add_exception_handler(TarboxError, on_tarbox_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(Refusal, on_refusal)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(Exception, on_failure)


def _misread(error: json.JSONDecodeError) -> str:
    return f"The body is not JSON: {error.msg.removesuffix(' at')} at line {error.lineno}, column {error.colno}."


def _fault(fault: dict[str, Any]) -> str:
    where = ".".join(str(part) for part in fault["loc"][1:]) or str(fault["loc"][0])
    return f"{where}: {fault['msg']}"


def _describe(app: FastAPI, with_key: bool) -> None:
    """The OpenAPI description says what this server replies: no 422, problems by their own type, the key if any."""
    original = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = original()
            for operations in schema["paths"].values():
                for operation in operations.values():
                    operation["responses"].pop("422", None)
                    for status, response in operation["responses"].items():
                        if int(status) >= 400:
                            response["content"].pop("application/json", None)
                            response["content"] = {"application/problem+json": _PROBLEM_SCHEMA}
            if with_key:
                schema["components"]["securitySchemes"] = _KEYS
                schema["security"] = [{"key": []}, {"bearer": []}]
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


_PROBLEM_SCHEMA: Final = {"schema": {"$ref": "#/components/schemas/Problem"}}
_KEYS: Final = {
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}
