"""`/sparql`: GET, POST of a form, and POST of a query as it is, as the SPARQL 1.1 protocol says (ADR 38)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, final

from fastapi import Header, Query, Request
from starlette.datastructures import QueryParams
from starlette.responses import Response

from tarbox.core.errors import QueryError
from tarbox.http.problems import ProblemReply
from tarbox.http.settings import Bounds
from tarbox.query.sparql_results import ANY_MEDIA, formats_of
from tarbox.service.degrees import MIN_DEGREE
from tarbox.service.dispatcher import Dispatcher, check_text
from tarbox.service.predicted_solutions import solutions_query

FORM: Final = "application/x-www-form-urlencoded"
QUERY: Final = "application/sparql-query"
DEGREE: Final = re.compile(r"0(\.\d{1,9})?|1(\.0{1,9})?", re.ASCII)
EXAMPLE: Final = "SELECT ?x WHERE { ?x a <https://tarbox.example/academia#Person> }"
_FORMATS: Final = formats_of(graph=False) + formats_of(graph=True)
SPARQL_RESULTS: Final[Mapping[int, object]] = {200: {"content": {each.media_type: {"schema": {}} for each in _FORMATS}}}
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
_CONTENT: Final = {FORM: {"schema": _FORM_SCHEMA}, QUERY: {"schema": {"type": "string"}, "example": EXAMPLE}}
SPARQL_BODY: Final = {"requestBody": {"required": True, "content": _CONTENT}}
Accept = Annotated[str, Header(include_in_schema=False)]
Predicted = Annotated[str, Query(description="`true`: predictions follow what is known.")]
_WHAT: Final = "A query of SPARQL 1.1; without one, the reply describes the service."
Text = Annotated[str | None, Query(description=_WHAT, openapi_examples={"persons": {"value": EXAMPLE}})]


@final
class SparqlEndpoint:
    """An engine over what is known, and a model's predictions where they are asked for."""

    def __init__(self, desk: Dispatcher, bounds: Bounds) -> None:
        self._desk, self._bounds = desk, bounds

    async def sparql(
        self, request: Request, query: Text = None, predicted: Predicted = "false", accept: Accept = ANY_MEDIA
    ) -> Response:
        """Answer a SPARQL query over what is known."""
        del predicted  # documented here, read with the other parameters
        if query is None and "update" not in request.query_params:
            return Response(_DESCRIPTION, media_type=formats_of(graph=True)[0].media_type)
        return await self._respond(request.query_params, accept)

    async def sparql_posted(self, request: Request, accept: Accept = ANY_MEDIA) -> Response:
        """Answer a SPARQL query from a form, or sent as it is."""
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        body = (await request.body()).decode("utf-8", "replace")
        if media not in (FORM, QUERY):
            accepted = {"Accept-Post": f"{FORM}, {QUERY}"}
            return ProblemReply("media-type", f"Send the query as {FORM} or as {QUERY}.", accepted)
        sent = QueryParams(body).multi_items() if media == FORM else [("query", body)]
        return await self._respond(QueryParams([*request.query_params.multi_items(), *sent]), accept)

    async def _respond(self, parameters: QueryParams, accept: str) -> Response:
        """The results that parameters ask for, in a format that the client accepts; blank ones say nothing."""
        if any(any(parameters.getlist(name)) for name in ("default-graph-uri", "named-graph-uri")):
            raise QueryError("there is one graph here: leave default-graph-uri and named-graph-uri out")
        if "update" in parameters:
            raise QueryError("the knowledge base cannot be changed here: send a query, not an update")
        given = parameters.getlist("query")
        if len(given) != 1:
            raise QueryError(f"give one parameter 'query', not {len(given)}")
        predicted = (parameters.get("predicted") or "false").lower()
        if predicted not in ("true", "false"):
            raise QueryError(f"predicted = {predicted!r}: say true or false")
        text, headers = given[0], {}
        if predicted == "true":
            least = parameters.get("min-degree") or str(MIN_DEGREE)
            if not DEGREE.fullmatch(least):
                raise QueryError(f"min-degree = {least!r}: say a number from 0 to 1")
            text, total = await self._desk.work(self._predict, text, float(least))
            headers = {"X-Total-Count": str(total)}
        else:
            check_text(text, self._bounds.body)
        format = parameters.get("format") or parameters.get("output") or ""
        content, media_type = await self._desk.engine.ask(text, accept, format)
        return Response(content, headers=headers, media_type=media_type)

    def _predict(self, text: str, least: float) -> tuple[str, int]:
        selected = self._desk.read_selection(text)
        return solutions_query(self._desk.answerer, selected, least, self._bounds.rows)
