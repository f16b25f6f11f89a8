"""The routes, in one table: what each takes is its signature, and what it gives is what it returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Annotated, Any, Final, Literal, final
from urllib.parse import parse_qsl

from fastapi import Body, Depends, FastAPI, HTTPException, Path, Query, Request
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.responses import PlainTextResponse, Response

from tarbox.core.errors import NameLookupError, Overloaded, QueryError, StoreError, TarboxError
from tarbox.core.ids import Level, Role
from tarbox.http.metrics import Metrics
from tarbox.http.problems import PROBLEM_MEDIA_TYPE, Problem, ProblemReply, problem_of
from tarbox.http.settings import ServerSettings
from tarbox.http.sparql_routes import SPARQL_BODY, SPARQL_RESULTS, SparqlEndpoint
from tarbox.service.answer_schema import FIGURE_1, MOST_ANSWERS, AnswerReply, AnswerRequest, AnswersRequest
from tarbox.service.candidates import CandidateList
from tarbox.service.cards import ConceptCard, ConceptList, EntityCard, RelationCard, RelationList
from tarbox.service.catalogue import Catalogue, Page
from tarbox.service.class_expressions import ClassDescription
from tarbox.service.dispatcher import Dispatcher
from tarbox.service.explanations import Support
from tarbox.service.overview import Drawing, FactsVersion, Overview, draw_query, overview
from tarbox.service.reasoner import Reasoner
from tarbox.service.search import SearchResult
from tarbox.version import __version__

ANSWER_PATH: Final = "/api/answer"
JSON_TYPE: Final = "application/json"
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
READY_IN: Final = 2.0
"""Seconds in which a server that is ready answers."""
LONGEST_NAME: Final = 2_000
_SLOW: Final = "It does not answer in time. Ask again soon."
_PROBLEM: Final = {"content": {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
_FIGURE_1: Final = {"figure 1": {"summary": "The paper's", "value": FIGURE_1}}

Text = Annotated[str, Query(description="A query.", openapi_examples=_FIGURE_1)]
Words = Annotated[str, Query(max_length=200, description="Some letters or words of a name, label or synonym.")]
_WHICH: Final = "Its IRI, bare or in angle brackets, or its name."
Name = Annotated[str, Path(description=_WHICH, max_length=LONGEST_NAME, examples=["Google"])]
Limit = Annotated[int, Query(ge=1, le=MOST_ANSWERS, description="How many of each list.")]
Offset = Annotated[int, Query(ge=0, description="How many of each list to pass over.")]
Few = Annotated[int, Query(ge=1, le=100)]
Given = partial(Query, max_length=LONGEST_NAME)
Answer = Annotated[str, Given(description="The answer's IRI in N-Triples form.")]
Expression = Annotated[str, Query(description="A class expression in Manchester syntax.", examples=["Person"])]
Instances = Annotated[int, Query(ge=1, le=MOST_ANSWERS, description="The most instances.")]
Only = Annotated[str | None, Given(description="Of one relation alone.")]
Predicted = Annotated[bool, Query(description="With what a run predicts.")]
Parent = Annotated[str | None, Given(description="Those directly below; `top` for the roots.")]
Having = Annotated[str | None, Given(description="What its instances have, in either direction.")]
Predicate = Annotated[str, Given(description="Name or IRI; after `inverse`, objects first; or `type`.")]
Within = Annotated[str | None, Query(alias="for", description="A query: subjects are its answers.")]
Types = Annotated[str | None, Given(description="One concept, for typings.")]
Passed = Annotated[int, Query(ge=0, le=1_000)]


class AnswersReply(BaseModel):
    """For each question its answers, or what is wrong with it."""

    answers: list[AnswerReply | Problem]


class SearchReply(BaseModel):
    """Things that a text may name, the best first."""

    results: list[SearchResult]


class ReloadReply(BaseModel):
    """`facts` are what is served now; `loading`: it takes longer, and what comes of it is in the log."""

    status: Literal["reloaded", "loading"]
    facts: FactsVersion | None = None


class HealthReply(BaseModel):
    """`degraded`: fewer workers serve than should."""

    status: Literal["ok", "degraded"]
    title: str
    version: str
    workers: dict[Literal["up", "expected"], int]


def add_routes(app: FastAPI, desk: Dispatcher, settings: ServerSettings, metrics: Metrics) -> None:
    """Every route of the API, with the problems that it may reply besides those that all may."""

    def add(method: str, path: str, function: Callable[..., Any], *statuses: int, **more: Any) -> None:
        failures = dict.fromkeys(sorted({400, 401, 405, 408, 413, 500, 503, *statuses}), _PROBLEM)
        app.add_api_route(
            path,
            _endpoint(desk, function, 404 in statuses),
            methods=[method],
            operation_id=function.__name__,
            responses=more.pop("responses", {}) | failures,
            **more,
        )

    api, sparql = Api(desk, settings, metrics), SparqlEndpoint(desk, settings.bounds)
    json = {"dependencies": [Depends(takes_json)]}
    add("GET", ANSWER_PATH, api.answer, response_model=AnswerReply)
    add("POST", ANSWER_PATH, api.answer_posted, 415, response_model=AnswerReply, **json)
    add("POST", "/api/answers", api.answers, 415, response_model=AnswersReply, **json)
    add("GET", "/api/explain", api.explain, 404)
    add("GET", "/api/drawing", api.drawing)
    add("GET", "/api/kb", api.knowledge_base)
    add("GET", "/api/concept", api.class_description, response_model=ClassDescription)
    add("GET", "/api/search", api.search)
    add("GET", "/api/complete", api.complete)
    add("GET", "/api/entities/{iri:path}", api.entity, 404)
    add("GET", "/api/concepts/{iri:path}", api.concept, 404)
    add("GET", "/api/relations/{iri:path}", api.relation, 404)
    add("GET", "/api/concepts", api.concepts, 404)
    add("GET", "/api/relations", api.relations, 404)
    add("GET", "/api/candidates", api.candidates, 404)
    later: dict[int, Any] = {202: {"model": ReloadReply}}
    add("POST", "/api/reload", api.reload, 403, 409, response_model=ReloadReply, responses=later)
    add("GET", "/health", api.health, response_model=HealthReply)
    add("GET", "/ready", api.ready, response_model=HealthReply)
    add("GET", "/metrics", api.metrics, response_class=PlainTextResponse)
    results = {"responses": SPARQL_RESULTS, "response_class": Response}
    add("GET", "/sparql", sparql.sparql, 406, **results)
    add("POST", "/sparql", sparql.sparql_posted, 406, 415, **results, openapi_extra=SPARQL_BODY)


def _endpoint(desk: Dispatcher, function: Callable[..., Any], finds: bool) -> Callable[..., Any]:
    """A function as a route: one that takes its time works in a thread, and what it returns goes out as JSON. Of one
    that `finds` things, an unknown name is a problem that says what may have been meant."""
    if iscoroutinefunction(function):
        return function

    @wraps(function)
    async def endpoint(**given: Any) -> Response:
        try:
            return json_reply(await desk.work(lambda: to_json(function(**given))))
        except NameLookupError as error:
            if not finds:
                raise
            return ProblemReply("unknown-name", str(error), candidates=list(error.candidates))

    return endpoint


def json_reply(content: bytes, status: int = 200) -> Response:
    return Response(content, status, media_type=JSON_TYPE)


def takes_json(request: Request) -> None:
    """Refuses a body of another media type; curl sends forms unless it is told otherwise."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != JSON_TYPE and not (media.startswith("application/") and media.endswith("+json")):
        raise HTTPException(415, f"Send the question as {JSON_TYPE}.", {"Accept-Post": JSON_TYPE})


