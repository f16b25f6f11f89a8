"""`/sparql`, with an unmodified client and by hand."""

from __future__ import annotations

import warnings
from xml.etree import ElementTree

import httpx
import pytest

from tarbox.http.sparql_protocol import choose_format, split_modifiers
from tarbox.service.knowledge_base import KnowledgeBase

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from SPARQLWrapper import JSON, POST, POSTDIRECTLY, XML, SPARQLWrapper
    from SPARQLWrapper.SPARQLExceptions import QueryBadFormed

NS = "https://tarbox.example/academia#"
QUERY = f"""
PREFIX : <{NS}>
SELECT ?person WHERE {{
  ?person a :Person ; :worksAt ?u .
  ?u a :University ; :locatedIn :Canada .
  FILTER NOT EXISTS {{ ?person :bornIn :Canada }}
}}"""
MANCHESTER = "Person and (worksAt some (University and locatedIn value Canada)) and not (bornIn value Canada)"


@pytest.fixture
def expected(kb: KnowledgeBase) -> list[str]:
    return [answer.iri[1:-1] for answer in kb.answer(MANCHESTER).entities]


@pytest.mark.parametrize("method", ["GET", POST])
@pytest.mark.parametrize("direct", [False, True])
def test_sparqlwrapper_unmodified(address: str, expected: list[str], method: str, direct: bool) -> None:
    wrapper = SPARQLWrapper(f"{address}/sparql")
    wrapper.setQuery(QUERY)
    wrapper.setReturnFormat(JSON)
    wrapper.setMethod(method)
    if direct:
        wrapper.setRequestMethod(POSTDIRECTLY)
    found = wrapper.query().convert()
    assert found["head"]["vars"] == ["person", "degree", "status"]
    rows = found["results"]["bindings"]
    assert [row["person"]["value"] for row in rows] == expected
    assert {(row["degree"]["value"], row["status"]["value"]) for row in rows} == {("1.0", "known")}


def test_sparqlwrapper_in_its_default_format(address: str, expected: list[str]) -> None:
    wrapper = SPARQLWrapper(f"{address}/sparql", returnFormat=XML)
    wrapper.setQuery(QUERY)
    document = wrapper.query().convert()
    found = [node.firstChild.data for node in document.getElementsByTagName("uri")]
    assert found == expected


def test_sparqlwrapper_sees_a_mistake_as_one(address: str) -> None:
    wrapper = SPARQLWrapper(f"{address}/sparql", returnFormat=JSON)
    wrapper.setQuery("SELECT ?x { ?x OPTIONAL }")
    with pytest.raises(QueryBadFormed, match="not SPARQL"):
        wrapper.query()


def test_limit_and_offset(client: httpx.Client, expected: list[str]) -> None:
    reply = client.get("/sparql", params={"query": QUERY + " LIMIT 2 OFFSET 3"})
    assert [row["person"]["value"] for row in reply.json()["results"]["bindings"]] == expected[3:5]
    assert reply.headers["x-total-count"] == str(len(expected))
    assert client.get("/sparql", params={"query": QUERY + " LIMIT 0"}).json()["results"]["bindings"] == []


def test_formats(client: httpx.Client) -> None:
    for accept, media in [
        ("*/*", "application/sparql-results+json"),
        (
            "application/sparql-results+xml;q=0.9, application/sparql-results+json;q=0.2",
            "application/sparql-results+xml",
        ),
        ("text/html, application/json", "application/sparql-results+json"),
    ]:
        reply = client.get("/sparql", params={"query": QUERY}, headers={"Accept": accept})
        assert reply.headers["content-type"] == media
    document = ElementTree.fromstring(client.get("/sparql", params={"query": QUERY, "format": "xml"}).content)
    assert len(list(document.iter("{http://www.w3.org/2005/sparql-results#}result"))) == 7
    refused = client.get("/sparql", params={"query": QUERY}, headers={"Accept": "text/turtle"})
    assert refused.status_code == 406
    assert choose_format("application/json;q=0") is None
    assert choose_format("application/json;q=x") is None


