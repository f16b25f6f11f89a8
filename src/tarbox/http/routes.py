"""The routes of `/api`: each reads its parameters, hands the work to the desk, and wraps what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache, partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Depends, Query, Request
from starlette.responses import Response

from tarbox.core.errors import NameLookupError
from tarbox.core.ids import Level, Role
from tarbox.http.dispatcher import Dispatcher as Desk
from tarbox.http.problems import PROBLEM_MEDIA_TYPE as MEDIA_TYPE
from tarbox.http.problems import Problem, Refusal, problem
from tarbox.http.query_tree import query_tree
from tarbox.http.replies import encode
from tarbox.http.schemas import (
    FIGURE_1,
    K_MEANING,
    MIN_DEGREE_MEANING,
    ORDER_MEANING,
    AnswerReply,
    AnswerRequest,
    ClassDescriptionReply,
    DrawingReply,
    KnowledgeBaseReply,
    Language,
)
from tarbox.http.settings import MOST_ANSWERS
from tarbox.kb.terms import from_ntriples
from tarbox.service.class_expressions import CLASS_LISTS, PREDICTED_LISTS, describe_expression, find_place
from tarbox.service.degrees import MIN_DEGREE
from tarbox.service.explanations import Support
from tarbox.service.ordering import Order

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


def api(desk: Desk, kb_content: Mapping[str, Any]) -> APIRouter:
    """All routes below `/api`."""
    router = APIRouter(prefix="/api")
    _add_answers(router, desk)
    _add_queries(router, desk)
    _add_knowledge_base(router, kb_content)
    _add_expressions(router, desk)
    return router


def _add_answers(router: APIRouter, desk: Desk) -> None:
    @router.get("/answer", response_model=AnswerReply, responses=failures(), operation_id="answer")
    async def answer(
        query: Text,
        language: Language = Language.MANCHESTER,
        k: Annotated[int, Query(ge=1, le=MOST_ANSWERS, description=K_MEANING)] = 10,
        order: Annotated[Order, Query(description=ORDER_MEANING)] = Order.DESCRIPTIVE,
        min_degree: Annotated[float, Query(ge=0, le=1, description=MIN_DEGREE_MEANING)] = MIN_DEGREE,
    ) -> Response:
        """Answer a query with entities and with the concepts that describe them."""
        return json_reply(await desk.answer(query, k, language is Language.SPARQL, order, min_degree))

    @router.post(
        "/answer",
        response_model=AnswerReply,
        responses=failures(415),
        dependencies=[Depends(takes_json)],
        operation_id="answer_posted",
    )
    async def answer_posted(request: Annotated[AnswerRequest, Body()]) -> Response:
        """Answer a query that is too long for an address."""
        sparql = request.language is Language.SPARQL
        return json_reply(await desk.answer(request.query, request.k, sparql, request.order, request.min_degree))


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


def _add_knowledge_base(router: APIRouter, kb_content: Mapping[str, Any]) -> None:
    about = encode(kb_content)

    @router.get("/kb", response_model=KnowledgeBaseReply, responses=failures(), operation_id="knowledge_base")
    async def knowledge_base() -> Response:
        """Describe the knowledge base, with example questions that have answers."""
        return json_reply(about)


def _add_expressions(router: APIRouter, desk: Desk) -> None:
    find = lru_cache(PLACES)(partial(find_place, seconds=desk.seconds * 0.9))  # before the reply is given up
    turn = asyncio.Lock()

    def placed(expression: str, k: int) -> bytes:
        desk.replies.read(expression)
        content = describe_expression(desk.kb, expression, k, find=find).to_json()
        for key, role in (*((key, Role.CONCEPT) for key in CLASS_LISTS + PREDICTED_LISTS), ("instances", Role.ENTITY)):
            for item in content[key]:
                item["name"] = desk.replies.naming.write(role, from_ntriples(item["iri"]))
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
