"""`/sparql`: GET, POST of a form, and POST of a query as it is, as the SPARQL 1.1 protocol says (ADR 49)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from tarbox.core.errors import QueryError
from tarbox.http.dispatcher import Dispatcher as Desk
from tarbox.http.problems import problem
from tarbox.http.replies import check_text
from tarbox.http.routes import failures
from tarbox.query.names import XSD
from tarbox.query.sparql_results import ANY_MEDIA, formats_of
from tarbox.service.answering import Question
from tarbox.service.degrees import MIN_DEGREE

FORM: Final = "application/x-www-form-urlencoded"
QUERY: Final = "application/sparql-query"
DEGREE: Final = re.compile(r"0(\.\d{1,9})?|1(\.0{1,9})?", re.ASCII)
EXAMPLE: Final = "SELECT ?x WHERE { ?x a <https://tarbox.example/academia#Person> }"
_FORMATS: Final = formats_of(graph=False) + formats_of(graph=True)
_RESULTS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {each.media_type: {"schema": {}} for each in _FORMATS}},
}
_DESCRIPTION: Final = f"""\
@prefix sd: <http://www.w3.org/ns/sparql-service-description#> .
[] a sd:Service ; sd:endpoint <> ; sd:supportedLanguage sd:SPARQL11Query ;
  sd:resultFormat {", ".join(f"<{each.iri}>" for each in _FORMATS)} ;
  sd:defaultDataset [ a sd:Dataset ; sd:defaultGraph [ a sd:Graph ] ] .
"""
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
Parameters = Mapping[str, list[str]]


def sparql(desk: Desk) -> APIRouter:
    """The SPARQL endpoint: an engine over what is known, and a model's predictions where they are asked for."""
    router = APIRouter()

    @router.get("/sparql", responses={**_RESULTS, **failures(406)}, response_class=Response, operation_id="sparql")
    async def sparql_get(
        request: Request,
        query: Annotated[
            str | None,
            Query(
                description="A query of SPARQL 1.1; without one, the reply describes the service.",
                openapi_examples={"persons": {"value": EXAMPLE}},
            ),
        ] = None,
        predicted: Annotated[str, Query(description="`true`: predictions follow what is known.")] = "false",
        accept: Annotated[str, Header(include_in_schema=False)] = ANY_MEDIA,
    ) -> Response:
        """Answer a SPARQL query over what is known."""
        del predicted  # documented here, read with the other parameters
        parameters = _read(request.url.query)
        if query is None and "update" not in parameters:
            return Response(_DESCRIPTION, media_type=formats_of(graph=True)[0].media_type)
        return await _respond(desk, parameters, accept)

    @router.post(
        "/sparql",
        responses={**_RESULTS, **failures(406, 415)},
        response_class=Response,
        operation_id="sparql_posted",
        openapi_extra=_BODY,
    )
    async def sparql_post(
        request: Request, accept: Annotated[str, Header(include_in_schema=False)] = ANY_MEDIA
    ) -> Response:
        """Answer a SPARQL query from a form, or sent as it is."""
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        body = (await request.body()).decode("utf-8", "replace")
        parameters = _read(request.url.query)
        if media == FORM:
            parameters |= _read(body)
        elif media == QUERY:
            parameters["query"] = [body]
        else:
            return problem(
                "media-type", f"Send the query as {FORM} or as {QUERY}.", {"Accept-Post": f"{FORM}, {QUERY}"}
            )
        return await _respond(desk, parameters, accept)

    return router


def _read(text: str) -> dict[str, list[str]]:
    """The parameters of an address or a form."""
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=50)
    except ValueError as error:
        raise QueryError(f"these are no parameters: {error}") from error


def _format(parameters: Parameters) -> str:
    return next((parameters[name][-1] for name in ("format", "output") if parameters.get(name)), "")


async def _respond(desk: Desk, parameters: Parameters, accept: str) -> Response:
    """The results that parameters ask for, in a format that the client accepts; blank ones say nothing."""
    if any("".join(parameters.get(name, ())) for name in ("default-graph-uri", "named-graph-uri")):
        raise QueryError("there is one graph here: leave default-graph-uri and named-graph-uri out")
    if "update" in parameters:
        raise QueryError("the knowledge base cannot be changed here: send a query, not an update")
    given = parameters.get("query", [])
    if len(given) != 1:
        raise QueryError(f"give one parameter 'query', not {len(given)}")
    predicted = parameters.get("predicted", [""])[-1].lower() or "false"
    if predicted not in ("true", "false"):
        raise QueryError(f"predicted = {predicted!r}: say true or false")
    text, headers = given[0], {}
    if predicted == "true":
        least = parameters.get("min-degree", [""])[-1] or str(MIN_DEGREE)
        if not DEGREE.fullmatch(least):
            raise QueryError(f"min-degree = {least!r}: say a number from 0 to 1")
        text, total = await desk.work(_predict, desk, text, float(least))
        headers = {"X-Total-Count": str(total)}
    else:
        check_text(text, desk.bounds.body)
    content, media_type = await desk.sparql.ask(text, accept, _format(parameters))
    return Response(content, headers=headers, media_type=media_type)


def _predict(desk: Desk, text: str, least: float) -> tuple[str, int]:
    """A query whose solutions are what is known and then what is predicted, and how many of them there are.

    They have `degree` and `status` beside the variable selected; the engine writes them in any format.
    """
    selected = desk.replies.read_selection(text)
    rows, offset = desk.bounds.rows, selected.offset
    is_sifted = bool(selected.condition or selected.order)  # then the engine takes the part that is asked for
    most = rows if selected.limit is None else min(selected.limit, rows)
    reach = rows if is_sifted else offset + most
    found = desk.answerer.answer_many([Question(selected.query, reach, min_degree=least)])[0]
    names = [f"?{name}" + "_1" * (name == selected.variable) for name in ("degree", "status")]
    variables = " ".join([f"?{selected.variable}", *names])
    shown = " ".join(f"?{name}" for name in selected.selected) if len(selected.selected) > 1 else variables
    listed = "\n".join(
        f'({answer.iri} "{float(answer.degree)!r}"^^<{XSD}double> "{answer.status}")'
        for answer in found.entities[0 if is_sifted else offset :][: rows if is_sifted else most]
    )
    condition = f" FILTER({selected.condition})" if selected.condition else ""
    order = f" ORDER BY{selected.order}" if selected.order else ""
    part = f" OFFSET {offset} LIMIT {most}" if is_sifted else ""
    return f"SELECT {shown} {{ VALUES ({variables}) {{ {listed} }}{condition} }}{order}{part}", found.entity_count
