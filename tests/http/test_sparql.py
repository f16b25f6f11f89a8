"""`/sparql`: all of SPARQL 1.1 query as the engine answers it over an export, with unmodified clients and by hand."""

from __future__ import annotations

import asyncio
import csv
import http.server
import io
import shutil
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pyoxigraph
import pytest
import rdflib
from rdflib.plugins.stores.sparqlstore import SPARQLStore

from sparql_queries import NS, PREFIXES, PROTEGE, WRITTEN, YASGUI, drawn_queries
from tarbox.core.errors import QueryTooLarge
from tarbox.http.settings import Bounds, ServerSettings
from tarbox.kb import sparql_index
from tarbox.kb.export import export
from tarbox.kb.store import open_store
from tarbox.query.sparql_results import choose_format
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.sparql_engine import BoundedEngine, EngineLimits

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from SPARQLWrapper import CSV, JSON, JSONLD, N3, POST, POSTDIRECTLY, RDFXML, TSV, TURTLE, XML, SPARQLWrapper
    from SPARQLWrapper.SPARQLExceptions import QueryBadFormed

QUERY = f"""
PREFIX : <{NS}>
SELECT ?person WHERE {{
  ?person a :Person ; :worksAt ?u .
  ?u a :University ; :locatedIn :Canada .
  FILTER NOT EXISTS {{ ?person :bornIn :Canada }}
}}"""
MANCHESTER = "Person and (worksAt some (University and locatedIn value Canada)) and not (bornIn value Canada)"
CLOSE = """
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
INSERT { ?x a ?above } WHERE { ?x a/rdfs:subClassOf+ ?above FILTER(ISIRI(?above)) }"""
GRAPH = "CONSTRUCT WHERE { ?x <https://tarbox.example/academia#bornIn> ?y }"
DRAWN = 120


@pytest.fixture
def expected(kb: KnowledgeBase) -> list[str]:
    return sorted(answer.iri[1:-1] for answer in kb.answer(MANCHESTER).entities)


@pytest.fixture(scope="module")
def direct(store: Path, tmp_path_factory: pytest.TempPathFactory) -> pyoxigraph.Store:
    """The engine on the exported N-Triples; closed under subsumption by the engine itself."""
    file = tmp_path_factory.mktemp("export") / "kb.nt"
    opened = open_store(store)
    export(opened.facts, file, opened.axioms())
    engine = pyoxigraph.Store()
    engine.load(path=str(file))
    engine.update(CLOSE)
    return engine