@pytest.mark.parametrize(
    ("parameters", "status", "reason"),
    [
        ({}, 400, "query"),
        ({"query": "SELECT"}, 400, "not SPARQL"),
        ({"query": "ASK { ?x ?y ?z }"}, 400, "cannot stand for a relation"),
        ({"query": "CONSTRUCT { ?x a ?y } WHERE { ?x a ?y }"}, 400, "not answerable"),
        ({"query": "SELECT ?x ?y { ?x ?p ?y }"}, 400, "one variable"),
        ({"query": QUERY, "default-graph-uri": "urn:g"}, 400, "one graph"),
        ({"query": QUERY, "update": "DROP ALL"}, 400, "cannot be changed"),
        ({"query": "SELECT ?x { " + "?x a <urn:c> . " * 1_000 + "}"}, 400, "8,000"),
        ({"query": "SELECT ?x " + "{" * 900 + "}" * 900}, 400, "nested"),
    ],
)
def test_errors_as_the_protocol_says(
    client: httpx.Client, parameters: dict[str, str], status: int, reason: str
) -> None:
    reply = client.get("/sparql", params=parameters)
    assert reply.status_code == status
    assert reply.headers["content-type"] == "application/problem+json"
    assert reason in reply.json()["detail"]


ASKED = [
    ("ASK { ?x a :Person ; :worksAt :Google }", True),
    ("ASK WHERE { :GeoffreyHinton a :Person }", True),
    ("ASK { :GeoffreyHinton a :University }", False),
    ("ASK { :Google :uses :Backpropagation . :GeoffreyHinton :investigates :Backpropagation }", False),
    ("ASK { :GeoffreyHinton :investigates :Backpropagation }", True),
    ("# why not?\nASK { ?x :worksAt <urn:nowhere> }", False),
    ("ASK {}", True),
]


@pytest.mark.parametrize(("text", "truth"), ASKED)
def test_yes_or_no(client: httpx.Client, text: str, truth: bool) -> None:
    query = f"PREFIX : <{NS}>\n{text}"
    if "Backpropagation ." in text:
        assert client.get("/sparql", params={"query": query}).status_code == 400  # two facts that nothing connects
        return
    assert client.get("/sparql", params={"query": query}).json() == {"head": {}, "boolean": truth}
    document = ElementTree.fromstring(client.get("/sparql", params={"query": query, "format": "xml"}).content)
    assert document.findtext("{http://www.w3.org/2005/sparql-results#}boolean") == str(truth).lower()


def test_an_unmodified_client_asks(address: str) -> None:
    wrapper = SPARQLWrapper(f"{address}/sparql", returnFormat=JSON)
    wrapper.setQuery(f"ASK {{ ?x a <{NS}Person> }}")
    assert wrapper.queryAndConvert()["boolean"] is True


def test_unknown_terms_are_in_no_set(client: httpx.Client) -> None:
    """As SPARQL says: also within a union and under NOT EXISTS."""

    def found(query: str) -> httpx.Response:
        return client.get("/sparql", params={"query": f"PREFIX : <{NS}> SELECT ?x {{ {query} }}"})

    nothing = found("?x a <urn:nöthing> ; :worksAt <urn:nowhere>")
    assert nothing.status_code == 200
    assert nothing.json()["results"]["bindings"] == []
    assert nothing.headers["x-unknown-terms"] == "<urn:n%C3%B6thing>, <urn:nowhere>"
    every = found("?x a :Person")
    assert "x-unknown-terms" not in every.headers
    for same in ("{ ?x a :Person } UNION { ?x a <urn:nothing> }", "?x a :Person FILTER NOT EXISTS { ?x <urn:p> ?y }"):
        assert found(same).json() == every.json()
    assert (
        client.get("/api/answer", params={"query": "SELECT ?x { ?x a <urn:c> }", "language": "sparql"}).status_code
        == 400
    )


def test_posts(client: httpx.Client, expected: list[str]) -> None:
    sent = client.post("/sparql", content=QUERY, headers={"Content-Type": "application/sparql-query; charset=utf-8"})
    assert [row["person"]["value"] for row in sent.json()["results"]["bindings"]] == expected
    assert client.post("/sparql", json={"query": QUERY}).status_code == 415
    assert client.post("/sparql", data={"update": "DROP ALL"}).status_code == 400


def test_what_the_query_calls_degree_stays_its_own(client: httpx.Client) -> None:
    found = client.get("/sparql", params={"query": QUERY.replace("?person", "?degree")}).json()
    assert found["head"]["vars"] == ["degree", "degree_1", "status"]


def test_modifiers_are_taken_off_the_end_only() -> None:
    request = split_modifiers('SELECT * { ?x <urn:p> "a LIMIT 3" }\nOFFSET 7\nLIMIT 5')
    assert (request.variable, request.limit, request.offset) == ("x", 5, 7)
    assert request.query == 'SELECT * { ?x <urn:p> "a LIMIT 3" }'
