"""The routes of `/api`: each reads its parameters, hands the work to the desk, and wraps what comes back."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from functools import lru_cache, partial
from typing import Annotated, Any, Final, final
from urllib.parse import parse_qsl

from fastapi import APIRouter, Body, Depends, Query, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tarbox.core.errors import NameLookupError, TarboxError
from tarbox.core.ids import Level, Role
from tarbox.http.dispatcher import Dispatcher as Desk
from tarbox.http.problems import PROBLEM_MEDIA_TYPE as MEDIA_TYPE
from tarbox.http.problems import Problem, Refusal, problem, problem_of
from tarbox.http.query_tree import query_tree
from tarbox.http.replies import encode
from tarbox.http.schemas import (
    FIGURE_1,
    AnswerReply,
    AnswerRequest,
    AnswersReply,
    AnswersRequest,
    ClassDescriptionReply,
    DrawingReply,
    KnowledgeBaseReply,
)
from tarbox.http.settings import MOST_ANSWERS
from tarbox.kb.terms import from_ntriples
from tarbox.service.class_expressions import CLASS_LISTS, PREDICTED_LISTS, describe_expression, find_place
from tarbox.service.explanations import Support
from tarbox.service.overview import overview

ANSWER_PATH: Final = "/api/answer"
JSON_TYPE: Final = "application/json"
_PROBLEM: Final = {"model": Problem, "content": {MEDIA_TYPE: {}}}
LONGEST_NAME: Final = 2_000
PLACES: Final = 64
"""Expressions whose place among the classes is remembered."""

Text = Annotated[
    str, Query(description="A query.", openapi_examples={"figure 1": {"summary": "The paper's", "value": FIGURE_1}})
]


def failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems that a route may reply with, besides those that every route may."""
    return dict.fromkeys(sorted({400, 401, 405, 408, 413, 500, 503, *statuses}), _PROBLEM)


def json_reply(content: Any) -> Response:
    return Response(content if isinstance(content, bytes) else encode(content), media_type=JSON_TYPE)


def takes_json(request: Request) -> None:
    """Refuses a body of another media type; curl sends forms unless it is told otherwise."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != JSON_TYPE and not (media.startswith("application/") and media.endswith("+json")):
        raise Refusal(problem("media-type", f"Send the question as {JSON_TYPE}.", {"Accept-Post": JSON_TYPE}))


def api(desk: Desk) -> APIRouter:
    """All routes below `/api`."""
    router = APIRouter(prefix="/api")
    _add_answers(router, desk)
    _add_queries(router, desk)
    _add_names(router, desk)
    _add_expressions(router, desk)
    return router


def _add_answers(router: APIRouter, desk: Desk) -> None:
    @router.get("/answer", response_model=AnswerReply, responses=failures(), operation_id="answer")
    async def answer(request: Annotated[AnswerRequest, Query()]) -> Response:
        """Answer a query with entities and with the concepts that describe them."""
        return json_reply(await desk.answer(request))

    @router.post(
        "/answer",
        response_model=AnswerReply,
        responses=failures(415),
        dependencies=[Depends(takes_json)],
        operation_id="answer_posted",
    )
    async def answer_posted(request: Annotated[AnswerRequest, Body()]) -> Response:
        """Answer a query that is too long for an address."""
        return json_reply(await desk.answer(request))

    async def answered(request: AnswerRequest) -> bytes:
        try:
            return await desk.answer(request)
        except TarboxError as error:
            return bytes(problem_of(error, desk.kb.title).body)

    @router.post(
        "/answers",
        response_model=AnswersReply,
        responses=failures(415),
        dependencies=[Depends(takes_json)],
        operation_id="answers",
    )
    async def answers(request: Annotated[AnswersRequest, Body()]) -> Response:
        """Answer many queries; what is wrong with one stands in its place."""
        found = await asyncio.gather(*map(answered, request.questions))
        return json_reply(b'{"answers":[' + b",".join(found) + b"]}")


@final
class ShortWay:
    """The short way for the commonest request, `GET /api/answer`: the framework takes five times as long to read its
    parameters. Whatever is not plainly right goes the framework's way, which says what is wrong."""

    def __init__(self, app: ASGIApp, desk: Desk) -> None:
        self._app, self._desk = app, desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = None
        if scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == ANSWER_PATH:
            request = read_question(scope["query_string"])
        if request is None:
            await self._app(scope, receive, send)
            return
        scope["tarbox.route"] = ANSWER_PATH
        try:
            reply = json_reply(await self._desk.answer(request))
        except TarboxError as error:
            reply = problem_of(error, self._desk.kb.title)
        await reply(scope, receive, send)


