"""The SPARQL 1.1 protocol, for the queries that are trees: request in, SPARQL results out.

Each solution binds the selected variable, and `degree` and `status` besides (numbered, `degree_1`, where the query has
selected that name itself). An ASK is true where a known answer is there. Results come as JSON or XML, as the client's
`Accept` asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final
from urllib.parse import parse_qs
from xml.sax.saxutils import escape, quoteattr

from tarbox.core.errors import QueryError
from tarbox.http.replies import encode
from tarbox.kb.terms import from_ntriples, is_blank, is_literal, split_literal
from tarbox.query.names import XSD
from tarbox.service.answers import EntityAnswer

SPARQL_JSON: Final = "application/sparql-results+json"
SPARQL_XML: Final = "application/sparql-results+xml"
FORM: Final = "application/x-www-form-urlencoded"
QUERY: Final = "application/sparql-query"
_FORMATS: Final[Mapping[str, str]] = {
    SPARQL_JSON: SPARQL_JSON,
    "application/json": SPARQL_JSON,
    "text/javascript": SPARQL_JSON,
    "application/javascript": SPARQL_JSON,
    SPARQL_XML: SPARQL_XML,
    "application/xml": SPARQL_XML,
    "text/xml": SPARQL_XML,
    "application/*": SPARQL_JSON,
    "*/*": SPARQL_JSON,
}
_XML_START: Final = '<?xml version="1.0"?>\n<sparql xmlns="http://www.w3.org/2005/sparql-results#">'
_MODIFIER: Final = re.compile(r"\s+(LIMIT|OFFSET)\s+(\d{1,9})\s*$", re.IGNORECASE)
_SELECTED: Final = re.compile(r"\bSELECT\s+(?:(?:DISTINCT|REDUCED)\s+)?(?:[?$](\w+)|\*)", re.IGNORECASE)
_ASKS: Final = re.compile(r"(?:\s+|#[^\n]*(?:\n|$)|PREFIX\s+[^\s<]*\s*<[^<>]*>|BASE\s*<[^<>]*>)*ASK\b", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"[?$](\w+)")


@final
@dataclass(frozen=True, slots=True)
class SparqlRequest:
    """A query less its solution modifiers: `limit` is None where it has none. `asks` for yes or no.

    What follows from the facts is meant, and where `predicted`, what a model predicts as well.
    """

    query: str
    variable: str
    limit: int | None
    offset: int
    asks: bool = False
    predicted: bool = False


def read_parameters(text: str) -> dict[str, list[str]]:
    """The parameters of an address or a form."""
    return parse_qs(text, keep_blank_values=True, max_num_fields=50)


def read_request(parameters: Mapping[str, Sequence[str]]) -> SparqlRequest:
    """The request that parameters make. Raises `QueryError` as the protocol asks for its status 400."""
    if any(parameters.get(name) for name in ("default-graph-uri", "named-graph-uri")):
        raise QueryError("there is one graph here: leave default-graph-uri and named-graph-uri out")
    if parameters.get("update"):
        raise QueryError("the knowledge base cannot be changed here: send a query, not an update")
    given = parameters.get("query", [])
    if len(given) != 1:
        raise QueryError(f"give one parameter 'query', not {len(given)}")
    predicted = parameters.get("predicted", ["false"])[-1].lower()
    if predicted not in ("true", "false"):
        raise QueryError(f"predicted = {predicted!r}: say true or false")
    return replace(split_modifiers(given[0]), predicted=predicted == "true")


def split_modifiers(text: str) -> SparqlRequest:
    """Takes LIMIT and OFFSET, in either order, off the end of a query.

    >>> request = split_modifiers("SELECT ?x { ?x <urn:p> <urn:a> } LIMIT 5")
    >>> request.query, request.variable, request.limit, request.offset, request.asks
    ('SELECT ?x { ?x <urn:p> <urn:a> }', 'x', 5, 0, False)
    """
    taken: dict[str, int] = {}
    rest = text
    while (found := _MODIFIER.search(rest)) and found[1].upper() not in taken:
        taken[found[1].upper()] = int(found[2])
        rest = rest[: found.start()]
    selected = _SELECTED.search(rest)
    named = selected[1] if selected and selected[1] else None
    anywhere = _VARIABLE.search(rest)
    variable = named or (anywhere[1] if anywhere else "x")
    asks = _ASKS.match(text) is not None
    return SparqlRequest(rest, variable, taken.get("LIMIT"), taken.get("OFFSET", 0), asks)


def choose_format(accept: str, wanted: str = "") -> str | None:
    """The media type of the reply: as a parameter says (`json` or `xml`), else the best that `Accept` allows."""
    if wanted.lower() in ("json", "xml"):
        return SPARQL_JSON if wanted.lower() == "json" else SPARQL_XML
    ranked: list[tuple[float, int, str]] = []
    for place, part in enumerate(accept.split(",") if accept.strip() else ["*/*"]):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        quality = next((_quality(p) for p in parameters if p.startswith("q=")), 1.0)
        if media.lower() in _FORMATS and quality > 0:
            ranked.append((-quality, place, _FORMATS[media.lower()]))
    return min(ranked)[2] if ranked else None


def write_results(request: SparqlRequest, answers: Iterable[EntityAnswer], media_type: str) -> bytes:
    """The answers as SPARQL results."""
    names = [request.variable, *(_apart(name, request.variable) for name in ("degree", "status"))]
    rows = [dict(zip(names, _bindings(answer), strict=True)) for answer in answers]
    if media_type == SPARQL_XML:
        return _xml(names, rows)
    return encode({"head": {"vars": names}, "results": {"bindings": rows}})


def write_truth(truth: bool, media_type: str) -> bytes:
    """Yes or no as SPARQL results."""
    if media_type == SPARQL_XML:
        return f"{_XML_START}<head/><boolean>{str(truth).lower()}</boolean></sparql>\n".encode()
    return encode({"head": {}, "boolean": truth})


def _quality(parameter: str) -> float:
    try:
        return float(parameter[2:])
    except ValueError:
        return 0.0


def _apart(name: str, taken: str) -> str:
    return f"{name}_1" if name == taken else name


def _bindings(answer: EntityAnswer) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    degree = {"type": "literal", "value": repr(float(answer.degree)), "datatype": f"{XSD}double"}
    return _term(from_ntriples(answer.iri)), degree, {"type": "literal", "value": answer.status}


def _term(term: str) -> dict[str, Any]:
    if is_blank(term):
        return {"type": "bnode", "value": term[2:]}
    if not is_literal(term):
        return {"type": "uri", "value": term}
    value, language, datatype = split_literal(term)
    more = {"xml:lang": language} if language else {"datatype": datatype} if datatype else {}
    return {"type": "literal", "value": value, **more}


def _xml(names: Sequence[str], rows: Sequence[Mapping[str, Mapping[str, str]]]) -> bytes:
    head = "".join(f"<variable name={quoteattr(name)}/>" for name in names)
    body = "".join(f"<result>{''.join(map(_xml_binding, row.items()))}</result>" for row in rows)
    return f"{_XML_START}<head>{head}</head><results>{body}</results></sparql>\n".encode("utf-8", "replace")


def _xml_binding(binding: tuple[str, Mapping[str, str]]) -> str:
    name, term = binding
    more = "".join(f" {key}={quoteattr(term[key])}" for key in ("xml:lang", "datatype") if key in term)
    return f"<binding name={quoteattr(name)}><{term['type']}{more}>{escape(term['value'])}</{term['type']}></binding>"
