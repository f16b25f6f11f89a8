"""Every route of the API, on academia."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from tarbox.cli.main import app as cli
from tarbox.service.knowledge_base import KnowledgeBase

NS = "https://tarbox.example/academia#"
FIGURE_1 = "interestedIn some ((inverse investigates value GeoffreyHinton) and (inverse uses value Google))"
CANADA = "Person and (worksAt some (University and locatedIn value Canada)) and not (bornIn value Canada)"


def test_both_lists(client: httpx.Client, kb: KnowledgeBase) -> None:
    reply = client.get("/api/answer", params={"query": FIGURE_1, "k": 3})
    assert reply.status_code == 200
    content, expected = reply.json(), kb.answer(FIGURE_1, k=3)
    assert [item["iri"] for item in content["entities"]] == [item.iri for item in expected.entities]
    assert [item["iri"] for item in content["concepts"]] == [item.iri for item in expected.concepts]
    assert content["concepts"][0]["coverage"] == pytest.approx(expected.concepts[0].coverage)
    assert (content["entity_count"], content["concept_count"]) == (expected.entity_count, expected.concept_count)
    assert content["canonical"] == content["query"] == FIGURE_1
    assert content["english"].startswith("everything that is interested in")
    assert content["milliseconds"] > 0
    assert set(content["entities"][0]) == {"iri", "label", "name", "degree", "status"}


def test_posting_a_question_gives_the_same(client: httpx.Client) -> None:
    got = client.get("/api/answer", params={"query": CANADA}).json()
    posted = client.post("/api/answer", json={"query": CANADA}).json()
    assert {**got, "milliseconds": 0} == {**posted, "milliseconds": 0}
    assert posted["entity_count"] == 7


def test_one_schema_everywhere(client: httpx.Client, kb: KnowledgeBase, store: Path) -> None:
    """Python, command and HTTP give the same keys and the same values."""
    over_http = client.get("/api/answer", params={"query": FIGURE_1, "k": 3}).json()
    assert over_http.pop("milliseconds") > 0
    assert kb.answer(FIGURE_1, k=3).to_json() == over_http
    said = CliRunner().invoke(cli, ["ask", str(store), FIGURE_1, "-k", "3", "--json"])
    assert json.loads(said.stdout) == over_http


def test_a_list_is_continued(client: httpx.Client) -> None:
    def iris(**more: object) -> tuple[list[str], list[str]]:
        found = client.get("/api/answer", params={"query": "Person", **more}).json()
        assert found["known_count"] == 164  # counts are of all
        return tuple([item["iri"] for item in found[kind]] for kind in ("entities", "concepts"))  # type: ignore[return-value]

    whole, parts = iris(k=1_000), [iris(k=50, offset=offset) for offset in (0, 50, 100, 150)]
    assert ([iri for part in parts for iri in part[0]], [iri for part in parts for iri in part[1]]) == whole
    assert iris(status="predicted", k=5) == ([], [])
    assert iris(status="known", k=5, offset=1)[0] == whole[0][1:6]
    assert iris(offset=1_000_000) == ([], [])


def test_many_questions_at_once(client: httpx.Client) -> None:
    asked = [{"query": CANADA}, {"query": "Persn"}, {"query": "Person", "k": 1, "offset": 2}]
    found = client.post("/api/answers", json={"questions": asked}).json()["answers"]
    alone = [client.post("/api/answer", json=each).json() for each in asked]
    assert [{**each, "milliseconds": 0} for each in found] == [{**each, "milliseconds": 0} for each in alone] or (
        found[1] == alone[1] and found[0]["entities"] == alone[0]["entities"]
    )
    assert found[1]["status"] == 400
    for wrong in ([], asked * 50):
        assert client.post("/api/answers", json={"questions": wrong}).status_code == 400


def test_a_reply_that_a_client_has_is_not_sent_again(client: httpx.Client) -> None:
    for path in ("/api/kb", "/api/answer?query=Person", "/sparql?query=ASK%20%7B%7D"):
        first = client.get(path)
        again = client.get(path, headers={"If-None-Match": f'"x", {first.headers["etag"]}'})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
        assert client.get(path, headers={"If-None-Match": '"x"'}).status_code == 200
    others = [client.get(f"/api/answer?query={query}").headers["etag"] for query in ("Person", "City")]
    assert len({*others}) == 2
    assert "etag" not in client.get("/api/answer?query=Persn").headers
    assert client.get("/health").headers["cache-control"] == "no-store"


def test_long_replies_are_compressed(client: httpx.Client) -> None:
    for path in (
        "/api/answer?query=Person&k=100",
        "/api/kb",
        "/",
        "/sparql?query=SELECT%20*%20%7B%3Fa%20%3Fb%20%3Fc%7D",
    ):
        plain = client.get(path, headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        packed = client.get(path, headers={"Accept-Encoding": "gzip"})
        assert packed.headers["content-encoding"] == "gzip"
        assert int(packed.headers["content-length"]) < len(plain.content) / 2
        assert len(packed.text) == pytest.approx(len(plain.text), abs=8)
        assert "Accept-Encoding" in packed.headers["vary"]
    assert "content-encoding" not in client.get("/health", headers={"Accept-Encoding": "gzip"}).headers


def test_whether_it_is_ready(client: httpx.Client) -> None:
    for path in ("/health", "/ready"):
        assert client.get(path).json()["workers"] == {"up": 1, "expected": 1}


def test_a_name_is_what_a_query_can_say(client: httpx.Client) -> None:
    found = client.get("/api/answer", params={"query": CANADA}).json()["entities"]
    listed = "{" + ", ".join(item["name"] for item in found) + "}"
    again = client.get("/api/answer", params={"query": listed}).json()["entities"]
    assert [item["iri"] for item in again] == [item["iri"] for item in found]


def test_sparql_that_is_not_said_to_be_is_recognised(client: httpx.Client) -> None:
    for text in (f"PREFIX : <{NS}> SELECT ?x {{ ?x a :Person }}", "ask { ?x ?y ?z }", "# of all\nSELECT * {}"):
        for route in ("answer", "drawing"):
            told = client.get(f"/api/{route}", params={"query": text}).json()
            assert "this is SPARQL" in told["detail"]
            assert told["position"] == 0
    assert "no concept 'Select'" in client.get("/api/drawing", params={"query": "Select and Person"}).json()["detail"]


def test_sparql_is_a_language_too(client: httpx.Client) -> None:
    query = f"SELECT ?x {{ <{NS}GeoffreyHinton> <{NS}investigates> ?x }}"
    content = client.post("/api/answer", json={"query": query, "language": "sparql"}).json()
    assert content["canonical"] == "inverse investigates value GeoffreyHinton"
    assert content["query"] == query


def test_a_long_question_is_answered(client: httpx.Client) -> None:
    query = " or ".join(["worksAt value Google"] * 90)
    content = client.post("/api/answer", json={"query": query}).json()
    assert (
        content["entity_count"]
        == client.get("/api/answer", params={"query": "worksAt value Google"}).json()["entity_count"]
    )


def test_an_entity_s_explanation(client: httpx.Client) -> None:
    answer = client.get("/api/answer", params={"query": CANADA}).json()["entities"][0]
    content = client.get("/api/explain", params={"query": CANADA, "answer": answer["iri"]}).json()
    assert content["sentence"].startswith(f"{answer['label']} is an answer because")
    nodes = {node["id"]: node for node in content["nodes"]}
    assert [node["label"] for node in nodes.values() if node["kind"] == "answer"] == [answer["label"]]
    assert [node["label"] for node in nodes.values() if node["kind"] == "entity"] == ["Canada"]
    for edge in content["edges"]:
        assert edge["status"] == "known"
        source, target = nodes[edge["source"]]["label"], nodes[edge["target"]]["label"]
        assert source in content["steps"][edge["step"]]
        assert target in content["steps"][edge["step"]]
    assert "born in Canada" in content["steps"][-1]


def test_a_concept_s_explanation(client: httpx.Client) -> None:
    concept = client.get("/api/answer", params={"query": CANADA}).json()["concepts"][0]
    content = client.get("/api/explain", params={"query": CANADA, "answer": concept["iri"], "level": "concept"}).json()
    assert content["steps"][0].startswith(f"4 of 7 answers are instances of {concept['label']}")
    assert [node["iri"] for node in content["nodes"] if node["kind"] == "answer"] == [concept["iri"]]


def test_a_drawing(client: httpx.Client) -> None:
    content = client.get("/api/drawing", params={"query": "worksAt value <" + NS + "Google>"}).json()
    assert content["svg"].startswith("<svg ")
    assert content["canonical"] == "worksAt value Google"
    assert content["english"] == "everything that works at Google"


@pytest.mark.parametrize(
    ("prefix", "role", "name"),
    [
        ("goggle", None, "Google"),
        ("geof", "entity", "GeoffreyHinton"),
        ("hinton", "entity", "GeoffreyHinton"),
        ("univ", "concept", "University"),
        ("worsk", "relation", "worksAt"),
        ("'Turing Award l", "concept", "TuringLaureate"),
        (":Goog", "entity", "Google"),
    ],
)
def test_completion(client: httpx.Client, prefix: str, role: str | None, name: str) -> None:
    parameters = {"prefix": prefix} | ({"role": role} if role else {})
    found = client.get("/api/complete", params=parameters).json()
    assert name in [item["name"] for item in found[:3]]
    assert role is None or {item["role"] for item in found} == {role}
    assert len(found) <= 10


def test_completion_keeps_to_its_limit(client: httpx.Client) -> None:
    found = client.get("/api/complete", params={"prefix": "u", "limit": 3}).json()
    assert len(found) == 3
    assert client.get("/api/complete", params={"prefix": "zzzzzzzzzz"}).json() == []


def test_the_knowledge_base(client: httpx.Client, kb: KnowledgeBase) -> None:
    content = client.get("/api/kb").json()
    assert content["title"] == "academia"
    assert content["model"] is None
    assert content["counts"] == kb.facts.counts()
    assert content["prefixes"]["academia"] == NS
    assert content["relations"][0]["count"] >= content["relations"][1]["count"] > 0
    assert 3 <= len(content["examples"]) <= 6
    for example in content["examples"]:
        found = client.get("/api/answer", params={"query": example["query"]}).json()
        assert found["entity_count"] == example["entity_count"] > 0
        assert found["concept_count"] > 0
        assert found["english"] == example["english"]


@pytest.mark.parametrize("name", [NS + "Person", f"<{NS}Person>", "Person", "person"])
def test_a_concept(client: httpx.Client, kb: KnowledgeBase, name: str) -> None:
    content = client.get(f"/api/concepts/{httpx.QueryParams({'_': name})!s}".replace("_=", "", 1)).json()
    assert content["iri"] == f"<{NS}Person>"
    assert content["count"] == len(kb.members("Person")) > 20
    assert [parent["label"] for parent in content["parents"]] == ["Agent"]
    assert "Researcher" in [child["name"] for child in content["children"]]
    assert [line["label"] for line in content["paths"][0]] == ["Agent", "Person"]
    assert len(content["instances"]) == 20
    assert 0 < content["specificity"] < 1
    assert content["equivalents"] == []


def test_the_classes_around_an_expression(client: httpx.Client) -> None:
    content = client.get("/api/concept", params={"expression": "Person and worksAt min 2 University", "k": 2}).json()
    assert [each["label"] for each in content["superclasses"]] == ["Agent", "Person"]
    assert [each["label"] for each in content["direct_superclasses"]] == ["Person"]
    assert len(content["instances"]) == min(2, content["instance_count"])
    whole = client.get("/api/concept", params={"expression": "owl:Thing"}).json()
    assert whole["class_counts"]["subclasses"] == len(whole["subclasses"]) > 12
    pages = [client.get("/api/concept", params={"expression": "owl:Thing", "limit": 5, "offset": n}).json()
             for n in range(0, 100, 5)]  # fmt: skip
    for key, number in whole["class_counts"].items():
        assert [each for page in pages for each in page[key]] == whole[key]
        assert {len(page[key]) for page in pages} <= set(range(6))
        assert {page["class_counts"][key] for page in pages} == {number}
    wrong = client.get("/api/concept", params={"expression": "Persn"})
    assert wrong.status_code == 400
    assert "Person" in str(wrong.json())


def test_health_and_metrics(client: httpx.Client) -> None:
    assert client.get("/health").json()["status"] == "ok"
    client.get("/api/answer", params={"query": "Person"})
    reply = client.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert re.search(r'tarbox_requests_total\{route="/api/answer",status="200"\} \d+', reply.text)
    assert re.search(r"tarbox_batch_size_count \d+", reply.text)
    assert "process_resident_memory_bytes" in reply.text
    counts = [
        int(n) for n in re.findall(r'tarbox_request_seconds_bucket\{le="[^"]+",route="/health"\} (\d+)', reply.text)
    ]
    assert counts == sorted(counts)
    assert counts[-1] > 0


def test_the_page_and_its_files(client: httpx.Client) -> None:
    reply = client.get("/")
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/html")
    for link in re.findall(r'(?:src|href)="([^":#]+)"', reply.text):
        found = client.get("/" + link)
        assert found.status_code == 200, link
        suffix = link.rpartition(".")[2]
        expected = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}.get(suffix)
        assert expected is None or found.headers["content-type"].startswith(expected)


@pytest.mark.parametrize("path", ["/", "/health", "/api/kb", "/nothing", "/api/answer", "/sparql"])
def test_security_headers_go_with_every_reply(client: httpx.Client, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert "server" not in headers


def test_the_policy_allows_the_style_of_drawings(client: httpx.Client) -> None:
    import base64
    import hashlib

    svg = client.get("/api/drawing", params={"query": CANADA}).json()["svg"]
    style = re.search("<style>(.*?)</style>", svg, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"'sha256-{digest}'" in client.get("/").headers["content-security-policy"]


def test_documentation_needs_no_other_site(client: httpx.Client) -> None:
    assert client.get("/docs").status_code == 404
    schema = client.get("/openapi.json").json()
    assert schema["openapi"].startswith("3.1")
    assert "422" not in str(schema["paths"])
    assert {"/api/answer", "/api/answers", "/api/kb", "/health", "/ready", "/sparql"} < set(schema["paths"])
    assert schema["components"]["schemas"]["AnswerReply"]["examples"]