def read_question(query_string: bytes) -> AnswerRequest | None:
    """The question that parameters ask, where they are plainly right."""
    try:
        pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, strict_parsing=True)
        return AnswerRequest.model_validate_strings(dict(pairs)) if len(dict(pairs)) == len(pairs) else None
    except ValueError:
        return None


def _add_queries(router: APIRouter, desk: Desk) -> None:
    def explained(query: str, answer: str, level: Level) -> bytes | Response:
        tree = desk.replies.read(query)
        try:
            support = desk.answerer.explain(tree, answer, level.role)
        except NameLookupError as error:
            return problem("unknown-name", str(error), candidates=list(error.candidates))
        return encode(asdict(support))

    @router.get("/explain", response_model=Support, responses=failures(404), operation_id="explain")
    async def explain(
        query: Text,
        answer: Annotated[str, Query(description="The answer's IRI in N-Triples form.", max_length=LONGEST_NAME)],
        level: Level = Level.ENTITY,
    ) -> Response:
        """Show the facts that carry one answer."""
        found = await desk.work(explained, query, answer, level)
        return found if isinstance(found, Response) else json_reply(found)

    def drawn(query: str) -> dict[str, Any]:
        tree, naming = desk.replies.read(query), desk.kb.resolver
        said = {"svg": desk.kb.draw(tree), "english": desk.kb.describe(tree), "canonical": desk.kb.render(tree)}
        return said | {"tree": query_tree(tree, naming.write, naming.show)}

    @router.get("/drawing", response_model=DrawingReply, responses=failures(), operation_id="drawing")
    async def drawing(query: Text) -> Response:
        """Draw a query and say it in English; a wrong one gives the place of the mistake."""
        return json_reply(await desk.work(drawn, query))


def _add_names(router: APIRouter, desk: Desk) -> None:
    limits = {name: getattr(desk.bounds, name) for name in ("query", "sparql", "seconds")} | {"k": MOST_ANSWERS}
    about = encode(overview(desk.answerer) | {"limits": limits})

    @router.get("/kb", response_model=KnowledgeBaseReply, responses=failures(), operation_id="knowledge_base")
    async def knowledge_base() -> Response:
        """Describe the knowledge base, with example questions that have answers."""
        return json_reply(about)


def _add_expressions(router: APIRouter, desk: Desk) -> None:
    find = lru_cache(PLACES)(partial(find_place, seconds=desk.bounds.seconds * 0.9))  # before the reply is given up
    turn = asyncio.Lock()

    def placed(expression: str, k: int) -> bytes:
        desk.replies.read(expression)
        content = describe_expression(desk.kb, expression, k, find=find).to_json()
        for key, role in (*((key, Role.CONCEPT) for key in CLASS_LISTS + PREDICTED_LISTS), ("instances", Role.ENTITY)):
            for item in content[key]:
                item["name"] = desk.kb.naming.write(role, from_ntriples(item["iri"]))
        return encode(content)

    @router.get(
        "/concept", response_model=ClassDescriptionReply, responses=failures(), operation_id="class_description"
    )
    async def class_description(
        expression: Annotated[str, Query(description="A class expression in Manchester syntax.", examples=["Person"])],
        k: Annotated[int, Query(ge=1, le=MOST_ANSWERS, description="The most instances.")] = 10,
    ) -> Response:
        """Show where a class expression stands: equivalent, super- and subclasses, predicted ones, its instances."""
        async with turn:  # one at a time, and who asks the same meanwhile finds it done
            return json_reply(await desk.work(placed, expression, k))
