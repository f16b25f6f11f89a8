"""`/sparql`: GET, POST of a form, and POST of a query as it is, as the SPARQL 1.1 protocol says."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from tarbox.http.desk import Desk
from tarbox.http.problems import problem
from tarbox.http.routes import failures
from tarbox.http.schemas import SparqlReply
from tarbox.http.settings import Bounds
from tarbox.http.sparql_protocol import (
    FORM,
    JSON,
    QUERY,
    XML,
    choose_format,
    read_parameters,
    read_request,
    write_results,
)
from tarbox.service.answering import Question

EXAMPLE: Final = "SELECT ?x WHERE { ?x a <https://tarbox.example/academia#Person> }"
_RESULTS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": SparqlReply, "content": {JSON: {}, XML: {"schema": {"type": "string"}}}},
}
_FORM_SCHEMA: Final = {
    "type": "object",
    "required": ["query"],
    "properties": {"query": {"type": "string"}},
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
                description="A SELECT of one variable over a tree of patterns.",
                openapi_examples={"persons": {"value": EXAMPLE}},
            ),
        ],
        accept: Annotated[str, Header(include_in_schema=False)] = "*/*",
    ) -> Response:
        """Answer a SPARQL query; each solution has `degree` and `status` besides the variable."""
        del query  # documented here, read with the other parameters
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
        return problem("not-acceptable", f"Results come as {JSON} or {XML}.")
    asked = read_request(parameters)
    tree = await desk.parse(asked.query, sparql=True)
    most = bounds.rows if asked.limit is None else min(asked.limit, bounds.rows)

    def results() -> tuple[bytes, int]:
        found = desk.answerer.answer_many([Question(tree, asked.offset + most)])[0]
        likely = [answer for answer in found.entities[asked.offset :][:most] if answer.degree > 0]
        return write_results(asked, likely, media_type), found.entity_count

    content, count = await desk.work(results)
    return Response(content, headers={"X-Total-Count": str(count)}, media_type=media_type)