@final
class Api:
    """What the routes do. Those that are no coroutines take their time."""

    def __init__(self, desk: Dispatcher, settings: ServerSettings, metrics: Metrics) -> None:
        bounds, self._has_key = settings.bounds, settings.api_key is not None
        self._desk, self._kb, self._seconds, self._metrics = desk, desk.kb, bounds.seconds, metrics
        self._cards = Catalogue(desk.answerer)
        limits = {name: getattr(bounds, name) for name in ("query", "sparql", "seconds")} | {"k": MOST_ANSWERS}
        self._about = overview(desk.answerer, limits)

    async def answer(self, request: Annotated[AnswerRequest, Query()]) -> Response:
        """Answer a query with entities and with the concepts that describe them."""
        return json_reply(await self._desk.answer(request))

    async def answer_posted(self, request: Annotated[AnswerRequest, Body()]) -> Response:
        """Answer a query that is too long for an address."""
        return json_reply(await self._desk.answer(request))

    async def answers(self, request: Annotated[AnswersRequest, Body()]) -> Response:
        """Answer many queries; what is wrong with one stands in its place."""

        async def answered(question: AnswerRequest) -> bytes:
            try:
                return await self._desk.answer(question)
            except TarboxError as error:
                return bytes(problem_of(error, self._kb.title).body)

        found = await asyncio.gather(*map(answered, request.questions))
        return json_reply(b'{"answers":[' + b",".join(found) + b"]}")

    def explain(self, query: Text, answer: Answer, level: Level = Level.ENTITY) -> Support:
        """Show the facts that carry one answer."""
        return self._desk.answerer.explain(self._desk.read(query), answer, level.role)

    def drawing(self, query: Text) -> Drawing:
        """Draw a query and say it in English; a wrong one gives the place of the mistake."""
        return draw_query(self._kb, self._desk.read(query))

    def knowledge_base(self) -> Overview:
        """Describe the knowledge base, with example questions that have answers."""
        return self._about

    async def class_description(
        self, expression: Expression, k: Instances = 10, limit: Limit = 100, offset: Offset = 0
    ) -> Response:
        """Show where a class expression stands: equivalent, super- and subclasses, predicted ones, its instances."""
        return json_reply(to_json((await self._desk.describe(expression, k)).part(limit, offset)))

    def search(self, q: Words, role: Role | None = None, limit: Few = 20) -> SearchReply:
        """Find entities, concepts and relations by words of a label, synonym or name; misspelling is forgiven."""
        return SearchReply(results=self._kb.search(q, limit, role))

    def complete(self, prefix: Words, role: Role | None = None, limit: Few = 10) -> list[SearchResult]:
        """Find names that a few letters may begin: the results of a search, as a list."""
        return self._kb.search(prefix, limit, role)

    def entity(
        self, iri: Name, limit: Limit = 20, offset: Offset = 0, relation: Only = None, predicted: Predicted = False
    ) -> EntityCard:
        """Show an entity: its types, and its facts in both directions by relation."""
        return self._cards.entity(iri, Page(limit, offset), relation, predicted)

    def concept(self, iri: Name, limit: Limit = 20, offset: Offset = 0) -> ConceptCard:
        """Show a concept: its place in the hierarchy, what it tells, its instances."""
        return self._cards.concept(iri, Page(limit, offset))

    def relation(self, iri: Name, limit: Limit = 20, offset: Offset = 0) -> RelationCard:
        """Show a relation: the concepts at its ends, and its facts."""
        return self._cards.relation(iri, Page(limit, offset))

    def concepts(self, parent: Parent = None, limit: Limit = 100, offset: Offset = 0) -> ConceptList:
        """List concepts, those with the most instances first."""
        return self._cards.concepts(parent, Page(limit, offset))

    def relations(self, concept: Having = None, limit: Limit = 100, offset: Offset = 0) -> RelationList:
        """List relations, those with the most facts first, with the concepts at their ends."""
        return self._cards.relations(concept, Page(limit, offset))

    def candidates(
        self, relation: Predicate, within: Within = None, types: Types = None, limit: Few = 10, offset: Passed = 0
    ) -> CandidateList:
        """List the most likely new facts of a relation, with what speaks for each."""
        if not isinstance(self._desk.answerer, Reasoner):
            raise QueryError("a store predicts nothing: train a model on it, and serve the run")
        query = None if within is None else self._desk.read(within)
        return self._desk.answerer.candidates(relation, query, limit, types, offset)

    async def reload(self, request: Request) -> Response:
        """Open the run or store anew, which may have changed, and serve that; no request is lost."""
        if not self._has_key:
            detail = "Start the server with --api-key or TARBOX_API_KEY to have this route, or send it SIGHUP."
            return ProblemReply("no-key", detail)
        ask = getattr(request.state, "reload", None)
        if ask is None:
            return ProblemReply("reload", "One process serves here, and no other can take its place: start it again.")
        try:
            async with asyncio.timeout(self._seconds * 0.9):
                return json_reply(to_json(ReloadReply(status="reloaded", facts=await ask())))
        except TimeoutError:
            return json_reply(to_json(ReloadReply(status="loading")), 202)
        except StoreError as error:
            return ProblemReply("reload", str(error))

    async def health(self) -> Response:
        """Say whether this worker does its work, and how many others do."""
        if self._desk.is_stuck():
            raise Overloaded(_SLOW)
        board = self._metrics.board
        up, expected = min(len(board.ready()), board.workers), board.workers
        told = {"status": "ok" if up >= expected else "degraded", "title": self._kb.title, "version": __version__}
        return json_reply(to_json(told | {"workers": {"up": up, "expected": expected}}))

    async def ready(self) -> Response:
        """Ask a question, and say whether it was answered in time."""
        try:
            async with asyncio.timeout(min(self._seconds, READY_IN)):
                await self._desk.answer(AnswerRequest.model_validate({"query": "owl:Thing", "k": 1}))
        except TimeoutError:
            raise Overloaded(_SLOW) from None
        return await self.health()

    async def metrics(self) -> Response:
        """Counts and times of all workers, for Prometheus."""
        return Response(self._metrics.render(), media_type=METRICS_TYPE)


def read_question(query_string: bytes) -> AnswerRequest | None:
    """The question that parameters ask, where they are plainly right."""
    try:
        pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, strict_parsing=True)
        return AnswerRequest.model_validate_strings(dict(pairs)) if len(dict(pairs)) == len(pairs) else None
    except ValueError:
        return None
