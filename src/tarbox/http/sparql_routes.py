"""`/sparql`: GET, POST of a form, and POST of a query as it is, as the SPARQL 1.1 protocol says."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from tarbox.execution.binding import empty_unknown
from tarbox.execution.exact import answer_query
from tarbox.http.dispatcher import Dispatcher as Desk
from tarbox.http.problems import problem
from tarbox.http.routes import failures
from tarbox.http.schemas import SparqlReply
from tarbox.http.settings import Bounds
from tarbox.http.sparql_protocol import (
    FORM,
    QUERY,
    SPARQL_JSON,
    SPARQL_XML,
    SparqlRequest,
    choose_format,
    read_parameters,
    read_request,
    write_results,
    write_truth,
)
from tarbox.service.answering import Question

EXAMPLE: Final = "SELECT ?x WHERE { ?x a <https://tarbox.example/academia#Person> }"
UNKNOWN: Final = "X-Unknown-Terms"
_NAMED: Final = 5
_SAFE: Final = ":/?#[]@!$&'()*+;=%~"
_RESULTS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": SparqlReply, "content": {SPARQL_JSON: {}, SPARQL_XML: {"schema": {"type": "string"}}}},
}
_FORM_SCHEMA: Final = {
    "type": "object",
    "required": ["query"],
    "properties": {"query": {"type": "string"}, "predicted": {"type": "boolean", "default": False}},
    "example": {"query": EXAMPLE},
}
_BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {
            FORM: {"schema": _FORM_SCHEMA},
            QUERY: {"schema": {"type": "string"}, "example": EXAMPLE},
        },
    }
}


def sparql(desk: Desk, bounds: Bounds) -> APIRouter:
    """The SPARQL endpoint; replies have at most `bounds.rows` solutions, and the header X-Total-Count says how many
    there are."""
    router = APIRouter()

    @router.get("/sparql", responses={**_RESULTS, **failures(406)}, response_class=Response, operation_id="sparql")
    async def sparql_get(
        request: Request,
        query: Annotated[
            str,
            Query(
                description="A SELECT of one variable, or an ASK, over a tree of patterns.",
                openapi_examples={"persons": {"value": EXAMPLE}},
            ),
        ],
        predicted: Annotated[bool, Query(description="Whether predictions follow what the facts say.")] = False,
        accept: Annotated[str, Header(include_in_schema=False)] = "*/*",
    ) -> Response:
        """Answer a SPARQL query; each solution has `degree` and `status` besides the variable."""
        del query, predicted  # documented here, read with the other parameters
        return await _respond(desk, bounds, read_parameters(request.url.query), accept)

    @router.post(
        "/sparql",
        responses={**_RESULTS, **failures(406, 415)},
        response_class=Response,
        operation_id="sparql_posted",
        openapi_extra=_BODY,
    )
    async def sparql_post(
        request: Request, accept: Annotated[str, Header(include_in_schema=False)] = "*/*"
    ) -> Response:
        """Answer a SPARQL query from a form, or sent as it is."""
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        body = (await request.body()).decode("utf-8", "replace")
        parameters = read_parameters(request.url.query)
        if media == FORM:
            parameters |= read_parameters(body)
        elif media == QUERY:
            parameters["query"] = [body]
        else:
            return problem(
                "media-type", f"Send the query as {FORM} or as {QUERY}.", {"Accept-Post": f"{FORM}, {QUERY}"}
            )
        return await _respond(desk, bounds, parameters, accept)

    return router


async def _respond(desk: Desk, bounds: Bounds, parameters: dict[str, list[str]], accept: str) -> Response:
    """The results that parameters ask for, in a format that the client accepts."""
    wanted = next((parameters[name][0] for name in ("format", "output") if parameters.get(name)), "")
    media_type = choose_format(accept, wanted)
    if media_type is None:
        return problem("not-acceptable", f"Results come as {SPARQL_JSON} or {SPARQL_XML}.")
    return await desk.work(_results, desk, bounds, read_request(parameters), media_type)


def _results(desk: Desk, bounds: Bounds, asked: SparqlRequest, media_type: str) -> Response:
    """What follows from the facts, and predictions where they are asked for.

    Terms that the knowledge base does not have are in no set, as SPARQL says; a header tells of them. What a model
    predicts from terms it has never seen means nothing, so such queries get facts only.
    """
    tree, unknown = empty_unknown(
        desk.replies.read_ask(asked.query) if asked.asks else desk.replies.read(asked.query, sparql=True),
        desk.kb.facts.vocabulary,
    )
    headers = {UNKNOWN: ", ".join(f"<{quote(term, safe=_SAFE)}>" for term in unknown[:_NAMED])} if unknown else {}
    if asked.asks:
        truth = bool(len(answer_query(tree, desk.kb.index).entities))
        return Response(write_truth(truth, media_type), headers=headers, media_type=media_type)
    most = bounds.rows if asked.limit is None else min(asked.limit, bounds.rows)
    k = asked.offset + most
    predicts = asked.predicted and not unknown
    found = desk.answerer.answer_many([Question(tree, k)])[0] if predicts else desk.kb.answer(tree, k)
    listed = found.entities[asked.offset :][:most]
    headers["X-Total-Count"] = str(found.entity_count)
    return Response(write_results(asked, listed, media_type), headers=headers, media_type=media_type)