@pytest.fixture(scope="module")
def on_disk(store: Path, serve: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The same store, taken for a large one."""
    copy = tmp_path_factory.mktemp("large") / "academia"
    shutil.copytree(store, copy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparql_index, "IN_MEMORY", 0)
        with serve(by=KnowledgeBase.load(copy)) as address, httpx.Client(base_url=address) as opened:
            yield opened
    assert [file.name for file in copy.iterdir() if "sparql" in file.name] == [
        f"sparql-1-{open_store(copy).manifest['content_hash']}"
    ]


def comparable(results: Any, in_order: bool) -> Any:
    """What results say, whatever blank nodes are called; their order where it counts."""
    if isinstance(results, bool | pyoxigraph.QueryBoolean):
        return bool(results)
    if hasattr(results, "variables"):
        names = [variable.value for variable in results.variables]
        rows = [tuple(str(solution[name]) for name in names) for solution in results]
        return names, rows if in_order else Counter(rows)
    found = pyoxigraph.Dataset(
        pyoxigraph.Quad(*triple) if isinstance(triple, pyoxigraph.Triple) else triple for triple in results
    )
    found.canonicalize(pyoxigraph.CanonicalizationAlgorithm.UNSTABLE)
    return found


def fetched(client: httpx.Client, text: str, in_order: bool, format: str) -> Any:
    reply = client.post("/sparql", data={"query": text, "format": format})
    assert reply.status_code == 200, reply.text
    media = reply.headers["content-type"].partition(";")[0]
    kind = pyoxigraph.QueryResultsFormat.from_media_type(media)
    if kind is not None:
        return comparable(pyoxigraph.parse_query_results(reply.content, kind), in_order)
    return comparable(pyoxigraph.parse(reply.content, pyoxigraph.RdfFormat.from_media_type(media)), in_order)


def check(client: httpx.Client, direct: pyoxigraph.Store, text: str) -> None:
    in_order = "ORDER BY" in text
    wanted = comparable(direct.query(text), in_order)
    formats = ("ttl", "nt", "rdf") if isinstance(wanted, pyoxigraph.Dataset) else ("json", "xml", "tsv")
    for format in formats:
        if not (format == "tsv" and isinstance(wanted, bool)):
            assert fetched(client, text, in_order, format) == wanted, (text, format)
    if isinstance(wanted, tuple):
        reply = client.post("/sparql", data={"query": text, "format": "csv"}).text
        rows = Counter(map(tuple, csv.reader(io.StringIO(reply))))
        said = direct.query(text).serialize(format=pyoxigraph.QueryResultsFormat.CSV).decode()
        assert "_:" in said or rows == Counter(map(tuple, csv.reader(io.StringIO(said))))


@pytest.mark.parametrize("text", WRITTEN)
def test_written_queries_are_answered_as_by_the_engine(client: httpx.Client, direct: Any, text: str) -> None:
    check(client, direct, PREFIXES + text)


@pytest.mark.parametrize("text", WRITTEN[::3])
def test_a_large_store_answers_from_its_index(on_disk: httpx.Client, direct: Any, text: str) -> None:
    check(on_disk, direct, PREFIXES + text)


def test_drawn_queries_are_answered_as_by_the_engine(client: httpx.Client, direct: Any) -> None:
    queries = list(drawn_queries(direct, DRAWN))
    assert len(set(queries)) + len(WRITTEN) >= 150
    for text in queries:
        check(client, direct, PREFIXES + text)
    solved = [text for text in queries if text.startswith("SELECT") and list(direct.query(PREFIXES + text))]
    assert len(solved) > DRAWN / 4


def test_types_are_those_of_the_exact_answers(client: httpx.Client, kb: KnowledgeBase) -> None:
    for concept in ("Person", "Company", "Agent"):
        found = client.get("/sparql", params={"query": f"SELECT ?x {{ ?x a <{NS}{concept}> }}"}).json()
        values = sorted(row["x"]["value"] for row in found["results"]["bindings"])
        assert values == [thing.iri[1:-1] for thing in kb.members(concept)]


@pytest.mark.parametrize("method", ["GET", POST])
@pytest.mark.parametrize("direct_post", [False, True])
def test_sparqlwrapper_unmodified(address: str, expected: list[str], method: str, direct_post: bool) -> None:
    wrapper = SPARQLWrapper(f"{address}/sparql")
    wrapper.setQuery(QUERY)
    wrapper.setReturnFormat(JSON)
    wrapper.setMethod(method)
    if direct_post:
        wrapper.setRequestMethod(POSTDIRECTLY)
    found = wrapper.query().convert()
    assert found["head"]["vars"] == ["person"]
    assert sorted(row["person"]["value"] for row in found["results"]["bindings"]) == expected


def test_sparqlwrapper_in_all_formats(address: str, expected: list[str], direct: pyoxigraph.Store) -> None:
    def converted(format: str, text: str) -> Any:
        wrapper = SPARQLWrapper(f"{address}/sparql", returnFormat=format)
        wrapper.setQuery(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return wrapper.query().convert()

    assert sorted(node.firstChild.data for node in converted(XML, QUERY).getElementsByTagName("uri")) == expected
    assert sorted(converted(CSV, QUERY).decode().split()[1:]) == expected
    assert sorted(line[1:-1] for line in converted(TSV, QUERY).decode().split()[1:]) == expected
    assert converted(JSON, "ASK { ?x a ?y }")["boolean"] is True
    triples = {tuple(term.value for term in triple) for triple in direct.query(GRAPH)}
    for format in (TURTLE, N3, RDFXML, JSONLD):
        graph = converted(format, GRAPH)
        if isinstance(graph, bytes):
            graph = rdflib.Graph().parse(data=graph, format="turtle")
        assert {tuple(map(str, triple)) for triple in graph} == triples


def test_sparqlwrapper_sees_a_mistake_as_one(address: str) -> None:
    wrapper = SPARQLWrapper(f"{address}/sparql", returnFormat=JSON)
    wrapper.setQuery("SELECT ?x { ?x OPTIONAL }")
    with pytest.raises(QueryBadFormed, match="not SPARQL"):
        wrapper.query()


def test_rdflib_takes_the_endpoint_for_a_graph(address: str, direct: pyoxigraph.Store) -> None:
    graph = rdflib.Graph(store=SPARQLStore(f"{address}/sparql"))
    google, works = rdflib.URIRef(NS + "Google"), rdflib.URIRef(NS + "worksAt")
    assert len(graph) == len(direct)
    around = {(str(predicate), str(value)) for predicate, value in graph.predicate_objects(google)}
    node = pyoxigraph.NamedNode(NS + "Google")
    assert around == {(quad.predicate.value, quad.object.value) for quad in direct.quads_for_pattern(node, None, None)}
    assert set(graph.subjects(works, google)) == {
        row.x for row in graph.query("SELECT ?x { ?x ?p ?g }", initBindings={"p": works, "g": google})
    }
    ordered = [str(row.x) for row in graph.query(f"SELECT ?x {{ ?x <{works}> ?y }} ORDER BY ?x LIMIT 9")]
    assert len(ordered) == 9
    assert ordered == sorted(ordered)
    assert (google, rdflib.RDFS.label, rdflib.Literal("Google")) in graph
    assert graph.query("ASK { ?x ?y ?z }").askAnswer
    assert len(graph.query(GRAPH).graph) == len(list(direct.query(GRAPH)))


def test_first_queries_of_yasgui_and_protege(client: httpx.Client) -> None:
    first = client.post(
        "/sparql", data={"query": YASGUI}, headers={"Accept": "application/sparql-results+json,*/*;q=0.9"}
    )
    assert first.headers["content-type"] == "application/sparql-results+json"
    assert len(first.json()["results"]["bindings"]) == 10
    graph = client.post("/sparql", data={"query": GRAPH}, headers={"Accept": "text/turtle,*/*;q=0.9"})
    assert graph.headers["content-type"] == "text/turtle; charset=utf-8"
    classes = client.get("/sparql", params={"query": PROTEGE}).json()
    assert classes["head"]["vars"] == ["subject", "object"]
    assert {"subject", "object"} == set(classes["results"]["bindings"][0])


def test_formats(client: httpx.Client) -> None:
    for accept, media in [
        ("*/*", "application/sparql-results+json"),
        ("", "application/sparql-results+json"),
        (
            "application/sparql-results+xml;q=0.9, application/sparql-results+json;q=0.2",
            "application/sparql-results+xml",
        ),
        ("text/html, application/json", "application/sparql-results+json"),
        ("text/csv", "text/csv; charset=utf-8"),
        ("text/*", "text/csv; charset=utf-8"),
        ("text/tab-separated-values", "text/tab-separated-values; charset=utf-8"),
    ]:
        reply = client.get("/sparql", params={"query": QUERY}, headers={"Accept": accept})
        assert reply.headers["content-type"] == media
    document = ElementTree.fromstring(client.get("/sparql", params={"query": QUERY, "format": "xml"}).content)
    assert len(list(document.iter("{http://www.w3.org/2005/sparql-results#}result"))) == 7
    for format in ("csv", "CSV", "text/csv"):
        assert client.get("/sparql", params={"query": QUERY, "format": format}).text.startswith("person\r\n")
    for format in ("", "nonsense", "ttl"):  # names no format of solutions: Accept decides
        reply = client.get("/sparql", params={"query": QUERY, "format": format})
        assert reply.headers["content-type"] == "application/sparql-results+json"
    for query, accept in [(QUERY, "text/turtle"), (GRAPH, "text/csv")]:
        refused = client.get("/sparql", params={"query": query}, headers={"Accept": accept})
        assert refused.status_code == 406
        assert "come as" in refused.json()["detail"]
    assert choose_format(False, "application/json;q=0") is None
    assert choose_format(False, "application/json;q=x") is None
    assert choose_format(True, "text/html, text/*;q=0.5") == pyoxigraph.RdfFormat.TURTLE
    assert choose_format(True, "", "nt") == pyoxigraph.RdfFormat.N_TRIPLES


def test_the_service_describes_itself(client: httpx.Client) -> None:
    place = f"{client.base_url}/sparql"
    reply = client.get("/sparql")
    assert reply.headers["content-type"] == "text/turtle; charset=utf-8"
    told = rdflib.Graph().parse(data=reply.text, format="turtle", publicID=place)
    service = "http://www.w3.org/ns/sparql-service-description#"
    languages = list(told.objects(None, rdflib.URIRef(f"{service}supportedLanguage")))
    assert languages == [rdflib.URIRef(f"{service}SPARQL11Query")]
    endpoints = list(told.objects(None, rdflib.URIRef(f"{service}endpoint")))
    assert endpoints == [rdflib.URIRef(place)]
    assert len(list(told.objects(None, rdflib.URIRef(f"{service}resultFormat")))) == 8


@pytest.mark.parametrize(
    ("parameters", "status", "reason"),
    [
        ({"query": ""}, 400, "not SPARQL: it goes wrong at its end"),
        ({"query": "SELECT"}, 400, "not SPARQL: it goes wrong at its end"),
        ({"query": "SELECT ?x { ?x a foo:Bar }"}, 400, "a prefix is not declared"),
        ({"query": "DELETE WHERE { ?x a ?y }"}, 400, "not SPARQL: it goes wrong at 'WHERE', or just before"),
        ({"query": QUERY, "default-graph-uri": "urn:g"}, 400, "one graph"),
        ({"query": QUERY, "update": "DROP ALL"}, 400, "cannot be changed"),
        ({"update": "DROP ALL"}, 400, "cannot be changed"),
        ({"query": QUERY, "predicted": "perhaps"}, 400, "say true or false"),
        ({"query": QUERY, "predicted": "true", "min-degree": "2"}, 400, "say a number from 0 to 1"),
        ({"query": "SELECT ?x " + "{" * 9_000 + "}" * 9_000}, 400, "nested too deeply"),
        ({"query": "ASK { ?x a ?y }", "predicted": "true"}, 400, "SELECT of one variable over a tree"),
        ({"query": "SELECT ?x ?y { ?x ?p ?y }", "predicted": "true"}, 400, "one variable"),
        ({"query": "SELECT ?x { ?x <urn:p> ?y . ?y <urn:p> ?x }", "predicted": "true"}, 400, "not a tree"),
        ({"query": "SELECT ?x { ?x a <urn:c> }", "predicted": "true"}, 400, "no concept"),
    ],
)
def test_errors_as_the_protocol_says(
    client: httpx.Client, parameters: dict[str, str], status: int, reason: str
) -> None:
    reply = client.get("/sparql", params=parameters)
    assert reply.status_code == status
    assert reply.headers["content-type"] == "application/problem+json"
    assert reason in reply.json()["detail"]


def test_a_mistake_has_its_place(client: httpx.Client) -> None:
    text = "# ünï\nSELECT ?x {\n  ?x a 'wrong }"
    found = client.get("/sparql", params={"query": text}).json()
    assert text.index("'wrong") <= found["position"] <= len(text)


def test_blank_parameters_say_nothing(client: httpx.Client, expected: list[str]) -> None:
    blank = {"default-graph-uri": "", "named-graph-uri": "", "format": "", "output": "", "predicted": "", "timeout": ""}
    found = client.get("/sparql", params={"query": QUERY, **blank}).json()
    assert sorted(row["person"]["value"] for row in found["results"]["bindings"]) == expected


def test_posts(client: httpx.Client, expected: list[str]) -> None:
    sent = client.post("/sparql", content=QUERY, headers={"Content-Type": "application/sparql-query; charset=utf-8"})
    assert sorted(row["person"]["value"] for row in sent.json()["results"]["bindings"]) == expected
    assert client.post("/sparql", json={"query": QUERY}).status_code == 415
    assert client.post("/sparql", data={"update": "DROP ALL"}).status_code == 400
    assert client.post("/sparql", data={"format": "json"}).status_code == 400
    assert client.post("/sparql", data={f"p{at}": "x" for at in range(60)}).status_code == 400


@pytest.mark.parametrize("tail", ["}LIMIT 2 OFFSET 3", "} OFFSET 3\nLIMIT 2 # LIMIT 1", "}offset 3 limit 2"])
def test_predicted_lists_have_parts(client: httpx.Client, expected: list[str], tail: str) -> None:
    text = QUERY.removesuffix("}") + tail
    reply = client.get("/sparql", params={"query": text, "predicted": "true"})
    assert reply.json()["head"]["vars"] == ["person", "degree", "status"]
    rows = reply.json()["results"]["bindings"]
    assert [row["person"]["value"] for row in rows] == expected[3:5]
    assert {(row["degree"]["value"], row["status"]["value"]) for row in rows} == {("1", "known")}
    assert reply.headers["x-total-count"] == str(len(expected))
    none = client.get("/sparql", params={"query": QUERY + "LIMIT 0", "predicted": "true"}).json()
    assert none["results"]["bindings"] == []


def test_what_the_query_calls_degree_stays_its_own(client: httpx.Client) -> None:
    asked = {"query": QUERY.replace("?person", "?degree"), "predicted": "true"}
    assert client.get("/sparql", params=asked).json()["head"]["vars"] == ["degree", "degree_1", "status"]
    assert client.get("/sparql", params={**asked, "format": "csv"}).text.startswith("degree,degree_1,status\r\n")


ENDLESS = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"
EVERY_PAIR = "SELECT * { ?a ?b ?c . ?d ?e ?f }"


def test_queries_have_limits(serve: Any) -> None:
    settings = ServerSettings(port=0, bounds=Bounds(seconds=2, result=100_000, memory=200_000_000))
    with serve(settings) as address, httpx.Client(base_url=address, timeout=30) as client:
        large = client.get("/sparql", params={"query": EVERY_PAIR})
        assert (large.status_code, large.json()["type"]) == (400, "urn:tarbox:problem:too-large")
        assert "more than 100,000 bytes" in large.json()["detail"]
        sorted_ = client.get("/sparql", params={"query": f"{EVERY_PAIR} ORDER BY ?f"})
        assert sorted_.status_code == 400
        assert "190 MiB of memory" in sorted_.json()["detail"]
        began = time.monotonic()
        for _ in range(3):
            slow = client.get("/sparql", params={"query": ENDLESS})
            assert (slow.status_code, slow.json()["type"]) == (503, "urn:tarbox:problem:timeout")
        assert client.get("/sparql", params={"query": "ASK {}"}).json()["boolean"] is True
        assert time.monotonic() - began < 12  # given up means ended: nothing is left that others wait for


def test_a_query_reaches_no_other_server(client: httpx.Client) -> None:
    heard: list[str] = []

    class Listener(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(self.path)
            self.send_error(500)

    with http.server.HTTPServer(("127.0.0.1", 0), Listener) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        place = f"<http://127.0.0.1:{other.server_port}/>"
        refused = client.get("/sparql", params={"query": f"SELECT * {{ SERVICE {place} {{ ?a ?b ?c }} }}"})
        silent = client.get("/sparql", params={"query": f"SELECT * {{ SERVICE SILENT {place} {{ ?a ?b ?c }} }}"})
        other.shutdown()
    assert refused.status_code == 400
    assert "SERVICE reaches nothing from here" in refused.json()["detail"]
    assert silent.json()["results"]["bindings"] == [{}]
    assert heard == []


def test_a_process_that_dies_is_replaced(kb: KnowledgeBase) -> None:
    async def ask() -> None:
        client = BoundedEngine(kb, EngineLimits(seconds=5))
        try:
            first = await client.ask(QUERY, "", "csv")
            assert client._started is not None
            process, _ = client._started
            process.kill()
            process.wait()
            assert sorted((await client.ask(QUERY, "", "csv"))[0]) == sorted(first[0])
            with pytest.raises(QueryTooLarge):
                await client.ask("SELECT ?x " + "{" * 9_000 + "}" * 9_000, "", "")
        finally:
            client.close()

    asyncio.run(ask())
